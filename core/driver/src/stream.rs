//! Connections, as the driver reads and writes them.

use core::cell::Cell;
use core::future::poll_fn;
use core::task::{Context, Poll, ready};
use std::io::{self, ErrorKind, IoSlice};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use hyper::rt::ReadBufCursor;

/// As much as is read in one go.
const ROOM: usize = 64 * 1024;
/// What is read where there is no room yet.
const LEAST_ROOM: usize = 64;

/// Bytes both ways. What is asked of it wakes the task when it can be asked again, each direction by itself.
pub trait Stream: Send + Unpin {
    /// Reads into `to`; 0 bytes at the end.
    fn poll_read(&mut self, cx: &mut Context<'_>, to: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Sends some of `slices`; says how many bytes.
    fn poll_send(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>>;

    /// Sends what is held back.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Says that nothing more comes.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Whether the HTTP library had better send several slices at once than copy them together.
    fn gathers(&self) -> bool {
        false
    }

    /// Has the next read ask the system, where something else was relied on.
    fn look_again(&mut self) {}

    /// Reads what there is room for in `to`; 0 bytes at the end. To be overridden where room that was never written to can
    /// be read into.
    fn poll_fill(&mut self, cx: &mut Context<'_>, to: &mut BytesMut) -> Poll<io::Result<usize>> {
        let room = (to.capacity() - to.len()).max(LEAST_ROOM);
        arrivals(room, |arrivals| {
            let bytes = ready!(self.poll_read(cx, arrivals))?;
            to.extend_from_slice(arrivals.get(..bytes).unwrap_or_default());
            Poll::Ready(Ok(bytes))
        })
    }

    /// Reads into `to` as many of the bytes that come as `judge` lets pass, and says how many. To be overridden likewise.
    fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        mut to: ReadBufCursor<'_>,
        judge: impl FnOnce(&[u8]) -> usize,
    ) -> Poll<io::Result<usize>> {
        arrivals(to.remaining(), |arrivals| {
            let bytes = ready!(self.poll_read(cx, arrivals))?;
            let passes = judge(arrivals.get(..bytes).unwrap_or_default());
            to.put_slice(arrivals.get(..passes).unwrap_or_default());
            Poll::Ready(Ok(passes))
        })
    }
}

thread_local! {
    /// Where bytes arrive before they go where they are wanted: room there is not initialised, and to clear it for every
    /// look costs more than to copy the few that came.
    static ARRIVALS: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Lends room for at most `bytes` to read into.
fn arrivals<T>(bytes: usize, read: impl FnOnce(&mut [u8]) -> T) -> T {
    ARRIVALS.with(|arrivals| {
        let mut room = arrivals.take();
        room.resize(ROOM, 0);
        let done = read(room.get_mut(..bytes.min(ROOM)).unwrap_or_default());
        arrivals.set(room);
        done
    })
}

/// One that two read and write, each in its own direction.
impl<S: Stream> Stream for &Mutex<S> {
    fn poll_read(&mut self, cx: &mut Context<'_>, to: &mut [u8]) -> Poll<io::Result<usize>> {
        lock(self).poll_read(cx, to)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        lock(self).poll_send(cx, slices)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(self).poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(self).poll_close(cx)
    }
}

fn lock<S>(stream: &Mutex<S>) -> MutexGuard<'_, S> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads what has come into `to`; 0 bytes at the end.
pub(crate) async fn read(stream: &mut impl Stream, to: &mut [u8]) -> io::Result<usize> {
    poll_fn(|cx| stream.poll_read(cx, to)).await
}

/// Sends all of `bytes`.
pub(crate) async fn write_all(stream: &mut impl Stream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let sent = poll_fn(|cx| stream.poll_send(cx, &[IoSlice::new(bytes)])).await?;
        if sent == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        bytes = bytes.get(sent..).unwrap_or_default();
    }
    Ok(())
}

/// Says that nothing more comes.
pub(crate) async fn close(stream: &mut impl Stream) -> io::Result<()> {
    poll_fn(|cx| stream.poll_close(cx)).await
}

/// Takes what comes up to the end, and throws it away.
pub(crate) async fn swallow(stream: &mut impl Stream) -> io::Result<()> {
    let mut room = vec![0; 8 * 1024];
    while read(stream, &mut room).await? > 0 {}
    Ok(())
}
