use super::*;
use crate::exchange::attempt::Head;
use crate::exchange::testing::{World, chat, header, lines_of, request, said};

type Answered = Result<(Committed, ReplyHead), Box<Answer>>;

fn reply(status: u16, lines: &[&str]) -> response::Parts {
    let mut parts = http::Response::new(()).into_parts().0;
    parts.status = StatusCode::from_u16(status).unwrap();
    parts.headers = lines_of(lines);
    parts
}

fn answered_to(parts: http::request::Parts, model: &str, reply: response::Parts) -> Answered {
    let mut world = World::new();
    world.rules.max_retries = 0;
    let (attempt, _) = world.first(parts, model).unwrap();
    let mut budget = core::mem::take(&mut world.budget);
    match attempt.head(reply, &mut budget, world.node())? {
        Head::Commit(committed, head) => Ok((committed, head)),
        other => panic!("not passed on: {other:?}"),
    }
}

fn answered(status: u16, lines: &[&str]) -> Answered {
    answered_to(chat("three"), "m1", reply(status, lines))
}

const JSON: &str = "content-type: application/json";
const EVENTS: &str = "content-type: text/event-stream; charset=utf-8";

#[test]
fn an_answer_passes_with_its_marks() {
    let lines = [JSON, "set-cookie: a=1", "set-cookie: b=2", "connection: close, x-gone", "x-gone: 1"];
    let (committed, head) = answered(200, &lines).unwrap();
    assert_eq!(head.status, 200);
    assert_eq!(head.headers.get_all("set-cookie").iter().count(), 2);
    for (name, value) in [("x-appproxy-model", "m1"), ("x-ratelimit-remaining-requests", "2"), ("x-gone", "")] {
        assert_eq!(header(&head.headers, name), value);
    }
    assert!(header(&head.headers, "x-appproxy-backend").starts_with("appproxy-"));
    assert_eq!(header(&head.headers, "x-request-id"), committed.trail().request_id());
}

#[test]
fn r2_a_replicas_own_verdict_on_the_request_passes_unchanged() {
    for status in [400, 401, 403, 404, 409, 413, 422] {
        for lines in [&[JSON][..], &["content-type: text/html"], &["content-length: 0"]] {
            let (_, head) = answered(status, lines).unwrap();
            assert_eq!(head.status, status);
            assert_eq!(head.headers.get("retry-after"), None);
        }
    }
}

#[test]
fn r2_a_refusal_of_our_own_credential_is_not_the_clients_affair() {
    for (status, wanted) in [(401, "502 upstream_error"), (403, "502 upstream_error")] {
        let answer = answered_to(chat("root"), "gpt", reply(status, &[JSON])).unwrap_err();
        assert_eq!(said(&answer), wanted);
        assert_eq!(answer_backend(&answer), "openai");
        let trail = &answer.outcome.trail;
        assert_eq!(trail.credential_refused().map(|name| &**name), Some("openai"));
        assert_eq!(trail.attempted()[0].ended.end, AttemptEnd::Answered(status));
    }
    assert!(answered_to(chat("root"), "gpt", reply(404, &[JSON])).is_ok());
}

fn answer_backend(answer: &Answer) -> &str {
    header(&answer.headers, "x-appproxy-backend")
}

#[test]
fn r6_errors_keep_their_class_and_time_to_wait() {
    let (_, head) = answered(429, &[JSON, "retry-after: 7"]).unwrap();
    assert_eq!((head.status.as_u16(), header(&head.headers, "retry-after")), (429, "7"));
    const TEXT: &str = "content-type: text/plain";
    for (status, kind) in [(429, JSON), (503, TEXT)] {
        let (_, head) = answered(status, &[kind]).unwrap();
        assert_eq!(header(&head.headers, "retry-after"), "1", "{status}");
    }
    let (_, head) = answered(500, &[TEXT]).unwrap();
    assert_eq!((head.status.as_u16(), head.headers.get("retry-after")), (500, None));
    for (status, lines, wait) in [
        (503, &["content-type: text/html; charset=utf-8", "retry-after: 7"][..], "7"),
        (503, &["content-type: TEXT/HTML"], "1"),
        (500, &["content-length: 0", JSON], ""),
        (502, &[], ""),
    ] {
        let answer = answered(status, lines).unwrap_err();
        assert_eq!(said(&answer), format!("{status} upstream_error"));
        assert_eq!(header(&answer.headers, "retry-after"), wait);
        let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(body["error"]["code"], "upstream_error");
    }
}

