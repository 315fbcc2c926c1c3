//! Connections, as tokio has them.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

use appproxy_driver::Stream;
use bytes::BytesMut;
use hyper::rt::{Read, ReadBufCursor};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

/// A connection of tokio's, as the driver wants it.
#[derive(Debug)]
pub struct Io<S>(pub(crate) S);

impl<S: AsFd> AsFd for Io<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for Io<S> {
    fn poll_read(&mut self, cx: &mut Context<'_>, to: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut to = ReadBuf::new(to);
        ready!(Pin::new(&mut self.0).poll_read(cx, &mut to))?;
        Poll::Ready(Ok(to.filled().len()))
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, to: &mut BytesMut) -> Poll<io::Result<usize>> {
        poll_read_buf(Pin::new(&mut self.0), cx, to)
    }

    fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        to: ReadBufCursor<'_>,
        judge: impl FnOnce(&[u8]) -> usize,
    ) -> Poll<io::Result<usize>> {
        // Only hyper's own adapter reads into such room.
        let mut judged = TokioIo::new(Judged { io: &mut self.0, judge: Some(judge), passed: 0 });
        ready!(Pin::new(&mut judged).poll_read(cx, to))?;
        Poll::Ready(Ok(judged.inner().passed))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match slices {
            [bytes] => Pin::new(&mut self.0).poll_write(cx, bytes),
            _ => Pin::new(&mut self.0).poll_write_vectored(cx, slices),
        }
    }

    fn gathers(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Reads once, and leaves what `judge` lets pass.
struct Judged<'a, S, J> {
    io: &'a mut S,
    judge: Option<J>,
    passed: usize,
}

impl<S, J> Unpin for Judged<'_, S, J> {}

impl<S: AsyncRead + Unpin, J: FnOnce(&[u8]) -> usize> AsyncRead for Judged<'_, S, J> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = to.filled().len();
        ready!(Pin::new(&mut *self.io).poll_read(cx, to))?;
        let came = to.filled().get(before..).unwrap_or_default();
        self.passed = self.judge.take().map_or(came.len(), |judge| judge(came));
        to.set_filled(before + self.passed);
        Poll::Ready(Ok(()))
    }
}
