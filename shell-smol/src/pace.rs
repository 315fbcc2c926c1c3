//! The bytes of a client's connection on their way to the HTTP library: judged by the core where they are heads, and
//! timed. What hyper cannot tell apart is told apart here: a slow head from an idle connection, a client that has only
//! closed its side from one that is gone.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use appproxy_core::exchange::{BadHead, Framing};
use bytes::Bytes;
use futures_util::io::{AsyncRead, AsyncWrite};
use http_body::{Body, Frame, SizeHint};
use smol::Timer;

use crate::tunnel::Tunnel;

/// A client that has closed its side while it waits for an answer is gone when nothing could be written to it for this
/// long.
const GONE_AFTER: Duration = Duration::from_millis(800);

/// What the parts of one connection know of it.
#[derive(Clone)]
pub(crate) struct Pace(Arc<State>);

struct State {
    began: Instant,
    /// A request is being answered.
    busy: AtomicBool,
    /// Nothing is judged any more: a tunnel.
    upgraded: AtomicBool,
    /// Milliseconds after `began`, and one, at which the first byte of an unfinished head came; 0 when there is none.
    head_since: AtomicU64,
    /// The same of a write that the client does not take.
    write_since: AtomicU64,
    refused: OnceLock<BadHead>,
    tunnel: Mutex<Option<Tunnel>>,
}

impl Pace {
    pub(crate) fn start() -> Self {
        Self(Arc::new(State {
            began: Instant::now(),
            busy: AtomicBool::new(false),
            upgraded: AtomicBool::new(false),
            head_since: AtomicU64::new(0),
            write_since: AtomicU64::new(0),
            refused: OnceLock::new(),
            tunnel: Mutex::new(None),
        }))
    }

    fn note(&self, since: &AtomicU64, waits: bool) {
        match (waits, since.load(Ordering::Relaxed)) {
            (true, 0) => since.store(millis(self.0.began.elapsed()).saturating_add(1), Ordering::Relaxed),
            (true, _) | (false, 0) => {}
            (false, _) => since.store(0, Ordering::Relaxed),
        }
    }

    /// A head is whole. The answer's body carries the returned mark to its end.
    pub(crate) fn head_done(&self) -> Busy {
        self.0.busy.store(true, Ordering::Relaxed);
        Busy(self.clone())
    }

    /// The connection becomes a tunnel once the running answer's head is sent.
    pub(crate) fn upgrade(&self, tunnel: Tunnel) {
        self.0.upgraded.store(true, Ordering::Relaxed);
        *self.0.tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
    }

    pub(crate) fn take_tunnel(&self) -> Option<Tunnel> {
        self.0.tunnel.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The head that ended this connection.
    pub(crate) fn refused(&self) -> Option<&BadHead> {
        self.0.refused.get()
    }

    /// Resolves when a head has taken longer than `head`, or the client has taken nothing for `write` (at most twice
    /// that: it looks now and then).
    pub(crate) async fn too_slow(&self, head: Duration, write: Duration) {
        loop {
            Timer::after(head.min(write)).await;
            let now = millis(self.0.began.elapsed()).saturating_add(1);
            let late = |since: &AtomicU64, limit| {
                let since = since.load(Ordering::Relaxed);
                since != 0 && now.saturating_sub(since) >= millis(limit)
            };
            if late(&self.0.head_since, head) || late(&self.0.write_since, write) {
                return;
            }
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Marks a connection as busy with a request, while it lives.
pub(crate) struct Busy(Pace);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.0.busy.store(false, Ordering::Relaxed);
    }
}

/// A client's connection.
pub(crate) struct Paced<S> {
    io: S,
    pace: Pace,
    framing: Framing,
    /// Nothing more is read: the client closed its side, or a head was refused.
    over: bool,
    written: u64,
    /// When a client that closed its side is looked at again, and what was written to it by then.
    leaving: Option<(Timer, u64)>,
}

impl<S> Paced<S> {
    pub(crate) fn new(io: S, pace: Pace, max_head: u64) -> Self {
        Self { io, pace, framing: Framing::new(max_head), over: false, written: 0, leaving: None }
    }

    pub(crate) fn into_inner(self) -> S {
        self.io
    }

    /// Tells the HTTP library of the end, which has it drop what runs: not before the client is really gone.
    fn end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if !self.pace.0.busy.load(Ordering::Relaxed) || self.framing.in_body() {
            return Poll::Ready(Ok(0));
        }
        // Looked at again when the answer has ended.
        if self.pace.refused().is_some() {
            return Poll::Pending;
        }
        let (timer, before) = self.leaving.get_or_insert_with(|| (Timer::after(GONE_AFTER), self.written));
        loop {
            ready!(Pin::new(&mut *timer).poll(cx));
            if *before == self.written {
                return Poll::Ready(Ok(0));
            }
            *before = self.written;
            timer.set_after(GONE_AFTER);
        }
    }

    fn wrote(&mut self, done: &Poll<io::Result<usize>>) {
        self.pace.note(&self.pace.0.write_since, done.is_pending());
        if let Poll::Ready(Ok(bytes)) = done {
            self.written = self.written.saturating_add(u64::try_from(*bytes).unwrap_or(u64::MAX));
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut [u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.over {
            return this.end(cx);
        }
        let bytes = ready!(Pin::new(&mut this.io).poll_read(cx, to))?;
        let came = to.get(..bytes).unwrap_or_default();
        if came.is_empty() {
            this.over = true;
            return this.end(cx);
        }
        if this.pace.0.upgraded.load(Ordering::Relaxed) {
            this.framing.upgraded();
        }
        let judged = this.framing.see(came);
        this.pace.note(&this.pace.0.head_since, this.framing.in_head());
        let Err(fault) = judged else { return Poll::Ready(Ok(bytes)) };
        this.over = true;
        if let Some(head) = fault.head {
            // It ends the connection, so there is no second one.
            drop(this.pace.0.refused.set(head));
        }
        if fault.passes == 0 { this.end(cx) } else { Poll::Ready(Ok(fault.passes)) }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.wrote(&done);
        done
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_close(cx)
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
