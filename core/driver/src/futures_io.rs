//! Connections of the runtimes that share futures-io's traits, which most but tokio do.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

use futures_util::io::{AsyncRead, AsyncWrite};

use crate::stream::Stream;

/// A connection of futures-io, as the driver wants it.
#[derive(Debug)]
pub struct FuturesIo<S> {
    io: S,
    look_again: fn(&mut S),
}

impl<S> FuturesIo<S> {
    /// A connection that asks the system whenever it is read from.
    pub const fn new(io: S) -> Self {
        Self::looking(io, |_| {})
    }

    /// One that does not always: `look_again` has its next read do so.
    pub const fn looking(io: S, look_again: fn(&mut S)) -> Self {
        Self { io, look_again }
    }

    /// The connection itself.
    pub fn into_inner(self) -> S {
        self.io
    }
}

impl<S: AsFd> AsFd for FuturesIo<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for FuturesIo<S> {
    fn poll_read(&mut self, cx: &mut Context<'_>, to: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_read(cx, to)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match slices {
            [bytes] => Pin::new(&mut self.io).poll_write(cx, bytes),
            _ => Pin::new(&mut self.io).poll_write_vectored(cx, slices),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_close(cx)
    }

    fn look_again(&mut self) {
        (self.look_again)(&mut self.io);
    }
}
