//! Sockets that ask the system only when there is something to ask.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use futures_util::io::{AsyncRead, AsyncWrite};
use smol::Async;
use smol::net::AsyncToSocketAddrs;

/// A connection that remembers what the system said last: one that had no more bytes is not asked again before the
/// reactor has heard of some. (The library looks at its connections far more often than bytes come.)
#[derive(Debug)]
pub struct TcpStream {
    io: Arc<Async<std::net::TcpStream>>,
    /// There may be bytes to read.
    readable: bool,
}

impl From<smol::net::TcpStream> for TcpStream {
    fn from(stream: smol::net::TcpStream) -> Self {
        Self { io: stream.into(), readable: true }
    }
}

impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.get_ref().as_fd()
    }
}

impl TcpStream {
    pub(crate) async fn connect(to: SocketAddr) -> io::Result<Self> {
        smol::net::TcpStream::connect(to).await.map(Self::from)
    }

    /// Has the next read ask the system.
    pub(crate) const fn look_again(&mut self) {
        self.readable = true;
    }

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        send: impl Fn(&std::net::TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            match send(self.io.get_ref()) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => ready!(self.io.poll_writable(cx))?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                sent => return Poll::Ready(sent),
            }
        }
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut [u8]) -> Poll<io::Result<usize>> {
        let Self { io, readable } = &mut *self;
        loop {
            if !*readable {
                ready!(io.poll_readable(cx))?;
                *readable = true;
            }
            match io.get_ref().read(to) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => *readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(bytes) => {
                    // Fewer than there was room for: that was all. An end is not waited for again.
                    *readable = bytes == to.len() || bytes == 0;
                    return Poll::Ready(Ok(bytes));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send(cx, |mut io| io.write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(cx, |mut io| io.write_vectored(slices))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.io.get_ref().shutdown(Shutdown::Write) {
            // The other side was faster.
            Err(error) if error.kind() == ErrorKind::NotConnected => Poll::Ready(Ok(())),
            closed => Poll::Ready(closed),
        }
    }
}

/// What accepts them.
#[derive(Debug)]
pub struct TcpListener(smol::net::TcpListener);

impl TcpListener {
    pub(crate) async fn bind(to: impl AsyncToSocketAddrs) -> io::Result<Self> {
        smol::net::TcpListener::bind(to).await.map(Self)
    }

    pub(crate) async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, from) = self.0.accept().await?;
        Ok((stream.into(), from))
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}
