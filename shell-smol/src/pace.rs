//! Tells a slow head from an idle connection: hyper has one timer for both, and an idle connection may live longer.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::rt::{Read, ReadBufCursor, Write};
use smol::Timer;

/// What the parts of one connection know of it.
#[derive(Debug, Clone)]
pub(crate) struct Pace(Arc<State>);

#[derive(Debug)]
struct State {
    began: Instant,
    /// A request is being answered; bytes that come now belong to its body.
    busy: AtomicBool,
    /// Milliseconds after `began`, and one, at which the first byte of an unfinished head came; 0 when there is none.
    head_since: AtomicU64,
}

impl Pace {
    pub(crate) fn start() -> Self {
        let (busy, head_since) = (AtomicBool::new(false), AtomicU64::new(0));
        Self(Arc::new(State { began: Instant::now(), busy, head_since }))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.0.began.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    fn bytes_came(&self) {
        if !self.0.busy.load(Ordering::Relaxed) && self.0.head_since.load(Ordering::Relaxed) == 0 {
            self.0.head_since.store(self.now(), Ordering::Relaxed);
        }
    }

    /// A head is whole. The answer's body carries the returned mark to its end.
    pub(crate) fn head_done(&self) -> Busy {
        self.0.busy.store(true, Ordering::Relaxed);
        self.0.head_since.store(0, Ordering::Relaxed);
        Busy(self.clone())
    }

    /// Resolves when a head has taken longer than `limit` (at most twice that: it looks once per `limit`).
    pub(crate) async fn too_slow(&self, limit: Duration) {
        let limit_millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        loop {
            Timer::after(limit).await;
            let since = self.0.head_since.load(Ordering::Relaxed);
            if since != 0 && self.now().saturating_sub(since) >= limit_millis {
                return;
            }
        }
    }
}

/// Marks a connection as busy with a request, while it lives.
#[derive(Debug)]
pub(crate) struct Busy(Pace);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.0.busy.store(false, Ordering::Relaxed);
    }
}

/// A connection that notes when bytes come.
pub(crate) struct Paced<T> {
    pub(crate) io: T,
    pub(crate) pace: Pace,
}

impl<T: Read + Unpin> Read for Paced<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.io).poll_read(cx, buffer);
        if read.is_ready() {
            // The end of the connection counts too; it does no harm.
            self.pace.bytes_came();
        }
        read
    }
}

impl<T: Write + Unpin> Write for Paced<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }
}

/// An answer's body, with the mark that its connection is busy.
pub(crate) struct Marked<B> {
    pub(crate) body: B,
    pub(crate) _busy: Busy,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::within;

    #[test]
    fn only_an_unfinished_head_is_slow() {
        smol::block_on(async {
            let pace = Pace::start();
            let limit = Duration::from_millis(10);
            let long = Duration::from_millis(60);
            assert!(within(long, pace.too_slow(limit)).await.is_none(), "an idle connection is none of its business");
            let busy = pace.head_done();
            pace.bytes_came();
            assert!(within(long, pace.too_slow(limit)).await.is_none(), "a body is no head");
            drop(busy);
            pace.bytes_came();
            assert!(within(Duration::from_secs(10), pace.too_slow(limit)).await.is_some());
        });
    }
}
