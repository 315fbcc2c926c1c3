//! A request's body: collected from the client within bounds, sent to a replica without a copy.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::error::Error;
use std::io::{self, ErrorKind};

use appproxy_core::exchange::{Collecting, Denial, Payload, Room};
use bytes::Bytes;
use http::HeaderMap;
use http::header::EXPECT;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::executor::{spawn, until, within};
use crate::node::Node;

/// How long what a refused client still sends is taken, and thrown away.
const LINGER: Duration = Duration::from_secs(10);

/// A request's body as it comes in. One that is refused before its end is read on for a while: to close at once resets
/// the connection, and a client that is still sending would never see why it was refused.
pub(crate) struct Inbound {
    body: Option<Incoming>,
    /// The client sends without being asked, or was asked. One that waits for `100 Continue` is not to be asked for a
    /// body that nobody wants.
    sends: bool,
}

impl Inbound {
    pub(crate) fn new(body: Incoming, headers: &HeaderMap) -> Self {
        Self { body: Some(body), sends: !headers.contains_key(EXPECT) }
    }
}

impl Drop for Inbound {
    fn drop(&mut self) {
        if self.sends
            && let Some(mut body) = self.body.take()
            && !body.is_end_stream()
        {
            spawn(within(LINGER, async move { while let Some(Ok(_)) = body.frame().await {} })).detach();
        }
    }
}

/// Why a body is not whole.
pub(crate) enum Stopped {
    /// The client went away in the middle of it.
    Gone,
    Refused(Denial),
}

impl From<Denial> for Stopped {
    fn from(denial: Denial) -> Self {
        Self::Refused(denial)
    }
}

/// Reads a body of at most `limit` bytes, and the room it takes.
pub(crate) async fn collect(mut inbound: Inbound, limit: u64, node: &Node) -> Result<(Bytes, Room), Stopped> {
    inbound.sends = true;
    let clock = &node.clock;
    let mut collecting = Collecting::new(limit, &node.bodies(), clock.moment());
    let Some(body) = &mut inbound.body else { return Ok(collecting.finish()) };
    loop {
        let frame = match until(clock.instant(collecting.due()), body.frame()).await {
            Some(Some(Ok(frame))) => frame,
            Some(None) => return Ok(collecting.finish()),
            Some(Some(Err(error))) if is_malformed(&error) => return Err(Denial::body_malformed().into()),
            Some(Some(Err(_))) => return Err(Stopped::Gone),
            None => return Err(Denial::body_too_slow().into()),
        };
        if let Ok(data) = frame.into_data() {
            collecting.push(data, body.size_hint().lower(), clock.moment())?;
        }
    }
}

/// Whether a body broke because of what is in it, and not because it ended.
fn is_malformed(error: &hyper::Error) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            return matches!(io.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData);
        }
        cause = error.source();
    }
    false
}

/// The request body towards a replica: up to three frames, none copied.
pub(crate) struct Outgoing {
    frames: core::array::IntoIter<Bytes, 3>,
    left: u64,
}

impl From<Payload> for Outgoing {
    fn from(payload: Payload) -> Self {
        let left = u64::try_from(payload.len()).unwrap_or(u64::MAX);
        Self { frames: payload.into_frames().into_iter(), left }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = core::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
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
