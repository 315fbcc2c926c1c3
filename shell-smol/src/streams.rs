//! What bytes come and go by, as smol has it: sockets, the family of I/O traits, TLS over both.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io;

use futures_util::io::{ReadHalf, WriteHalf};

pub(crate) use futures_rustls::client::TlsStream;
pub(crate) use futures_rustls::{TlsAcceptor, TlsConnector};
pub(crate) use futures_util::future::Either;
pub(crate) use futures_util::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, sink};
pub(crate) use smol::net::resolve;
pub(crate) use smol::net::unix::{UnixListener, UnixStream};

pub(crate) use crate::alarm::HttpTimer;
pub(crate) use crate::socket::{HttpIo, TcpListener, TcpStream, poll_fill};

use crate::dial::Stream;
use crate::pace::Paced;

/// Its two directions.
pub(crate) fn split<S: AsyncRead + AsyncWrite>(stream: S) -> (ReadHalf<S>, WriteHalf<S>) {
    stream.split()
}

/// Has the next read ask the system: the reactor may tell of something once more when it has been heard of already.
pub(crate) fn look_again(stream: &mut Stream) {
    match stream {
        Either::Left(stream) => stream.look_again(),
        Either::Right(stream) => stream.get_mut().0.look_again(),
    }
}

/// Says that nothing more comes.
pub(crate) async fn close(stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    stream.close().await
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut [u8]) -> Poll<io::Result<usize>> {
        if !self.is_over() {
            let bytes = ready!(Pin::new(&mut self.io).poll_read(cx, to))?;
            let passes = self.came(to.get(..bytes).unwrap_or_default());
            if passes > 0 {
                return Poll::Ready(Ok(passes));
            }
        }
        self.end(cx).map(|()| Ok(0))
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

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_close(cx)
    }
}
