//! The request body towards a replica, as it is written.

use std::io::IoSlice;

use bytes::{Buf, Bytes};

use super::outbound::Payload;

/// A [`Payload`] on its way: up to three frames, none copied; a [`Buf`].
#[derive(Debug)]
pub struct Outgoing {
    frames: core::array::IntoIter<Bytes, 3>,
}

impl Outgoing {
    /// No body.
    #[must_use]
    pub fn empty() -> Self {
        Self::from(Bytes::new())
    }
}

impl From<Bytes> for Outgoing {
    fn from(body: Bytes) -> Self {
        Self::from(Payload::whole(body))
    }
}

impl From<Payload> for Outgoing {
    fn from(payload: Payload) -> Self {
        Self { frames: payload.into_frames().into_iter() }
    }
}

impl Buf for Outgoing {
    fn remaining(&self) -> usize {
        self.frames.as_slice().iter().map(Bytes::len).sum()
    }

    fn chunk(&self) -> &[u8] {
        self.frames.as_slice().iter().find(|frame| !frame.is_empty()).map_or(&[], |frame| frame)
    }

    fn chunks_vectored<'a>(&'a self, to: &mut [IoSlice<'a>]) -> usize {
        let frames = self.frames.as_slice().iter().filter(|frame| !frame.is_empty());
        to.iter_mut().zip(frames).map(|(to, frame)| *to = IoSlice::new(frame)).count()
    }

    fn advance(&mut self, mut count: usize) {
        for frame in self.frames.as_mut_slice() {
            let of_it = count.min(frame.len());
            frame.advance(of_it);
            count -= of_it;
        }
        assert_eq!(count, 0, "more was taken than was there");
    }
}

#[cfg(test)]
#[cfg(feature = "appproxy-router")]
#[path = "outgoing_tests.rs"]
mod tests;
