//! A request's body as it is collected: within its limit, and within the memory that all bodies share (data-plane 2).

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};

use super::denial::Denial;
use super::uploading::Uploading;
use crate::config::server::Server;
use crate::time::Moment;

/// Room made ahead for an announced length, in bytes: a client may announce what it never sends.
const AHEAD: usize = 1024 * 1024;

/// What bodies held in memory are bounded by, over all requests. Cheap to clone; clones share the room.
#[derive(Debug, Clone)]
pub struct BodyBounds {
    /// Bytes of `server.max_buffered` that nobody holds.
    free: Arc<AtomicU64>,
    /// How long a client may be silent in the middle of its body (`server.idle_timeout`).
    silence: Duration,
}

impl BodyBounds {
    /// The bounds of this configuration.
    #[must_use]
    pub fn of(server: &Server) -> Self {
        Self::new(server.max_buffered, server.idle_timeout)
    }

    pub(super) fn new(bytes: u64, silence: Duration) -> Self {
        Self { free: Arc::new(AtomicU64::new(bytes)), silence }
    }

    pub(super) const fn silence(&self) -> Duration {
        self.silence
    }

    fn room(&self) -> Room {
        Room { free: self.free.clone(), bytes: 0 }
    }
}

/// What one body takes of the memory; given back when it is dropped.
#[derive(Debug)]
pub struct Room {
    free: Arc<AtomicU64>,
    bytes: u64,
}

impl Room {
    /// Makes it cover a body that has become `held` bytes long.
    ///
    /// # Errors
    /// `overloaded` when there is not so much left.
    pub fn cover(&mut self, held: usize) -> Result<(), Denial> {
        let more = u64::try_from(held).unwrap_or(u64::MAX).saturating_sub(self.bytes);
        let taken = self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(more));
        if taken.is_err() {
            return Err(Denial::overloaded());
        }
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.free.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

/// A body that comes in piece by piece. A body of one piece is not copied.
#[derive(Debug)]
pub struct Collecting {
    limit: u64,
    room: Room,
    uploading: Uploading,
    held: usize,
    first: Bytes,
    rest: BytesMut,
}

impl Collecting {
    /// A body of at most `limit` bytes, from now on.
    #[must_use]
    pub fn new(limit: u64, bounds: &BodyBounds, now: Moment) -> Self {
        let uploading = Uploading::begun(now, bounds.silence);
        Self { limit, room: bounds.room(), uploading, held: 0, first: Bytes::new(), rest: BytesMut::new() }
    }

    /// When the next piece must have come at the latest. Past it: [`Denial::body_too_slow`].
    #[must_use]
    pub fn due(&self) -> Moment {
        self.uploading.due()
    }

    /// The next piece; `announced` bytes are said to follow it.
    ///
    /// # Errors
    /// `body_too_large` past the limit, `overloaded` when the memory is used up.
    pub fn push(&mut self, piece: Bytes, announced: u64, now: Moment) -> Result<(), Denial> {
        self.uploading.came(piece.len(), now);
        self.held += piece.len();
        if u64::try_from(self.held).is_ok_and(|held| held > self.limit) {
            return Err(Denial::body_too_large(self.limit));
        }
        self.room.cover(self.held)?;
        if self.first.is_empty() && self.rest.is_empty() {
            self.first = piece;
            return Ok(());
        }
        if self.rest.is_empty() {
            let announced = usize::try_from(announced).unwrap_or(AHEAD).min(AHEAD);
            self.rest.reserve(self.held + announced);
            self.rest.extend_from_slice(&core::mem::take(&mut self.first));
        }
        self.rest.extend_from_slice(&piece);
        Ok(())
    }

    /// The whole body, and the room it takes.
    #[must_use]
    pub fn finish(self) -> (Bytes, Room) {
        (if self.rest.is_empty() { self.first } else { self.rest.freeze() }, self.room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::Code;

    const START: Moment = Moment::START;

    fn bounds(bytes: u64) -> BodyBounds {
        BodyBounds::new(bytes, Duration::from_secs(5))
    }

    fn code(denied: Result<(), Denial>) -> Option<Code> {
        denied.err().map(|denial| denial.code)
    }

    #[test]
    fn a_body_is_what_came_and_one_piece_is_not_copied() {
        let bounds = bounds(100);
        let mut one = Collecting::new(10, &bounds, START);
        let piece = Bytes::from_static(b"0123456789");
        one.push(piece.clone(), 0, START).expect("at the limit");
        assert_eq!(one.finish().0.as_ptr(), piece.as_ptr());
        let mut three = Collecting::new(10, &bounds, START);
        for piece in [&b"01"[..], b"", b"2", b"3456789"] {
            three.push(Bytes::from_static(piece), u64::MAX, START).expect("room");
        }
        assert_eq!(three.finish().0, "0123456789");
    }

    #[test]
    fn one_byte_more_than_the_limit_is_too_large() {
        let mut body = Collecting::new(3, &bounds(100), START);
        body.push(Bytes::from_static(b"abc"), 0, START).expect("at the limit");
        assert_eq!(code(body.push(Bytes::from_static(b"d"), 0, START)), Some(Code::BodyTooLarge));
    }

    #[test]
    fn memory_is_shared_and_comes_back() {
        let bounds = bounds(5);
        let mut room = bounds.room();
        room.cover(5).expect("all of it");
        room.cover(5).expect("nothing more");
        assert_eq!(code(bounds.room().cover(1)), Some(Code::Overloaded));
        drop(room);
        let mut body = Collecting::new(100, &bounds, START);
        body.push(Bytes::from_static(b"abcde"), 0, START).expect("it came back");
        assert_eq!(code(body.push(Bytes::from_static(b"f"), 0, START)), Some(Code::Overloaded));
    }

    #[test]
    fn silence_has_its_end() {
        let mut body = Collecting::new(100, &bounds(100), START);
        assert_eq!(body.due(), Moment::from_millis(5000));
        body.push(Bytes::from_static(b"a"), 0, Moment::from_millis(3000)).expect("room");
        assert_eq!(body.due(), Moment::from_millis(8000));
    }
}
