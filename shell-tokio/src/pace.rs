//! The bytes of a client's connection on their way to the HTTP library, judged and timed by the core.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use appproxy_core::exchange::{self, BadHead, Ended, Intake};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::clock::Clock;
use crate::executor::{Instant, Timer};
use crate::tunnel::Tunnel;

/// What the parts of one connection know of it.
#[derive(Clone)]
pub(crate) struct Pace(Arc<State>);

struct State {
    pace: exchange::Pace,
    clock: Clock,
    tunnel: Mutex<Option<Tunnel>>,
}

impl Pace {
    pub(crate) fn start(clock: Clock) -> Self {
        Self(Arc::new(State { pace: exchange::Pace::default(), clock, tunnel: Mutex::new(None) }))
    }

    /// A head is whole. The answer's body carries the returned mark to its end.
    pub(crate) fn head_done(&self) -> Busy {
        self.0.pace.set_busy(true);
        Busy(self.clone())
    }

    /// The connection becomes a tunnel once the running answer's head is sent.
    pub(crate) fn upgrade(&self, tunnel: Tunnel) {
        self.0.pace.upgrade();
        *self.0.tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
    }

    pub(crate) fn take_tunnel(&self) -> Option<Tunnel> {
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
            Timer::after(head.min(write)).await;
        }
    }
}

/// Marks a connection as busy with a request, while it lives.
pub(crate) struct Busy(Pace);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.0.pace.set_busy(false);
    }
}

/// A client's connection.
pub(crate) struct Paced<S> {
    /// What reads and writes; how it does is the runtime's (`streams`).
    pub(crate) io: S,
    pace: Pace,
    intake: Intake,
    /// When a client that closed its side is looked at again.
    look: Option<(Instant, Timer)>,
}

impl<S> Paced<S> {
    pub(crate) fn new(io: S, pace: Pace, max_head: u64) -> Self {
        Self { io, pace, intake: Intake::new(max_head), look: None }
    }

    /// Resolves when the HTTP library is to hear that the client has closed its side.
    pub(crate) fn end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let State { pace, clock, .. } = &*self.pace.0;
        loop {
            let due = match self.intake.end(pace, clock.moment()) {
                Ended::Now => return Poll::Ready(()),
                Ended::WithTheAnswer => return Poll::Pending,
                Ended::LookAgain(at) => clock.instant(at),
            };
            let (set, timer) = self.look.get_or_insert_with(|| (due, Timer::at(due)));
            if *set != due {
                *set = due;
                timer.set_at(due);
            }
            ready!(Pin::new(timer).poll(cx));
        }
    }

    /// Whether it says nothing more, so that only its end is waited for.
    pub(crate) const fn is_over(&self) -> bool {
        self.intake.is_over()
    }

    /// How many of the bytes that came pass.
    pub(crate) fn came(&mut self, bytes: &[u8]) -> usize {
        let State { pace, clock, .. } = &*self.pace.0;
        self.intake.came(bytes, pace, clock.moment())
    }

    /// Takes note of what a write came to.
    pub(crate) fn wrote(&mut self, done: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let bytes = match &done {
            Poll::Ready(bytes) => Some(bytes.as_ref().map_or(0, |bytes| *bytes)),
            Poll::Pending => None,
        };
        self.intake.wrote(bytes, &self.pace.0.pace, self.pace.0.clock.moment());
        done
    }
}

/// An answer's body, with the mark that its connection is busy.
pub(crate) struct Marked<B> {
    pub(crate) body: B,
    pub(crate) _busy: Option<Busy>,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Marked<B> {
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
