//! Connections to peers, plain or with TLS.

use core::time::Duration;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use appproxy_core::exchange::Origin;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::executor::within;
use crate::streams::{Either, HttpIo, TcpStream, TlsConnector, TlsStream, resolve};

/// A connection that says nothing for this long is asked whether the peer still is there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// An open connection.
pub(crate) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;
/// The same, as the HTTP library wants it.
pub(crate) type Io = HttpIo<Stream>;

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
        return Ok(HttpIo::new(Either::Left(stream)));
    }
    let name = ServerName::try_from(origin.host().to_owned()).map_err(io::Error::other)?;
    let stream = TlsConnector::from(tls.clone()).connect(name, stream).await?;
    Ok(HttpIo::new(Either::Right(Box::new(stream))))
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
