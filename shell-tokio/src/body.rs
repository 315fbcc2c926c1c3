//! Bodies: a client's collected within bounds, a replica's passed on frame by frame as the client takes it.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io;
use std::sync::Arc;

use appproxy_core::exchange::{Committed, Denial, EndOfBody, Payload};
use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::data::{self, InFlight};
use crate::node::Node;

/// What bodies held in memory are bounded by.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    /// `server.max_buffered`, in kilobytes of room.
    room: Arc<Semaphore>,
    /// Silence of a client in the middle of its body.
    patience: Duration,
}

const KILOBYTE: usize = 1024;

impl Bounds {
    /// Room for `bytes` over all requests.
    pub(crate) fn new(bytes: u64, patience: Duration) -> Self {
        let kilobytes = usize::try_from(bytes / 1024).unwrap_or(usize::MAX).clamp(1, Semaphore::MAX_PERMITS);
        Self { room: Arc::new(Semaphore::new(kilobytes)), patience }
    }
}

/// A whole request body; its room is given back when it is dropped.
pub(crate) struct Collected {
    pub(crate) bytes: Bytes,
    pub(crate) room: Option<OwnedSemaphorePermit>,
}

/// Reads a body of at most `limit` bytes.
pub(crate) async fn collect(body: axum::body::Body, limit: u64, bounds: &Bounds) -> Result<Collected, Denial> {
    let mut body = body;
    let mut room: Option<OwnedSemaphorePermit> = None;
    let mut held = 0_usize;
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    loop {
        let frame = match tokio::time::timeout(bounds.patience, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => break,
            Ok(Some(Err(_))) | Err(_) => return Err(Denial::body_cut_off()),
        };
        let Ok(data) = frame.into_data() else { continue };
        held += data.len();
        if u64::try_from(held).is_ok_and(|held| held > limit) {
            return Err(Denial::body_too_large(limit));
        }
        reserve(&mut room, held, bounds)?;
        // Most bodies are one frame, which is kept as it came.
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            if rest.is_empty() {
                rest.reserve(body.size_hint().lower().try_into().unwrap_or(0).min(held.max(1 << 20)) + held);
                rest.extend_from_slice(&core::mem::take(&mut first));
            }
            rest.extend_from_slice(&data);
        }
    }
    let bytes = if rest.is_empty() { first } else { rest.freeze() };
    Ok(Collected { bytes, room })
}

fn reserve(room: &mut Option<OwnedSemaphorePermit>, held: usize, bounds: &Bounds) -> Result<(), Denial> {
    let has = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
    let more = u32::try_from(held.div_ceil(KILOBYTE).saturating_sub(has)).unwrap_or(u32::MAX);
    if more > 0 {
        let more = bounds.room.clone().try_acquire_many_owned(more).map_err(|_| Denial::overloaded())?;
        match room {
            Some(room) => room.merge(more),
            None => *room = Some(more),
        }
    }
    Ok(())
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

/// A replica's answer on its way to the client. Dropping it drops the replica's body, which cancels the request there.
pub(crate) struct Relay {
    upstream: Incoming,
    /// Taken when the end is recorded.
    committed: Option<Committed>,
    node: Arc<Node>,
    idle: Duration,
    last: Instant,
    timer: Pin<Box<Sleep>>,
    first_byte: Duration,
    ending: Ending,
    _in_flight: InFlight,
}

/// Where a relay stands.
enum Ending {
    /// Bytes pass.
    None,
    /// The answer broke: what was passed on is flushed before the connection is cut.
    Break(bool),
    /// Nothing more comes.
    Over,
}

impl Relay {
    /// Passes `upstream` on.
    pub(crate) fn new(upstream: Incoming, committed: Committed, node: Arc<Node>, in_flight: InFlight) -> Self {
        let idle = node.rules().idle_timeout;
        let first_byte = node.clock.moment().since(committed.trail().arrived());
        let last = Instant::now();
        let timer = Box::pin(sleep_until(last + idle));
        let (committed, ending) = (Some(committed), Ending::None);
        Self { upstream, committed, node, idle, last, timer, first_byte, ending, _in_flight: in_flight }
    }

    fn record(&mut self, end: EndOfBody) {
        if let Some(committed) = self.committed.take() {
            data::record(&self.node, &committed.ended(end), Some(self.first_byte));
        }
    }

    /// The answer broke off: the stream's own error event where it has one, then the end of the connection.
    fn broke(&mut self, end: EndOfBody) -> Option<Bytes> {
        let event = self.committed.as_ref().and_then(|committed| committed.last_words(end));
        self.record(end);
        self.ending = Ending::Break(false);
        event
    }
}

impl Body for Relay {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let relay = &mut *self;
        match relay.ending {
            Ending::None => {}
            Ending::Over => return Poll::Ready(None),
            Ending::Break(false) => {
                // Being pending once has the server write out what it holds.
                relay.ending = Ending::Break(true);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Ending::Break(true) => {
                relay.ending = Ending::Over;
                return Poll::Ready(Some(Err(io::Error::other("the replica's answer broke off"))));
            }
        }
        loop {
            let end = match Pin::new(&mut relay.upstream).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    relay.last = Instant::now();
                    if let Some(committed) = &mut relay.committed {
                        committed.passed(&data);
                    }
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Poll::Ready(None) => {
                    relay.ending = Ending::Over;
                    relay.record(EndOfBody::Complete);
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(Err(_))) => EndOfBody::UpstreamBroke,
                Poll::Pending => {
                    ready!(relay.timer.as_mut().poll(cx));
                    let due = relay.last + relay.idle;
                    if Instant::now() < due {
                        // Bytes came since the timer was set.
                        relay.timer.as_mut().reset(due);
                        continue;
                    }
                    EndOfBody::UpstreamIdle
                }
            };
            return match relay.broke(end) {
                Some(event) => Poll::Ready(Some(Ok(Frame::data(event)))),
                None => {
                    cx.waker().wake_by_ref();
                    relay.ending = Ending::Break(true);
                    Poll::Pending
                }
            };
        }
    }

    fn is_end_stream(&self) -> bool {
        match self.ending {
            Ending::None => self.upstream.is_end_stream(),
            Ending::Break(_) => false,
            Ending::Over => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.upstream.size_hint()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // A server that knows the length takes the last byte and never asks for the end.
        let end = if self.upstream.is_end_stream() { EndOfBody::Complete } else { EndOfBody::DownstreamGone };
        self.record(end);
    }
}
