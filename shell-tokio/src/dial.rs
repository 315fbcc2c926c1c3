//! Connections to peers, plain or with TLS.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;

use appproxy_core::exchange::Origin;
use bytes::BytesMut;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::executor::within;
use crate::streams::{AsyncWrite, Either, TcpStream, TlsConnector, TlsStream, look_again, poll_fill, resolve};

/// A connection that says nothing for this long is asked whether the peer still is there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// An open connection.
pub(crate) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// The same, as a lane asks it.
pub(crate) struct Io(Stream);

impl Io {
    /// Reads what there is room for in `to`, and 0 bytes at the end.
    pub(crate) fn poll_fill(&mut self, cx: &mut Context<'_>, to: &mut BytesMut) -> Poll<io::Result<usize>> {
        poll_fill(Pin::new(&mut self.0), cx, to)
    }

    /// Has the next read ask the system, whatever it said last.
    pub(crate) fn look_again(&mut self) {
        look_again(&mut self.0);
    }

    /// Sends some of `slices`.
    pub(crate) fn poll_send(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match slices {
            [bytes] => Pin::new(&mut self.0).poll_write(cx, bytes),
            _ => Pin::new(&mut self.0).poll_write_vectored(cx, slices),
        }
    }

    /// Sends what is held back.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    pub(crate) fn into_inner(self) -> Stream {
        self.0
    }
}

/// Opens a connection, without a time limit around all of it; each of the addresses of a name has its part of `limit`.
pub(crate) async fn connect(origin: &Origin, tls: &Arc<ClientConfig>, limit: Duration) -> io::Result<Io> {
    let addresses = resolve((origin.host(), origin.port())).await.map_err(unresolved)?;
    let part = limit / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
    let mut connected = Err(unresolved(io::Error::other("the name has no address")));
    for address in addresses {
        connected = within(part, TcpStream::connect(address)).await.unwrap_or_else(|| Err(ErrorKind::TimedOut.into()));
        if connected.is_ok() {
            break;
        }
    }
    let stream = connected?;
    drop(stream.set_nodelay(true));
    let keep_alive = socket2::TcpKeepalive::new().with_time(KEEP_ALIVE);
    drop(socket2::SockRef::from(&stream).set_tcp_keepalive(&keep_alive));
    if !origin.tls() {
        return Ok(Io(Either::Left(stream)));
    }
    let name = ServerName::try_from(origin.host().to_owned()).map_err(io::Error::other)?;
    let stream = TlsConnector::from(tls.clone()).connect(name, stream).await?;
    Ok(Io(Either::Right(Box::new(stream))))
}

/// No address could be found for a name; the resolver's words.
#[derive(Debug)]
pub(crate) struct Unresolved(String);

impl core::fmt::Display for Unresolved {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Unresolved {}

/// Marks what the resolver said as its own.
fn unresolved(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), Unresolved(error.to_string()))
}
