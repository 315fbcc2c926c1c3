//! The bytes of a client's connection on their way to the HTTP library, judged and timed by the core.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io::{self, IoSlice};
use std::time::Instant;

use appproxy_core::exchange::{Ended, Intake};
use hyper::rt::{Read, ReadBufCursor, Write};

use crate::pace::{Pace, State};
use crate::runtime::{Runtime, Timer};
use crate::stream::Stream;

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
