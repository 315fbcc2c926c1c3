//! A replica's own error, kept in the caller's shape (data-plane 9; traps R2, R6, T1).
//!
//! Status and time to wait always stay. On OpenAI paths a 4xx passes unread. Else the body is read, which is short: what
//! is in the caller's shape already passes as it is, and of what is not the message is kept.

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap, RETRY_AFTER};
use http::{Method, StatusCode};
use serde_json::Value;

use super::answer::Answer;
use super::denial::{Code, Denial};
use super::headers;
use super::load::Ticket;
use super::outcome::Outcome;
use super::passage::{Carried, Passage};
use super::surface::Surface;
use crate::desired::Backend;
use crate::limits::{EXPLANATION_BYTES, EXPLANATION_CHARS};

/// A replica's error whose body is to be read before it is answered.
#[derive(Debug)]
#[must_use = "it ends by `body` or `gone`"]
pub struct Explained {
    passage: Carried,
    status: StatusCode,
    headers: HeaderMap,
    /// Its place at the replica, given back with it.
    _ticket: Ticket,
}

impl Explained {
    /// Bytes of body to read at most.
    pub const MOST: usize = EXPLANATION_BYTES;

    /// Whether an error is to be read.
    pub(super) fn wanted(passage: &Passage, status: StatusCode, headers: &HeaderMap) -> bool {
        let unread = status.is_client_error() && matches!(passage.trail.surface, Surface::OpenAi | Surface::Rerank);
        let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        (status.is_client_error() || status.is_server_error())
            && !unread
            && !passage.is_raw()
            && passage.parts.method != Method::HEAD
            && headers::is_json(headers)
            && !headers.contains_key(CONTENT_ENCODING)
            && length.is_none_or(|length| length <= Self::MOST)
    }

    pub(super) fn new(
        passage: Carried,
        backend: &Backend,
        status: StatusCode,
        mut headers: HeaderMap,
        ticket: Ticket,
    ) -> Self {
        headers::inbound(&mut headers, &passage.trail, backend);
        Self { passage, status, headers, _ticket: ticket }
    }

    /// The body, or nothing when it broke off, took too long or was longer than [`Self::MOST`].
    #[must_use]
    pub fn body(self, body: Option<Bytes>) -> Box<Answer> {
        let Self { passage, status, mut headers, .. } = self;
        let told = body.as_ref().and_then(|body| serde_json::from_slice::<Value>(body).ok());
        if let (Some(body), Some(told)) = (&body, &told)
            && in_shape(passage.trail.surface, told)
        {
            headers.insert(CONTENT_LENGTH, body.len().into());
            return Answer::passed(passage.end(), status, headers, body.clone());
        }
        let message = told.as_ref().and_then(message).map(|text| text.chars().take(EXPLANATION_CHARS).collect());
        let message = message.unwrap_or_else(|| {
            format!("The server of this model answered with status {}. Try again shortly.", status.as_u16())
        });
        let mut answer = passage.refuse(&Denial::with_status(Code::UpstreamError, status, message));
        if let Some(wait) = headers.get(RETRY_AFTER) {
            answer.headers.insert(RETRY_AFTER, wait.clone());
        }
        answer
    }

    /// The client went away.
    #[must_use]
    pub fn gone(self) -> Outcome {
        self.passage.gone()
    }
}

fn in_shape(surface: Surface, told: &Value) -> bool {
    let Some(error) = told.get("error").filter(|error| error.is_object()) else { return false };
    let text = |name: &str| error.get(name).is_some_and(Value::is_string);
    match surface {
        Surface::OpenAi | Surface::Rerank => text("message"),
        Surface::Anthropic => {
            told.get("type").and_then(Value::as_str) == Some("error") && text("type") && text("message")
        }
        Surface::Gemini => text("message") && text("status") && error.get("code").is_some_and(Value::is_number),
    }
}

/// What it says to a person, wherever servers put it.
fn message(told: &Value) -> Option<&str> {
    let error = told.get("error");
    let detail = told.get("detail");
    [
        error.and_then(|error| error.get("message")),
        error,
        told.get("message"),
        detail,
        detail.and_then(|detail| detail.get(0)?.get("msg")),
        detail.and_then(|detail| detail.get("message")),
    ]
    .into_iter()
    .flatten()
    .find_map(Value::as_str)
    .filter(|text| !text.is_empty())
}

#[cfg(test)]
#[cfg(feature = "appproxy-router")]
mod tests {
    use super::*;
    use crate::exchange::Head;
    use crate::exchange::testing::{World, chat, header, lines_of, request};

    fn explained(path: &str, status: u16, lines: &[&str], body: &str) -> Box<Answer> {
        let mut world = World::new();
        world.rules.max_retries = 0;
        let (attempt, _) = world.first(request("POST", path, &["authorization: Bearer all"]), "m1").unwrap();
        let mut reply = http::Response::new(()).into_parts().0;
        reply.status = StatusCode::from_u16(status).unwrap();
        reply.headers = lines_of(lines);
        let mut budget = core::mem::take(&mut world.budget);
        match attempt.head(reply, &mut budget, world.node()).unwrap() {
            Head::Explain(explained) => explained.body(Some(Bytes::copy_from_slice(body.as_bytes()))),
            other => panic!("not read: {other:?}"),
        }
    }

