//! What all states of one exchange carry.

use core::fmt;
use core::ops::{Deref, DerefMut};
use http::request::Parts;
use std::sync::{Arc, Mutex};

use super::admitted::Wanted;
use super::answer::Answer;
use super::connection::Connection;
use super::denial::Denial;
use super::facts::Facts;
use super::holder::Holder;
use super::outcome::{EndOfBody, Outcome, Trail};
use super::states::lock;
use super::surface::Destination;
use super::unpack::Coding;

/// The request's head, who asks, and the record so far.
pub(super) struct Passage {
    pub(super) parts: Parts,
    pub(super) facts: Facts,
    pub(super) trail: Trail,
    pub(super) destination: Destination,
    pub(super) holder: Holder,
    pub(super) connection: Connection,
    /// Whether the peer's own `X-Forwarded-*` are believed.
    pub(super) trusted: bool,
    /// Of `multipart/form-data`.
    pub(super) boundary: Option<Arc<str>>,
    /// How the body is packed.
    pub(super) coding: Option<Coding>,
    /// What this request decides by chance.
    pub(super) entropy: u64,
    /// Nothing until it is admitted.
    pub(super) wanted: Wanted,
}

/// A passage in its room. Moved from state to state, a dozen times: a move is a pointer's. The room goes back to the
/// connection at the end, for the next request.
pub(super) struct Carried(Box<Option<Passage>>);

/// The room that a connection keeps while no request of it is on its way.
#[derive(Debug, Default)]
pub(super) struct Spare(Mutex<Option<Box<Option<Passage>>>>);

/// Recorded for a client that went away before it got a status; never sent.
pub(super) const CLIENT_GONE: u16 = 499;

impl fmt::Debug for Passage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The head holds credentials.
        self.trail.fmt(f)
    }
}

impl fmt::Debug for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A room is given its passage when it becomes a [`Carried`], which only [`Carried::end`] takes out again, with itself.
const FULL: &str = "a passage is carried until its end";

impl Deref for Carried {
    type Target = Passage;

    fn deref(&self) -> &Passage {
        self.0.as_ref().as_ref().expect(FULL)
    }
}

impl DerefMut for Carried {
    fn deref_mut(&mut self) -> &mut Passage {
        self.0.as_mut().as_mut().expect(FULL)
    }
}

impl Carried {
    pub(super) fn new(passage: Passage) -> Self {
        let kept = lock(&passage.connection.spare().0).take();
        match kept {
            Some(mut room) => {
                *room = Some(passage);
                Self(room)
            }
            None => Self(Box::new(Some(passage))),
        }
    }

    /// What is left of it: the record.
    pub(super) fn end(mut self) -> Trail {
        let Passage { trail, connection, .. } = self.0.take().expect(FULL);
        *lock(&connection.spare().0) = Some(self.0);
        trail
    }

    pub(super) fn refuse(self, denial: &Denial) -> Box<Answer> {
        Answer::refusal(self.end(), denial)
    }

    pub(super) fn gone(self) -> Outcome {
        self.end().end(client_gone(), None, EndOfBody::DownstreamGone)
    }
}

impl Passage {
    /// Whether the request goes through as it is.
    pub(super) const fn is_raw(&self) -> bool {
        matches!(self.destination, Destination::Raw { .. })
    }

    /// Whether a WebSocket is asked for.
    pub(super) const fn asks_upgrade(&self) -> bool {
        matches!(self.destination, Destination::Raw { upgrade: true })
    }
}

pub(super) fn client_gone() -> http::StatusCode {
    http::StatusCode::from_u16(CLIENT_GONE).unwrap_or(http::StatusCode::BAD_REQUEST)
}
