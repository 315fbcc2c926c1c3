//! Connections to peers, plain or with TLS.

use core::task::{Context, Poll};
use core::time::Duration;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;

use appproxy_core::exchange::Origin;
use bytes::BytesMut;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};

use crate::runtime::Runtime;
use crate::stream::Stream;

/// A connection that says nothing for this long is asked whether the peer still is there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// An open connection.
pub(crate) enum Io<R: Runtime> {
    Plain(R::Tcp),
    Tls(Box<R::TlsTo>),
}

impl<R: Runtime> Stream for Io<R> {
    fn poll_read(&mut self, cx: &mut Context<'_>, to: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => stream.poll_read(cx, to),
            Self::Tls(stream) => stream.poll_read(cx, to),
        }
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, to: &mut BytesMut) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => stream.poll_fill(cx, to),
            Self::Tls(stream) => stream.poll_fill(cx, to),
        }
    }

    fn look_again(&mut self) {
        match self {
            Self::Plain(stream) => stream.look_again(),
            Self::Tls(stream) => stream.look_again(),
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => stream.poll_send(cx, slices),
            Self::Tls(stream) => stream.poll_send(cx, slices),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => stream.poll_flush(cx),
            Self::Tls(stream) => stream.poll_flush(cx),
        }
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => stream.poll_close(cx),
            Self::Tls(stream) => stream.poll_close(cx),
        }
    }
}

/// Opens a connection, without a time limit around all of it; each of the addresses of a name has its part of `limit`.
pub(crate) async fn connect<R: Runtime>(
    origin: &Origin,
    tls: &Arc<ClientConfig>,
    limit: Duration,
) -> io::Result<Io<R>> {
    let addresses = R::resolve(origin.host(), origin.port()).await.map_err(unresolved)?;
    let part = limit / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
    let mut connected = Err(unresolved(io::Error::other("the name has no address")));
    for address in addresses {
        connected = R::within(part, R::connect(address)).await.unwrap_or_else(|| Err(ErrorKind::TimedOut.into()));
        if connected.is_ok() {
            break;
        }
    }
    let stream = connected?;
    let socket = SockRef::from(&stream);
    drop(socket.set_tcp_nodelay(true));
    drop(socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEP_ALIVE)));
    if !origin.tls() {
        return Ok(Io::Plain(stream));
    }
    let name = ServerName::try_from(origin.host().to_owned()).map_err(io::Error::other)?;
    let stream = R::tls_to(tls.clone(), name, stream).await?;
    Ok(Io::Tls(Box::new(stream)))
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
