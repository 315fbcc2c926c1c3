//! A request's body: collected from the client within bounds.

use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::error::Error;
use std::io::{self, ErrorKind};

use appproxy_core::exchange::{Collecting, Denial, Room};
use bytes::Bytes;
use http::HeaderMap;
use http::header::EXPECT;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

use crate::node::Node;
use crate::runtime::Runtime;

/// How long what a refused client still sends is taken, and thrown away.
const LINGER: Duration = Duration::from_secs(10);

/// A request's body as a server hands it over.
pub trait Coming: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static {}

impl<B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static> Coming for B {}

/// A request's body as it comes in. One that is refused before its end is read on for a while: to close at once resets
/// the connection, and a client that is still sending would never see why it was refused.
pub(crate) struct Inbound<R: Runtime, B: Coming> {
    body: Option<B>,
    /// The client sends without being asked, or was asked. One that waits for `100 Continue` is not to be asked for a
    /// body that nobody wants.
    sends: bool,
    runtime: PhantomData<R>,
}

impl<R: Runtime, B: Coming> Inbound<R, B> {
    pub(crate) fn new(body: B, headers: &HeaderMap) -> Self {
        Self { body: Some(body), sends: !headers.contains_key(EXPECT), runtime: PhantomData }
    }
}

impl<R: Runtime, B: Coming> Body for Inbound<R, B> {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.sends = true;
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        Pin::new(body).poll_frame(cx).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}

impl<R: Runtime, B: Coming> Drop for Inbound<R, B> {
    fn drop(&mut self) {
        if self.sends
            && let Some(mut body) = self.body.take()
            && !body.is_end_stream()
        {
            R::detach(R::within(LINGER, async move { while let Some(Ok(_)) = body.frame().await {} }));
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
pub(crate) async fn collect<R: Runtime, B: Coming>(
    mut inbound: Inbound<R, B>,
    limit: u64,
    node: &Node<R>,
) -> Result<(Bytes, Room), Stopped> {
    let clock = &node.clock;
    let mut collecting = Collecting::new(limit, &node.bodies(), clock.moment());
    while !inbound.is_end_stream() {
        let frame = match R::until(clock.instant(collecting.due()), inbound.frame()).await {
            Some(Some(Ok(frame))) => frame,
            Some(None) => break,
            Some(Some(Err(error))) => return Err(broken(&*error)),
            None => return Err(Denial::body_too_slow().into()),
        };
        if let Ok(data) = frame.into_data() {
            collecting.push(data, inbound.size_hint().lower(), clock.moment())?;
        }
    }
    Ok(collecting.finish())
}

/// A body that broke because of what is in it is not one that ended.
pub(crate) fn broken(error: &(dyn Error + 'static)) -> Stopped {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            return match io.kind() {
                ErrorKind::InvalidInput | ErrorKind::InvalidData => Denial::body_malformed().into(),
                _ => Stopped::Gone,
            };
        }
        cause = error.source();
    }
    Stopped::Gone
}
