//! What bytes come and go by, as tokio has it: sockets, the family of I/O traits, TLS over both.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io;
use std::net::SocketAddr;

use tokio::io::ReadBuf;

pub(crate) use hyper_util::rt::{TokioIo as HttpIo, TokioTimer as HttpTimer};
pub(crate) use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, sink, split};
pub(crate) use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
pub(crate) use tokio_rustls::client::TlsStream;
pub(crate) use tokio_rustls::{TlsAcceptor, TlsConnector};
pub(crate) use tokio_util::either::Either;
pub(crate) use tokio_util::io::poll_read_buf as poll_fill;

use crate::dial::Stream;
use crate::pace::Paced;

/// All addresses of a name.
pub(crate) async fn resolve(name: (&str, u16)) -> io::Result<Vec<SocketAddr>> {
    tokio::net::lookup_host(name).await.map(Iterator::collect)
}

/// Has the next read ask the system: tokio's do whenever they were told of something.
pub(crate) const fn look_again(_: &mut Stream) {}

/// Says that nothing more comes.
pub(crate) async fn close(stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    stream.shutdown().await
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.is_over() {
            let before = to.filled().len();
            ready!(Pin::new(&mut self.io).poll_read(cx, to))?;
            let passes = self.came(to.filled().get(before..).unwrap_or_default());
            to.set_filled(before + passes);
            if passes > 0 {
                return Poll::Ready(Ok(()));
            }
        }
        self.end(cx).map(Ok)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.wrote(done)
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
        let done = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        self.wrote(done)
    }
}
