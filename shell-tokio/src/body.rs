//! A request's body: collected from the client within bounds, sent to a replica without a copy.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use appproxy_core::config::server::Server;
use appproxy_core::exchange::{Denial, Payload, Uploading};
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::EXPECT;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::node::Node;

/// What bodies held in memory are bounded by.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    /// `server.max_buffered`, in kilobytes of room.
    room: Arc<Semaphore>,
    /// Of a client in the middle of its body (`server.idle_timeout`).
    silence: Duration,
}

const KILOBYTE: usize = 1024;
/// Room made ahead for an announced length: a client may announce what it never sends.
const AHEAD: usize = 1024 * 1024;

impl Bounds {
    /// Room for `server.max_buffered` over all requests.
    pub(crate) fn new(server: &Server) -> Self {
        let kilobytes = usize::try_from(server.max_buffered / 1024).unwrap_or(usize::MAX);
        let room = Arc::new(Semaphore::new(kilobytes.clamp(1, Semaphore::MAX_PERMITS)));
        Self { room, silence: server.idle_timeout }
    }
}

/// How long what a refused client still sends is taken, and thrown away.
const LINGER: Duration = Duration::from_secs(10);

/// A request's body as it comes in. One that is refused before its end is read on for a while: to close at once resets
/// the connection, and a client that is still sending would never see why it was refused.
pub(crate) struct Inbound {
    body: axum::body::Body,
    /// The client sends without being asked, or was asked. One that waits for `100 Continue` is not to be asked for a
    /// body that nobody wants.
    sends: bool,
}

impl Inbound {
    pub(crate) fn new(body: axum::body::Body, headers: &HeaderMap) -> Self {
        Self { body, sends: !headers.contains_key(EXPECT) }
    }
}

impl Drop for Inbound {
    fn drop(&mut self) {
        if self.sends && !self.body.is_end_stream() {
            let mut body = core::mem::take(&mut self.body);
            tokio::spawn(tokio::time::timeout(LINGER, async move { while let Some(Ok(_)) = body.frame().await {} }));
        }
    }
}

/// A whole request body; its room is given back when it is dropped.
pub(crate) struct Collected {
    pub(crate) bytes: Bytes,
    pub(crate) room: Option<OwnedSemaphorePermit>,
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

/// Reads a body of at most `limit` bytes.
pub(crate) async fn collect(mut inbound: Inbound, limit: u64, node: &Node) -> Result<Collected, Stopped> {
    inbound.sends = true;
    let (body, bounds, clock) = (&mut inbound.body, node.bodies(), &node.clock);
    let mut room: Option<OwnedSemaphorePermit> = None;
    let mut held = 0_usize;
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    let mut uploading = Uploading::begun(clock.moment(), bounds.silence);
    loop {
        let frame = match tokio::time::timeout_at(clock.instant(uploading.due()), body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => break,
            Ok(Some(Err(error))) if is_malformed(&error) => return Err(Denial::body_malformed().into()),
            Ok(Some(Err(_))) => return Err(Stopped::Gone),
            Err(_) => return Err(Denial::body_too_slow().into()),
        };
        let Ok(data) = frame.into_data() else { continue };
        uploading.came(data.len(), clock.moment());
        held += data.len();
        if u64::try_from(held).is_ok_and(|held| held > limit) {
            return Err(Denial::body_too_large(limit).into());
        }
        reserve(&mut room, held, &bounds)?;
        // Most bodies are one frame, which is kept as it came.
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            if rest.is_empty() {
                let announced = usize::try_from(body.size_hint().lower()).unwrap_or(0);
                rest.reserve(held + announced.min(AHEAD));
                rest.extend_from_slice(&core::mem::take(&mut first));
            }
            rest.extend_from_slice(&data);
        }
    }
    let bytes = if rest.is_empty() { first } else { rest.freeze() };
    Ok(Collected { bytes, room })
}

/// Whether a body broke because of what is in it, and not because it ended.
fn is_malformed(error: &axum::Error) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            return matches!(io.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData);
        }
        cause = error.source();
    }
    false
}

/// Makes `room` cover a body that has become `held` bytes long.
pub(crate) fn reserve(room: &mut Option<OwnedSemaphorePermit>, held: usize, bounds: &Bounds) -> Result<(), Denial> {
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
