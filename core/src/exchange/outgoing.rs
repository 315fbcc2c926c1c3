//! The request body towards a replica, as HTTP libraries take it.

use core::convert::Infallible;
use core::pin::Pin;
use core::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::outbound::Payload;

/// A [`Payload`] on its way: up to three frames, none copied.
#[derive(Debug)]
pub struct Outgoing {
    frames: core::array::IntoIter<Bytes, 3>,
    left: u64,
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
        let left = u64::try_from(payload.len()).unwrap_or(u64::MAX);
        Self { frames: payload.into_frames().into_iter(), left }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = self.frames.find(|frame| !frame.is_empty());
        self.left -= frame.as_ref().map_or(0, |frame| u64::try_from(frame.len()).unwrap_or(0));
        Poll::Ready(frame.map(|frame| Ok(Frame::data(frame))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
#[cfg(feature = "appproxy-router")]
#[path = "outgoing_tests.rs"]
mod tests;
