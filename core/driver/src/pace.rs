//! What the parts of one client's connection know of it, judged and timed by the core.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use appproxy_core::exchange::{self, BadHead};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::clock::Clock;
use crate::runtime::{Runtime, Timer};
use crate::tunnel::Tunnel;

/// What the parts of one connection know of it.
#[derive(Clone)]
pub(crate) struct Pace<R: Runtime>(pub(crate) Arc<State<R>>);

pub(crate) struct State<R: Runtime> {
    pub(crate) pace: exchange::Pace,
    pub(crate) clock: Clock,
    tunnel: Mutex<Option<Tunnel<R>>>,
}

impl<R: Runtime> Pace<R> {
    pub(crate) fn start(clock: Clock) -> Self {
        Self(Arc::new(State { pace: exchange::Pace::default(), clock, tunnel: Mutex::new(None) }))
    }

    /// A head is whole. The answer's body carries the returned mark to its end.
    pub(crate) fn head_done(&self) -> Busy<R> {
        self.0.pace.set_busy(true);
        Busy(self.clone())
    }

    /// The connection becomes a tunnel once the running answer's head is sent.
    pub(crate) fn upgrade(&self, tunnel: Tunnel<R>) {
        self.0.pace.upgrade();
        *self.0.tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
    }

    pub(crate) fn take_tunnel(&self) -> Option<Tunnel<R>> {
        self.0.tunnel.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The head that ended this connection.
    pub(crate) fn refused(&self) -> Option<&BadHead> {
        self.0.pace.refused()
    }

    /// Resolves when a head has taken longer than `head`, or the client has taken nothing for `write` (at most twice
    /// that: it looks now and then).
    pub(crate) async fn too_slow(&self, head: Duration, write: Duration) {
        while !self.0.pace.is_slow(head, write, self.0.clock.moment()) {
            R::Timer::after(head.min(write)).await;
        }
    }
}

/// Marks a connection as busy with a request, while it lives.
pub(crate) struct Busy<R: Runtime>(Pace<R>);

impl<R: Runtime> Drop for Busy<R> {
    fn drop(&mut self) {
        self.0.0.pace.set_busy(false);
    }
}

/// An answer's body, with the mark that its connection is busy.
pub(crate) struct Marked<R: Runtime, B> {
    pub(crate) body: B,
    pub(crate) _busy: Option<Busy<R>>,
}

impl<R: Runtime, B: Body<Data = Bytes> + Unpin> Body for Marked<R, B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
