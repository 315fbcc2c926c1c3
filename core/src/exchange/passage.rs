//! What all states of one exchange carry.

use http::HeaderMap;
use http::request::Parts;
use std::sync::Arc;

use super::answer::Answer;
use super::denial::Denial;
use super::headers::{self, Forwarding};
use super::holder::Holder;
use super::outcome::{EndOfBody, Outcome, Trail};
use super::rules::ExchangeRules;
use super::surface::Destination;
use super::unpack::Coding;

/// The request's head, who asks, and the record so far. Moved from state to state, a dozen times: in a box, so that a
/// move is a pointer's.
pub(super) struct Passage {
    pub(super) parts: Parts,
    pub(super) trail: Trail,
    pub(super) destination: Destination,
    pub(super) holder: Holder,
    pub(super) forwarding: Forwarding,
    /// Of `multipart/form-data`.
    pub(super) boundary: Option<Arc<str>>,
    /// How the body is packed.
    pub(super) coding: Option<Coding>,
    /// What this request decides by chance.
    pub(super) entropy: u64,
}

/// Recorded for a client that went away before it got a status; never sent.
pub(super) const CLIENT_GONE: u16 = 499;

impl core::fmt::Debug for Passage {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // The head holds credentials.
        self.trail.fmt(f)
    }
}

impl Passage {
    pub(super) fn refuse(self, denial: &Denial) -> Box<Answer> {
        Answer::refusal(self.trail, denial)
    }

    /// The headers for any replica.
    pub(super) fn outbound(&self, rules: &ExchangeRules) -> HeaderMap {
        let Self { parts, trail, forwarding, .. } = self;
        let mut headers = headers::outbound(&parts.headers, forwarding, &trail.request_id, rules.forward_credentials);
        if self.asks_upgrade() {
            headers::ask_upgrade(&mut headers);
        }
        headers
    }

    /// Whether the request goes through as it is.
    pub(super) const fn is_raw(&self) -> bool {
        matches!(self.destination, Destination::Raw { .. })
    }

    /// Whether a WebSocket is asked for.
    pub(super) const fn asks_upgrade(&self) -> bool {
        matches!(self.destination, Destination::Raw { upgrade: true })
    }

    pub(super) fn gone(self) -> Outcome {
        self.trail.end(client_gone(), None, EndOfBody::DownstreamGone)
    }
}

pub(super) fn client_gone() -> http::StatusCode {
    http::StatusCode::from_u16(CLIENT_GONE).unwrap_or(http::StatusCode::BAD_REQUEST)
}
