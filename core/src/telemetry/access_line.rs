//! One log line per request (data-plane 7).

use core::time::Duration;

use crate::exchange::Outcome;

/// One request, as its access line says it. No body, no secret, no client address.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AccessLine<'a> {
    /// The request's method.
    pub method: &'a str,
    /// Its path, without the query, cut to [`crate::limits::QUOTED_CHARS`].
    pub path: &'a str,
    /// Its id, as sent both ways.
    pub request_id: &'a str,
    /// The model asked for, or `-`.
    pub model: &'a str,
    /// The id of its key, or `-`.
    pub key_id: &'a str,
    /// The backend tried last, or `-`.
    pub backend: &'a str,
    /// Attempts, failed ones included.
    pub attempts: u32,
    /// The status sent; 499 when the client went away before any was.
    pub status: u16,
    /// From its head to the answer's head, in milliseconds to the microsecond; `None`, which is left out of the line, when
    /// there was none.
    pub first_byte_ms: Option<f64>,
    /// From its head to the answer's end, in milliseconds to the microsecond.
    pub duration_ms: f64,
    /// Body bytes sent to the client.
    pub bytes: u64,
    /// `complete`, or who cut it.
    pub end: &'static str,
}

impl<'a> AccessLine<'a> {
    /// The line of an exchange that took so long.
    #[must_use]
    pub fn of(outcome: &'a Outcome, first_byte: Option<Duration>, took: Duration) -> Self {
        let trail = &outcome.trail;
        Self {
            method: trail.method().as_str(),
            path: trail.shown_path(),
            request_id: trail.request_id(),
            model: trail.model().map_or("-", |model| model),
            key_id: trail.key_id().map_or("-", |key| key.as_str()),
            backend: trail.backend().map_or("-", |backend| backend),
            attempts: trail.attempts(),
            status: outcome.status.as_u16(),
            first_byte_ms: first_byte.map(millis),
            duration_ms: millis(took),
            bytes: outcome.body_bytes,
            end: outcome.end.label(),
        }
    }
}

/// Milliseconds with three decimals at the most.
pub(super) fn millis(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e6).round() / 1e3
}