#[test]
fn a_broken_stream_ends_with_an_error_event_and_anything_else_breaks() {
    let ends = [EndOfBody::UpstreamBroke, EndOfBody::UpstreamIdle];
    for (lines, adds) in [
        (&[EVENTS][..], true),
        (&["content-type: Text/Event-Stream"], true),
        (&[EVENTS, "content-encoding: gzip"], false),
        (&[EVENTS, "content-length: 100"], false),
        (&[JSON], false),
        (&[], false),
    ] {
        let (committed, _) = answered(200, lines).unwrap();
        for end in ends {
            assert_eq!(committed.last_words(end).is_some(), adds, "{lines:?}");
        }
        for end in [EndOfBody::Complete, EndOfBody::DownstreamGone] {
            assert_eq!(committed.last_words(end), None);
        }
    }
    let messages = request("POST", "/v1/messages", &["x-api-key: all"]);
    let (committed, _) = answered_to(messages, "m1", reply(200, &[EVENTS])).unwrap();
    let words = committed.last_words(EndOfBody::UpstreamBroke).unwrap();
    assert!(words.starts_with(b"event: error\ndata: {") && words.ends_with(b"}\n\n"));
}

#[test]
fn after_a_half_sent_event_comes_a_blank_line() {
    for (chunks, whole) in [
        (&[][..], true),
        (&["data: x\n\n"], true),
        (&["data: x\n", "\n"], true),
        (&["data: x\r", "\n", "\r", "\n"], true),
        (&["data: x\r\r"], true),
        (&["\n\n"], true),
        (&["data: x"], false),
        (&["data: x\n"], false),
        (&["data: x\n\n", ": ping\n"], false),
        (&["data: x\r\n"], false),
        (&["data: x\n\n", "data: {\"t\":\"a"], false),
        (&["\n"], false),
        (&["", "data: x\n\n", ""], true),
    ] {
        let (mut committed, _) = answered(200, &[EVENTS]).unwrap();
        for chunk in chunks {
            committed.passed(chunk.as_bytes());
        }
        let words = committed.last_words(EndOfBody::UpstreamIdle).unwrap();
        assert_eq!(words.starts_with(b"data: "), whole, "{chunks:?}");
        assert_eq!(words.starts_with(b"\n\ndata: "), !whole, "{chunks:?}");
    }
}

#[test]
fn the_record_says_how_it_ended() {
    let (mut committed, _) = answered(200, &[JSON]).unwrap();
    committed.passed(b"{\"a\":");
    committed.passed(b"1}");
    let outcome = committed.ended(EndOfBody::Complete);
    assert_eq!((outcome.status.as_u16(), outcome.body_bytes, outcome.end), (200, 7, EndOfBody::Complete));
    assert_eq!(outcome.denial, None);
    let trail = &outcome.trail;
    assert_eq!((trail.method().as_str(), trail.path(), trail.attempts()), ("POST", "/v1/chat/completions", 1));
    assert_eq!(trail.known_model().map(|name| &**name), Some("m1"));
    assert_eq!(trail.key_id().map(|id| id.as_str()), Some("id-of-three"));
    assert!(trail.backend().is_some());
}

#[test]
fn an_upgrade_that_nobody_asked_for_is_no_answer() {
    let answer = answered(101, &["upgrade: websocket"]).unwrap_err();
    assert_eq!(said(&answer), "502 upstream_error");
}

#[test]
fn a_model_name_of_any_length_is_cut_where_it_is_told() {
    let mut world = World::new();
    let name = "n".repeat(crate::limits::QUOTED_CHARS + 1);
    let answer = world.answer(chat("root"), &format!("{{\"model\":\"{name}\"}}"));
    assert_eq!(said(&answer), "404 model_not_found");
    assert_eq!(header(&answer.headers, "x-appproxy-model").len(), crate::limits::QUOTED_CHARS);
    assert_eq!(answer.outcome.trail.model().map(|name| name.len()), Some(crate::limits::QUOTED_CHARS));
}
