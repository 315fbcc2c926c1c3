//! The bytes of a client's connection on their way to the HTTP library, judged and timed by the core.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use appproxy_core::exchange::{self, BadHead, Ended, Intake};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::rt::{Read, ReadBufCursor, Write};

use crate::clock::Clock;
use crate::runtime::{Runtime, Timer};
use crate::stream::Stream;
use crate::tunnel::Tunnel;

/// What the parts of one connection know of it.
#[derive(Clone)]
pub(crate) struct Pace<R: Runtime>(Arc<State<R>>);

struct State<R: Runtime> {
    pace: exchange::Pace,
    clock: Clock,
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

/// A client's connection.
pub(crate) struct Paced<R: Runtime, S> {
    /// What reads and writes.
    pub(crate) io: S,
    pace: Pace<R>,
    intake: Intake,
    /// When a client that closed its side is looked at again.
    look: Option<(Instant, R::Timer)>,
}

impl<R: Runtime, S> Paced<R, S> {
    pub(crate) fn new(io: S, pace: Pace<R>, max_head: u64) -> Self {
        Self { io, pace, intake: Intake::new(max_head), look: None }
    }

    /// Resolves when the HTTP library is to hear that the client has closed its side.
    fn end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let State { pace, clock, .. } = &*self.pace.0;
        loop {
            let due = match self.intake.end(pace, clock.moment()) {
                Ended::Now => return Poll::Ready(()),
                Ended::WithTheAnswer => return Poll::Pending,
                Ended::LookAgain(at) => clock.instant(at),
            };
            let (set, timer) = self.look.get_or_insert_with(|| (due, R::Timer::at(due)));
            if *set != due {
                *set = due;
                timer.set_at(due);
            }
            ready!(Pin::new(timer).poll(cx));
        }
    }

    /// Takes note of what a write came to.
    fn wrote(&mut self, done: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let bytes = match &done {
            Poll::Ready(bytes) => Some(bytes.as_ref().map_or(0, |bytes| *bytes)),
            Poll::Pending => None,
        };
        self.intake.wrote(bytes, &self.pace.0.pace, self.pace.0.clock.moment());
        done
    }
}

impl<R: Runtime, S: Stream> Stream for Paced<R, S> {
    fn poll_read(&mut self, cx: &mut Context<'_>, to: &mut [u8]) -> Poll<io::Result<usize>> {
        if !self.intake.is_over() {
            let bytes = ready!(self.io.poll_read(cx, to))?;
            let State { pace, clock, .. } = &*self.pace.0;
            let passes = self.intake.came(to.get(..bytes).unwrap_or_default(), pace, clock.moment());
            if passes > 0 {
                return Poll::Ready(Ok(passes));
            }
        }
        self.end(cx).map(|()| Ok(0))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let done = self.io.poll_send(cx, slices);
        self.wrote(done)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_close(cx)
    }
}

/// As the HTTP library reads it.
impl<R: Runtime, S: Stream> Read for Paced<R, S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let Self { io, pace, intake, .. } = &mut *self;
        if !intake.is_over() {
            let State { pace, clock, .. } = &*pace.0;
            let passes = ready!(io.poll_take(cx, to, |bytes| intake.came(bytes, pace, clock.moment())))?;
            if passes > 0 {
                return Poll::Ready(Ok(()));
            }
        }
        self.end(cx).map(Ok)
    }
}

impl<R: Runtime, S: Stream> Write for Paced<R, S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send(cx, &[IoSlice::new(bytes)])
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_close(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.gathers()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(cx, slices)
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
