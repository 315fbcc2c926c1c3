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

/// A passage in its room, where its parts are written one by one. Moved from state to state, a dozen times: a move is two
/// pointers'. The room goes back to the connection at the end, for the next request.
pub(super) struct Carried {
    room: Box<Passage>,
    connection: Connection,
}

/// The room that a connection keeps while no request of it is on its way: nothing of the last one is in it but
/// a model's name.
#[derive(Default)]
pub(super) struct Spare(Mutex<Option<Box<Passage>>>);

impl fmt::Debug for Spare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spare")
    }
}

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
        self.room.fmt(f)
    }
}

impl Deref for Carried {
    type Target = Passage;

    fn deref(&self) -> &Passage {
        &self.room
    }
}

impl DerefMut for Carried {
    fn deref_mut(&mut self) -> &mut Passage {
        &mut self.room
    }
}

impl Carried {
    /// Takes a request's head in. What it means is still to be found out.
    pub(super) fn new(parts: Parts, connection: Connection) -> Self {
        let kept = lock(&connection.spare().0).take();
        let mut room = kept.unwrap_or_else(|| Box::new(Passage::empty()));
        // What is there is `no_head`, which owns nothing: to drop it would be work for nothing.
        core::mem::forget(core::mem::replace(&mut room.parts, parts));
        Self { room, connection }
    }

    pub(super) const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// What is left of it: the record.
    pub(super) fn end(mut self) -> Trail {
        let trail = self.room.clear();
        *lock(&self.connection.spare().0) = Some(self.room);
        trail
    }

    pub(super) fn refuse(self, denial: &Denial) -> Box<Answer> {
        Answer::refusal(self.end(), denial)
    }

    pub(super) fn gone(self) -> Outcome {
        self.end().end(client_gone(), None, EndOfBody::DownstreamGone)
    }
}

/// The head of no request. It owns nothing.
fn no_head() -> Parts {
    http::Request::new(()).into_parts().0
}

impl Passage {
    fn empty() -> Self {
        Self {
            parts: no_head(),
            facts: Facts::default(),
            trail: Trail::empty(),
            destination: Destination::Unsupported,
            holder: Holder::Anyone,
            trusted: false,
            boundary: None,
            coding: None,
            entropy: 0,
            wanted: Wanted::default(),
        }
    }

    /// Lets go of all that is the request's; the record is what is left.
    fn clear(&mut self) -> Trail {
        // All of it: uri and values are pieces of the buffer that the connection reads into.
        self.parts = no_head();
        self.destination = Destination::Unsupported;
        self.holder = Holder::Anyone;
        self.boundary = None;
        self.coding = None;
        self.wanted.clear();
        core::mem::replace(&mut self.trail, Trail::empty())
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::address::Peer;
    use bytes::Bytes;
    use http::HeaderValue;

    #[test]
    fn a_room_without_a_request_holds_nothing_of_the_last_one() {
        let connection = Connection::new(Peer::Unix, false);
        let mut rooms = Vec::new();
        for _ in 0..3 {
            let (buffer, extension) = (Bytes::from(vec![b'x'; 40]), Arc::new(()));
            let request = http::Request::builder()
                .method("A-METHOD-THAT-IS-LONGER-THAN-MOST")
                .uri(http::Uri::from_maybe_shared(buffer.clone()).unwrap())
                .header("x-one", HeaderValue::from_maybe_shared(buffer.clone()).unwrap())
                .extension(extension.clone());
            let mut carried = Carried::new(request.body(()).unwrap().into_parts().0, connection.clone());
            rooms.push(&raw const *carried.room);
            carried.wanted.body = buffer.clone();
            carried.boundary = Some("b".into());
            drop(carried.end());
            assert!(buffer.is_unique() && Arc::strong_count(&extension) == 1);
            let spare = lock(&connection.spare().0);
            let Passage { parts, boundary, .. } = spare.as_deref().unwrap();
            assert!(parts.method == http::Method::GET && parts.headers.is_empty() && boundary.is_none());
        }
        assert!(rooms.windows(2).all(|two| two[0] == two[1]), "it is one room");
    }
}
