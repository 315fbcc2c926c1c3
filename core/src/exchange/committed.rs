//! An answer whose head is on its way: from here on it can only end (data-plane 3.4, 3.10).

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use http::{StatusCode, response};

use super::answer::Answer;
use super::attempt::{Head, upstream_error};
use super::denial::{Code, Denial, RETRY_AFTER_SECONDS, stream_error_event};
use super::explained::Explained;
use super::headers;
use super::load::Ticket;
use super::outcome::{EndOfBody, Outcome, Trail};
use super::passage::Carried;
use super::usage;
use crate::defects::{Defect, has};
use crate::desired::Backend;
use crate::serving::AttemptEnd;

/// The head to send to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyHead {
    /// The replica's status.
    pub status: StatusCode,
    /// The replica's headers, without what is not for the client, with ours.
    pub headers: HeaderMap,
}

/// A running answer. It can only end: what an attempt may still do, it may not.
///
/// ```
/// # use appproxy_core::exchange::*;
/// fn fails(attempt: Attempt, budget: &mut RetryBudget, node: Node<'_>) {
///     let _ = attempt.failed(FailStage::AwaitHead, Failure::Broke, budget, node);
/// }
/// ```
///
/// ```compile_fail,E0599
/// # use appproxy_core::exchange::*;
/// fn fails(committed: Committed, budget: &mut RetryBudget, node: Node<'_>) {
///     let _ = committed.failed(FailStage::AwaitHead, Failure::Broke, budget, node);
/// }
/// ```
///
/// Nor is the attempt still there once its answer began:
///
/// ```compile_fail,E0382
/// # use appproxy_core::exchange::*;
/// fn both(attempt: Attempt, reply: http::response::Parts, budget: &mut RetryBudget, node: Node<'_>) {
///     let _ = attempt.head(reply, budget, node);
///     let _ = attempt.failed(FailStage::AwaitHead, Failure::Broke, budget, node);
/// }
/// ```
#[derive(Debug)]
#[must_use = "an answer ends by `ended`"]
pub struct Committed {
    trail: Trail,
    status: StatusCode,
    /// Whether it is the WebSocket that was asked for.
    upgraded: bool,
    /// Whether an error event can be added to the body: it is an uncompressed event stream without a length.
    event_stream: bool,
    body_bytes: u64,
    tail: Tail,
    usage: Option<usage::Reader>,
    /// Its place at the replica, given back with it.
    _ticket: Ticket,
}

impl Committed {
    /// What is known of the request.
    #[must_use]
    pub const fn trail(&self) -> &Trail {
        &self.trail
    }

    /// Whether the replica took up the WebSocket that the client asked for (status 101): once the head is sent, both
    /// connections carry bytes that are nobody's but the client's and the replica's, until one of them ends.
    #[must_use]
    pub const fn is_upgrade(&self) -> bool {
        self.upgraded
    }

    /// Notes bytes that went to the client over the opened WebSocket.
    pub const fn carried(&mut self, bytes: u64) {
        self.body_bytes = self.body_bytes.saturating_add(bytes);
    }

    /// Notes a chunk that is passed on to the client.
    pub fn passed(&mut self, chunk: &[u8]) {
        self.body_bytes = self.body_bytes.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
        if self.event_stream {
            self.tail.see(chunk);
        }
        if let Some(usage) = &mut self.usage {
            usage.see(chunk);
        }
    }

    /// What to send before the connection is closed, when the replica broke off or fell silent: an error event in an
    /// event stream. `None`: nothing may be added, the connection must break visibly.
    #[must_use]
    pub fn last_words(&self, end: EndOfBody) -> Option<Bytes> {
        let denial = match end {
            EndOfBody::Complete | EndOfBody::DownstreamGone => return None,
            EndOfBody::UpstreamBroke => {
                Denial::new(Code::UpstreamError, "The answer broke off before it was complete. Send the request again.")
            }
            EndOfBody::NodeStopped => Denial::new(
                Code::Overloaded,
                "This server is stopping, and the answer was ended before it was complete. Send the request again.",
            ),
            EndOfBody::UpstreamIdle => Denial::new(
                Code::UpstreamTimeout,
                "The model sent nothing for too long, and the answer was ended. Send the request again.",
            ),
        };
        if has(Defect::FinishedAllTheSame) {
            return Some(Bytes::from_static(b"data: [DONE]\n\n"));
        }
        self.event_stream
            .then(|| stream_error_event(self.trail.surface(), self.tail.boundary(), &denial, self.trail.request_id()))
    }

    /// The answer is over.
    #[must_use]
    pub fn ended(mut self, end: EndOfBody) -> Outcome {
        self.trail.settle(match end {
            EndOfBody::Complete if self.status.is_client_error() && has(Defect::VerdictsCount) => AttemptEnd::BrokeOff,
            EndOfBody::Complete => AttemptEnd::Answered(self.status.as_u16()),
            EndOfBody::UpstreamBroke => AttemptEnd::BrokeOff,
            EndOfBody::UpstreamIdle => AttemptEnd::FellSilent,
            EndOfBody::DownstreamGone | EndOfBody::NodeStopped => AttemptEnd::Abandoned,
        });
        let usage = self.usage.as_ref().and_then(usage::Reader::stated).filter(|_| !has(Defect::UsageUnread));
        let mut outcome = self.trail.end(self.status, None, end);
        outcome.usage = usage;
        outcome.body_bytes = self.body_bytes;
        outcome
    }
}

