//! A request's body as it is collected: within its limit, and within the memory that all bodies share (data-plane 2).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};

use super::denial::Denial;

/// Room made ahead for an announced length, in bytes: a client may announce what it never sends.
const AHEAD: usize = 1024 * 1024;

/// The memory that bodies may take over all requests (`server.max_buffered`). Cheap to clone.
#[derive(Debug, Clone)]
pub struct BodyMemory {
    /// Bytes.
    free: Arc<AtomicU64>,
}

impl BodyMemory {
    /// Memory of so many bytes.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self { free: Arc::new(AtomicU64::new(bytes)) }
    }

    /// Changes how much there is, from `before` to `after` bytes in all. What is held stays held.
    pub fn resize(&self, before: u64, after: u64) {
        if after >= before {
            self.free.fetch_add(after - before, Ordering::Relaxed);
        } else {
            let less = before - after;
            let _ =
                self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| Some(free.saturating_sub(less)));
        }
    }

    /// No room yet.
    #[must_use]
    pub fn room(&self) -> Room {
        Room { memory: self.clone(), bytes: 0 }
    }
}

/// What one body takes of the memory; given back when it is dropped.
#[derive(Debug)]
pub struct Room {
    memory: BodyMemory,
    bytes: u64,
}

impl Room {
    /// Makes it cover a body that has become `held` bytes long.
    ///
    /// # Errors
    /// `overloaded` when there is not so much left.
    pub fn cover(&mut self, held: usize) -> Result<(), Denial> {
        let more = u64::try_from(held).unwrap_or(u64::MAX).saturating_sub(self.bytes);
        let taken = self.memory.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(more));
        if taken.is_err() {
            return Err(Denial::overloaded());
        }
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.memory.free.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

/// A body that comes in piece by piece. A body of one piece is not copied.
#[derive(Debug)]
pub struct Collecting {
    limit: u64,
    room: Room,
    held: usize,
    first: Bytes,
    rest: BytesMut,
}

impl Collecting {
    /// A body of at most `limit` bytes.
    #[must_use]
    pub fn new(limit: u64, memory: &BodyMemory) -> Self {
        Self { limit, room: memory.room(), held: 0, first: Bytes::new(), rest: BytesMut::new() }
    }

    /// The next piece; `announced` bytes are said to follow it.
    ///
    /// # Errors
    /// `body_too_large` past the limit, `overloaded` when the memory is used up.
    pub fn push(&mut self, piece: Bytes, announced: u64) -> Result<(), Denial> {
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

    fn code(denied: Result<(), Denial>) -> Option<Code> {
        denied.err().map(|denial| denial.code)
    }

    #[test]
    fn a_body_is_what_came_and_one_piece_is_not_copied() {
        let memory = BodyMemory::new(100);
        let mut one = Collecting::new(10, &memory);
        let piece = Bytes::from_static(b"0123456789");
        one.push(piece.clone(), 0).expect("at the limit");
        assert_eq!(one.finish().0.as_ptr(), piece.as_ptr());
        let mut three = Collecting::new(10, &memory);
        for piece in [&b"01"[..], b"", b"2", b"3456789"] {
            three.push(Bytes::from_static(piece), u64::MAX).expect("room");
        }
        assert_eq!(three.finish().0, "0123456789");
    }

    #[test]
    fn one_byte_more_than_the_limit_is_too_large() {
        let mut body = Collecting::new(3, &BodyMemory::new(100));
        body.push(Bytes::from_static(b"abc"), 0).expect("at the limit");
        assert_eq!(code(body.push(Bytes::from_static(b"d"), 0)), Some(Code::BodyTooLarge));
    }

    #[test]
    fn memory_is_shared_and_comes_back() {
        let memory = BodyMemory::new(5);
        let mut room = memory.room();
        room.cover(5).expect("all of it");
        room.cover(5).expect("nothing more");
        assert_eq!(code(memory.room().cover(1)), Some(Code::Overloaded));
        drop(room);
        let mut body = Collecting::new(100, &memory);
        body.push(Bytes::from_static(b"abcde"), 0).expect("it came back");
        assert_eq!(code(body.push(Bytes::from_static(b"f"), 0)), Some(Code::Overloaded));
        let held = body.finish();
        memory.resize(5, 7);
        memory.room().cover(2).expect("more memory");
        assert_eq!(code(memory.room().cover(3)), Some(Code::Overloaded));
        drop(held);
        memory.room().cover(7).expect("all of it");
        memory.resize(7, 1);
        assert_eq!(code(memory.room().cover(2)), Some(Code::Overloaded));
    }
}