    fn said(answer: &Answer) -> Value {
        serde_json::from_slice(&answer.body).unwrap()
    }

    const JSON: &str = "content-type: application/json";

    #[test]
    fn t1_a_message_in_another_shape_is_kept_in_the_callers() {
        let bodies = [
            r#"{"error":{"message":"too long","type":"BadRequestError","code":400}}"#,
            r#"{"object":"error","message":"too long","code":400}"#,
            r#"{"detail":"too long"}"#,
            r#"{"detail":[{"loc":["body"],"msg":"too long"}]}"#,
            r#"{"error":"too long"}"#,
        ];
        for body in bodies {
            let answer = explained("/v1/messages", 400, &[JSON], body);
            assert_eq!(answer.status, 400);
            let told = said(&answer);
            assert_eq!(told["type"], "error", "{body}");
            assert_eq!(told["error"]["type"], "invalid_request_error", "{body}");
            assert_eq!(told["error"]["message"], "too long", "{body}");
        }
        let answer = explained("/v1/chat/completions", 500, &[JSON], bodies[2]);
        assert_eq!((answer.status.as_u16(), &said(&answer)["error"]["message"]), (500, &Value::from("too long")));
        let answer = explained("/v1/messages", 429, &[JSON, "retry-after: 7"], bodies[2]);
        assert_eq!((answer.status.as_u16(), header(&answer.headers, "retry-after")), (429, "7"));
    }

    #[test]
    fn a_long_message_is_cut_and_a_longer_body_is_not_read() {
        let long = "m".repeat(EXPLANATION_CHARS + 1);
        let answer = explained("/v1/messages", 400, &[JSON], &format!("{{\"error\":\"{long}\"}}"));
        let told = said(&answer);
        assert_eq!(told["error"]["message"].as_str().map(str::len), Some(EXPLANATION_CHARS));
        let wanted = |length: usize| {
            let mut world = World::new();
            let line = format!("content-length: {length}");
            let (attempt, _) =
                world.first(request("POST", "/v1/messages", &["authorization: Bearer all"]), "m1").unwrap();
            let mut reply = http::Response::new(()).into_parts().0;
            reply.status = StatusCode::BAD_REQUEST;
            reply.headers = lines_of(&[JSON, &line]);
            let mut budget = core::mem::take(&mut world.budget);
            matches!(attempt.head(reply, &mut budget, world.node()), Ok(Head::Explain(_)))
        };
        assert!(wanted(EXPLANATION_BYTES) && !wanted(EXPLANATION_BYTES + 1));
    }

    #[test]
    fn what_is_in_the_callers_shape_passes_as_it_is() {
        let body = r#"{ "type":"error", "error":{"type":"overloaded_error","message":"m"}, "more": 1 }"#;
        let answer = explained("/v1/messages", 529, &[JSON, "x-own: 1"], body);
        assert_eq!((answer.status.as_u16(), &answer.body[..]), (529, body.as_bytes()));
        assert_eq!((header(&answer.headers, "x-own"), header(&answer.headers, "x-appproxy-model")), ("1", "m1"));
        assert_eq!(answer.outcome.denial, None);
        let body = r#"{"error":{"message":"m","type":"x","param":null,"code":null}}"#;
        assert_eq!(explained("/v1/chat/completions", 500, &[JSON], body).body, body.as_bytes());
        // How long to wait is said in any case.
        for (lines, wait) in [(vec![JSON], "1"), (vec![JSON, "retry-after: 7"], "7")] {
            let answer = explained("/v1/chat/completions", 503, &lines, body);
            assert_eq!((&answer.body[..], header(&answer.headers, "retry-after")), (body.as_bytes(), wait));
        }
    }

    #[test]
    fn what_cannot_be_read_still_has_a_status_and_words() {
        for body in ["", "no json", "{}", r#"{"error":{}}"#, r#"{"detail":""}"#, "[1]"] {
            let answer = explained("/v1/messages", 503, &[JSON], body);
            let told = said(&answer);
            assert_eq!((answer.status.as_u16(), &told["error"]["type"]), (503, &Value::from("overloaded_error")));
            assert!(told["error"]["message"].as_str().unwrap().contains("503"), "{told}");
            assert_eq!(header(&answer.headers, "retry-after"), "1");
        }
    }

    #[test]
    fn r2_a_4xx_on_an_openai_path_is_not_even_read() {
        let mut world = World::new();
        let (attempt, _) = world.first(chat("all"), "m1").unwrap();
        let mut reply = http::Response::new(()).into_parts().0;
        reply.status = StatusCode::UNPROCESSABLE_ENTITY;
        reply.headers = lines_of(&[JSON]);
        let mut budget = core::mem::take(&mut world.budget);
        assert!(matches!(attempt.head(reply, &mut budget, world.node()), Ok(Head::Commit(..))));
    }
}
