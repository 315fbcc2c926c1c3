//! Answers made here: refusals, listings and pages.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Method, StatusCode, Uri};

use super::denial::{Code, Denial};
use super::facts::Facts;
use super::headers;
use super::http1;
use super::outcome::{EndOfBody, Outcome, Trail};
use super::passage::client_gone;
use crate::defects::{Defect, has};
use crate::seed::Draws;
use crate::time::Moment;

/// A whole answer that no replica had a part in, with its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// All headers.
    pub headers: HeaderMap,
    /// The body; the shell leaves it out for `HEAD`.
    pub body: Bytes,
    /// The record.
    pub outcome: Outcome,
}

impl Answer {
    /// Refuses a request that never got as far as `Gate::open` (no slot for it, head not readable). Give what is known
    /// of it: path and headers decide the shape and the request id.
    #[must_use]
    pub fn early(
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        denial: &Denial,
        now: Moment,
        draws: &mut Draws,
    ) -> Box<Self> {
        let trail = Trail::begun(method, uri, headers::request_id(headers, &Facts::of(headers), draws), now);
        Self::refusal(trail, denial)
    }

    /// The whole answer as HTTP/1.1, after which the connection closes: for a shell whose HTTP library never saw the
    /// request.
    #[must_use]
    pub fn http1(&self) -> Vec<u8> {
        let mut wire = format!("HTTP/1.1 {}\r\nconnection: close\r\n", self.status).into_bytes();
        for (name, value) in &self.headers {
            http1::line(name, value, &mut wire);
        }
        wire.extend_from_slice(b"\r\n");
        wire.extend_from_slice(&self.body);
        wire
    }

    pub(super) fn refusal(trail: Trail, denial: &Denial) -> Box<Self> {
        let body = denial.body(trail.surface, trail.request_id());
        let mut answer = Self::json(trail, denial.status, body, Some(denial.code));
        if let Some(seconds) = denial.retry_after {
            answer.headers.insert(RETRY_AFTER, seconds.into());
        }
        if let Some(allow) = denial.allow {
            answer.headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        if denial.status == StatusCode::UNAUTHORIZED {
            answer.headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        answer
    }

    /// The client went away in the middle of its body. Most do not hear it; one that only closed its side does, and must
    /// not take the silence for success. The record has it as gone.
    pub(super) fn broken_off(trail: Trail) -> Box<Self> {
        if has(Defect::HalfBodyAnswered) {
            return Self::empty(trail, StatusCode::OK, HeaderMap::new());
        }
        let mut answer = Self::refusal(trail, &Denial::body_broken_off());
        answer.outcome.status = client_gone();
        answer.outcome.denial = None;
        answer.outcome.end = EndOfBody::DownstreamGone;
        answer
    }

    /// An answer without a body.
    pub(super) fn empty(trail: Trail, status: StatusCode, mut headers: HeaderMap) -> Box<Self> {
        headers::mark(&mut headers, &trail);
        let outcome = trail.end(status, None, EndOfBody::Complete);
        Box::new(Self { status, headers, body: Bytes::new(), outcome })
    }

    /// A replica's answer, which was read whole.
    pub(super) fn passed(trail: Trail, status: StatusCode, headers: HeaderMap, body: Bytes) -> Box<Self> {
        let mut outcome = trail.end(status, None, EndOfBody::Complete);
        outcome.body_bytes = u64::try_from(body.len()).unwrap_or(u64::MAX);
        Box::new(Self { status, headers, body, outcome })
    }

    pub(super) fn json(trail: Trail, status: StatusCode, body: Bytes, denial: Option<Code>) -> Box<Self> {
        let mut answer_headers = HeaderMap::with_capacity(10);
        answer_headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        answer_headers.insert(CONTENT_LENGTH, body.len().into());
        headers::mark(&mut answer_headers, &trail);
        let mut outcome = trail.end(status, denial, EndOfBody::Complete);
        outcome.body_bytes = u64::try_from(body.len()).unwrap_or(u64::MAX);
        Box::new(Self { status, headers: answer_headers, body, outcome })
    }
}
