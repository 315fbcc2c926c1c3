//! Listeners of both planes: TCP and unix sockets, bounded connections, bounded heads, an orderly end.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::sync::Arc;
use std::time::Duration;

use appproxy_core::access::address::Peer;
use appproxy_core::config::server::{BindAddress, Server};
use appproxy_core::defects::{Defect, has};
use appproxy_core::exchange::Connection;
use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tower_service::Service;

use crate::pace::{Busy, Marked, Pace, Paced};
use crate::shutdown::Phases;

/// How long a connection beyond `server.max_connections` waits for a place.
const WAIT_FOR_PLACE: Duration = Duration::from_secs(2);
/// Time for a stream that is cut to say so.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// A pause after an accept that failed for want of file descriptors: the next one would fail too.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// An open listener.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, OwnSocket),
}

/// A socket file of ours, removed with its listener.
pub(crate) struct OwnSocket(String);

impl Drop for OwnSocket {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// Where a listener really is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoundAddress {
    /// A TCP address, its port chosen.
    Tcp(SocketAddr),
    /// A unix socket's path.
    Unix(String),
}

impl core::fmt::Display for BoundAddress {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{path}"),
        }
    }
}

impl Listener {
    /// Opens `address`; the error names it.
    pub(crate) async fn open(address: &BindAddress, socket_mode: Option<u32>) -> Result<Self, String> {
        let opened = match address {
            BindAddress::Tcp { host, port } => TcpListener::bind((host.as_str(), *port)).await.map(Self::Tcp),
            BindAddress::Unix(path) => open_unix(path, socket_mode).await,
        };
        opened.map_err(|error| format!("cannot listen at {address}: {error}"))
    }

    /// Where it is.
    pub(crate) fn address(&self) -> io::Result<BoundAddress> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(BoundAddress::Tcp),
            Self::Unix(_, socket) => Ok(BoundAddress::Unix(socket.0.clone())),
        }
    }
}

async fn open_unix(path: &str, mode: Option<u32>) -> io::Result<Listener> {
    if std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        // A socket that nobody answers at is left over; one that answers belongs to somebody.
        if UnixStream::connect(path).await.is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens at this socket"));
        }
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    let socket = OwnSocket(path.to_owned());
    if let Some(mode) = mode {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    }
    Ok(Listener::Unix(listener, socket))
}

/// What all connections of a plane share.
#[derive(Clone)]
pub(crate) struct Plane {
    router: Router,
    http: http1::Builder,
    header_timeout: Duration,
    places: Arc<Semaphore>,
    open: Gauge,
    phases: Phases,
    connections: TaskTracker,
}

impl Plane {
    /// A plane that answers with `router` within the bounds of `server`.
    pub(crate) fn new(router: Router, server: &Server, open: Gauge, phases: Phases) -> Self {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(server.idle_timeout)
            .max_header_size(usize::try_from(server.max_header_size).unwrap_or(usize::MAX));
        if has(Defect::LeavingUnnoticed) {
            http.half_close(true);
        }
        if has(Defect::NoBackPressure) {
            http.writev(false).max_buf_size(usize::MAX / 2);
        }
        let places = Arc::new(Semaphore::new(usize::try_from(server.max_connections).unwrap_or(usize::MAX)));
        Self {
            router,
            http,
            header_timeout: server.header_timeout,
            places,
            open,
            phases,
            connections: TaskTracker::new(),
        }
    }

    /// Accepts until the listeners close.
    pub(crate) async fn accept(self, listener: Listener) {
        loop {
            let accepted = tokio::select! {
                () = self.phases.closing.cancelled() => return,
                accepted = self.accept_one(&listener) => accepted,
            };
            if let Err(error) = accepted {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }

    async fn accept_one(&self, listener: &Listener) -> io::Result<()> {
        match listener {
            Listener::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                drop(stream.set_nodelay(true));
                self.connections.spawn(self.clone().converse(stream, Peer::Ip(from.ip())));
            }
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                self.connections.spawn(self.clone().converse(stream, Peer::Unix));
            }
        }
        Ok(())
    }

    /// Resolves when no connection is open any more; to be called once the listeners are closed.
    pub(crate) async fn all_done(&self) {
        self.connections.close();
        self.connections.wait().await;
    }

    /// Resolves a moment after running requests are cut: their streams say so themselves before they end.
    async fn cut_off(&self) {
        self.phases.cutting.cancelled().await;
        tokio::time::sleep(LAST_WORDS).await;
    }

    async fn converse<S>(self, mut stream: S, peer: Peer)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let place = tokio::time::timeout(WAIT_FOR_PLACE, self.places.acquire()).await;
        let Ok(Ok(_place)) = place else {
            drop(stream.write_all(FULL).await);
            return;
        };
        let _open = Open::count(&self.open);
        let router = self.router.clone();
        let pace = Pace::start();
        let heads = pace.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Connection { peer, tls: false });
            answer(router.clone(), request, heads.head_done())
        });
        let io = Paced { io: TokioIo::new(stream), pace: pace.clone() };
        let connection = self.http.serve_connection(io, service);
        tokio::pin!(connection);
        tokio::select! {
            // Clients come and go; how a connection ended is in its requests' access lines.
            ended = &mut connection => return drop(ended),
            () = pace.too_slow(self.header_timeout) => return,
            () = self.phases.closing.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            ended = connection => drop(ended),
            () = self.cut_off() => {}
        }
    }
}

async fn answer(
    mut router: Router,
    request: Request<Incoming>,
    busy: Busy,
) -> Result<Response<Marked<Body>>, Infallible> {
    Ok(router.call(request).await?.map(|body| Marked { body, _busy: busy }))
}

/// What a connection beyond the bound is told.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
connection: close\r\ncontent-length: 139\r\n\r\n\
{\"error\":{\"message\":\"This server is at its limit. Try again shortly.\",\
\"type\":\"service_unavailable_error\",\"param\":null,\"code\":\"overloaded\"}}";

/// Counts a connection while it lives.
struct Open(Gauge);

impl Open {
    fn count(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::FULL;

    #[test]
    fn the_answer_beyond_the_bound_states_its_length() {
        let text = core::str::from_utf8(FULL).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("head and body");
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{} bytes", body.len());
        assert!(serde_json::from_str::<serde_json::Value>(body).is_ok());
    }
}
