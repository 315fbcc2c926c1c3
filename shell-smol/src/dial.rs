//! Connections to peers, plain or with TLS, and one request over a connection of its own.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::io;
use std::sync::Arc;

use futures_rustls::TlsConnector;
use futures_rustls::client::TlsStream;
use futures_util::io::{AsyncRead, AsyncWrite};
use http::header::{Entry, HOST, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use smol::net::TcpStream;
use smol_hyper::rt::FuturesIo;

use crate::executor::spawn;

/// A connection that says nothing for this long is asked whether the peer still is there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// An open connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
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

/// Whom a URI speaks of: what a connection is opened to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Peer {
    tls: bool,
    authority: Authority,
}

impl Peer {
    /// `None` for a URI without a host, or that is neither `http` nor `https`.
    pub(crate) fn of(uri: &Uri) -> Option<Self> {
        let scheme = uri.scheme()?;
        let tls = *scheme == Scheme::HTTPS;
        (tls || *scheme == Scheme::HTTP).then_some(())?;
        Some(Self { tls, authority: uri.authority()?.clone() })
    }

    /// Opens a connection, without a time limit.
    pub(crate) async fn connect(&self, tls: &Arc<ClientConfig>) -> io::Result<Stream> {
        let host = self.authority.host();
        // An IPv6 address stands in brackets in a URI, and without elsewhere.
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = self.authority.port_u16().unwrap_or(if self.tls { 443 } else { 80 });
        let unresolved = |error: io::Error| io::Error::new(error.kind(), Unresolved(error.to_string()));
        let addresses = smol::net::resolve((host, port)).await.map_err(unresolved)?;
        let stream = TcpStream::connect(addresses.as_slice()).await?;
        drop(stream.set_nodelay(true));
        let keep_alive = socket2::TcpKeepalive::new().with_time(KEEP_ALIVE);
        drop(socket2::SockRef::from(&stream).set_tcp_keepalive(&keep_alive));
        if !self.tls {
            return Ok(Stream::Plain(stream));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = TlsConnector::from(tls.clone()).connect(name, stream).await?;
        Ok(Stream::Tls(Box::new(stream)))
    }
}

/// Starts HTTP on `stream`. Its connection runs by itself, and ends when the handle and its last answer are dropped.
pub(crate) async fn speak<B>(stream: Stream) -> hyper::Result<http1::SendRequest<B>>
where
    B: Body<Error: Into<Box<dyn core::error::Error + Send + Sync>>, Data: Send> + Send + 'static,
{
    let (sender, connection) = http1::handshake(FuturesIo::new(stream)).await?;
    // A connection that becomes a tunnel is handed on.
    spawn(async move { drop(connection.with_upgrades().await) }).detach();
    Ok(sender)
}

/// Gives a request with an absolute URI the form it has on a connection to its peer.
pub(crate) fn for_origin<B>(request: &mut Request<B>) {
    let authority = request.uri().authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
    if let (Some(authority), Entry::Vacant(host)) = (authority, request.headers_mut().entry(HOST)) {
        host.insert(authority);
    }
    let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from(path);
}

/// Makes one request over a connection of its own.
pub(crate) async fn once<B>(
    mut request: Request<B>,
    tls: &Arc<ClientConfig>,
) -> Result<Response<Incoming>, Box<dyn core::error::Error + Send + Sync>>
where
    B: Body<Error: Into<Box<dyn core::error::Error + Send + Sync>>, Data: Send> + Send + 'static,
{
    let Some(peer) = Peer::of(request.uri()) else { return Err("neither http nor https".into()) };
    let mut sender = speak(peer.connect(tls).await?).await?;
    for_origin(&mut request);
    Ok(sender.send_request(request).await?)
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut [u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, to),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, to),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_close(cx),
            Self::Tls(stream) => Pin::new(stream).poll_close(cx),
        }
    }
}
