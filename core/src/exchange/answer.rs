//! Answers made here: refusals, listings and pages.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Method, StatusCode, Uri};

use super::denial::{Code, Denial};
use super::headers;
use super::outcome::{EndOfBody, Outcome, Trail};
use super::surface::Surface;
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
        let trail = Trail {
            method: method.clone(),
            uri: uri.clone(),
            surface: Surface::of_path(uri.path()),
            request_id: headers::request_id(headers, draws),
            arrived: now,
            key: None,
            rate: None,
            model: None,
            known_model: false,
            backend: None,
            attempts: 0,
        };
        Self::refusal(trail, denial)
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
        answer
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