/// Decides what becomes of a replica's answer by its head.
pub(super) fn commit(
    mut passage: Carried,
    backend: &Backend,
    reply: response::Parts,
    ticket: Ticket,
) -> Result<Head, Box<Answer>> {
    let response::Parts { status, mut headers, .. } = reply;
    let ours_is_wrong = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    if (status.is_client_error() && has(Defect::VerdictsReplaced)) || (ours_is_wrong && backend.credential.is_some()) {
        // The client's key was good; it is our own that the backend refused.
        passage.trail.credential_refused = true;
        return Err(passage.refuse(&upstream_error()));
    }
    let upgraded =
        status == StatusCode::SWITCHING_PROTOCOLS && passage.asks_upgrade() && headers::grants_upgrade(&headers);
    // An upgrade that nobody asked for: what follows is no answer.
    if status.is_informational() && !upgraded {
        return Err(passage.refuse(&upstream_error()));
    }
    let tells = tells_more(&headers) || has(Defect::ErrorPagesPassed);
    if status.is_server_error() && !passage.is_raw() && !tells {
        return Err(reworded(passage, status, &headers));
    }
    let waits = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    if waits && !headers.contains_key(RETRY_AFTER) {
        headers.insert(RETRY_AFTER, RETRY_AFTER_SECONDS.into());
    }
    if Explained::wanted(&passage, status, &headers) {
        return Ok(Head::Explain(Box::new(Explained::new(passage, backend, status, headers, ticket))));
    }
    // Nobody knows what the events of an application look like.
    let events = is_event_stream(&headers) && !passage.is_raw();
    let event_stream = events && !headers.contains_key(CONTENT_LENGTH);
    let states = status.is_success() && !passage.is_raw();
    let usage = states.then(|| usage::Reader::of(passage.trail.surface(), &headers, events)).flatten();
    headers::inbound(&mut headers, &passage.trail, backend);
    if upgraded {
        // What else means one connection only has been taken out.
        for (name, value) in headers::ASK_UPGRADE {
            headers.insert(name, value);
        }
    }
    let committed = Committed {
        trail: passage.end(),
        status,
        upgraded,
        event_stream,
        body_bytes: 0,
        tail: Tail::default(),
        usage,
        _ticket: ticket,
    };
    Ok(Head::Commit(committed, ReplyHead { status, headers }))
}

/// Whether an error's body is worth passing on: an HTML page or nothing at all is not.
fn tells_more(headers: &HeaderMap) -> bool {
    let empty = headers.get(CONTENT_LENGTH).is_some_and(|length| length.as_bytes() == b"0");
    let html = media_type(headers).is_none_or(|kind| kind.eq_ignore_ascii_case(b"text/html"));
    !empty && !html
}

/// The replica's status and time to wait, with words of ours.
fn reworded(passage: Carried, status: StatusCode, headers: &HeaderMap) -> Box<Answer> {
    let message = format!("The server of this model answered with status {}. Try again shortly.", status.as_u16());
    let mut answer = passage.refuse(&Denial::with_status(Code::UpstreamError, status, message));
    if let Some(wait) = headers.get(RETRY_AFTER) {
        answer.headers.insert(RETRY_AFTER, wait.clone());
    }
    answer
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    media_type(headers).is_some_and(|kind| kind.eq_ignore_ascii_case(b"text/event-stream"))
        && !headers.contains_key(CONTENT_ENCODING)
}

fn media_type(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(CONTENT_TYPE)?.as_bytes();
    Some(value.split(|byte| *byte == b';').next()?.trim_ascii())
}

/// The last bytes of a body, as far as the end of an event can be seen in them.
#[derive(Debug, Clone, Copy, Default)]
struct Tail {
    last: [u8; 4],
    /// How many of `last` are bytes of the body, from its end.
    filled: usize,
}

impl Tail {
    fn see(&mut self, chunk: &[u8]) {
        for byte in chunk.get(chunk.len().saturating_sub(self.last.len())..).unwrap_or_default() {
            self.last.rotate_left(1);
            if let Some(place) = self.last.last_mut() {
                *place = *byte;
            }
            self.filled = (self.filled + 1).min(self.last.len());
        }
    }

    /// Whether the body so far ends with a whole event: with an empty line, or with nothing sent at all.
    fn boundary(&self) -> bool {
        self.filled == 0 || [&b"\n\n"[..], b"\r\r", b"\r\n\r\n"].into_iter().any(|end| self.last.ends_with(end))
    }
}

#[cfg(test)]
#[cfg(feature = "appproxy-router")]
#[path = "committed_tests.rs"]
mod tests;
