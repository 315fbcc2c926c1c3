//! Listeners of both planes: TCP and unix sockets, bounded connections, bounded heads, an orderly end.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use appproxy_core::access::address::Peer;
use appproxy_core::config::server::{BindAddress, Server};
use appproxy_core::exchange::Connection;
use appproxy_core::telemetry::Gauge;
use futures_util::future::{Either, select};
use futures_util::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use smol::Timer;
use smol::channel::{Receiver, Sender, bounded};
use smol::future::or;
use smol::lock::Semaphore;
use smol::net::TcpListener;
use smol::net::unix::{UnixListener, UnixStream};
use smol_hyper::rt::{FuturesIo, SmolTimer};

use crate::data::Body;
use crate::executor::{spawn, within};
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

/// Answers a request, whatever it is.
type Answer = Arc<dyn Fn(Request<Incoming>) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> + Send + Sync>;

/// What all connections of a plane share.
#[derive(Clone)]
pub(crate) struct Plane {
    answer: Answer,
    http: http1::Builder,
    header_timeout: Duration,
    places: Arc<Semaphore>,
    open: Gauge,
    phases: Phases,
    /// Closed when the last clone of this plane has gone, and each connection holds one.
    _alive: Sender<Infallible>,
}

impl Plane {
    /// A plane that answers with `answer` within the bounds of `server`, and what ends with its last connection.
    pub(crate) fn new<F>(
        answer: impl Fn(Request<Incoming>) -> F + Send + Sync + 'static,
        server: &Server,
        open: Gauge,
        phases: Phases,
    ) -> (Self, Receiver<Infallible>)
    where
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let mut http = http1::Builder::new();
        http.timer(SmolTimer::new())
            .header_read_timeout(server.idle_timeout)
            .max_header_size(usize::try_from(server.max_header_size).unwrap_or(usize::MAX));
        let places = Arc::new(Semaphore::new(usize::try_from(server.max_connections).unwrap_or(usize::MAX)));
        let (alive, gone) = bounded(1);
        let answer: Answer = Arc::new(move |request| Box::pin(answer(request)));
        (Self { answer, http, header_timeout: server.header_timeout, places, open, phases, _alive: alive }, gone)
    }

    /// Accepts until the listeners close.
    pub(crate) async fn accept(self, listener: Listener) {
        loop {
            let closing = async {
                self.phases.closing.turned().await;
                None
            };
            match or(closing, async { Some(self.accept_one(&listener).await) }).await {
                None => return,
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    Timer::after(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn accept_one(&self, listener: &Listener) -> io::Result<()> {
        match listener {
            Listener::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                drop(stream.set_nodelay(true));
                spawn(self.clone().converse(stream, Peer::Ip(from.ip()))).detach();
            }
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                spawn(self.clone().converse(stream, Peer::Unix)).detach();
            }
        }
        Ok(())
    }

    /// Resolves a moment after running requests are cut: their streams say so themselves before they end.
    async fn cut_off(&self) {
        self.phases.cutting.turned().await;
        Timer::after(LAST_WORDS).await;
    }

    async fn converse<S>(self, mut stream: S, peer: Peer)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let Some(_place) = within(WAIT_FOR_PLACE, self.places.acquire()).await else {
            drop(stream.write_all(FULL).await);
            return;
        };
        let _open = self.open.hold();
        let answer = self.answer.clone();
        let pace = Pace::start();
        let heads = pace.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Connection { peer, tls: false });
            marked(answer(request), heads.head_done())
        });
        let io = Paced { io: FuturesIo::new(stream), pace: pace.clone() };
        let mut connection = pin!(self.http.serve_connection(io, service));
        let slow = pace.too_slow(self.header_timeout);
        let closing = self.phases.closing.turned();
        // Clients come and go; how a connection ended is in its requests' access lines.
        match select(
            connection.as_mut(),
            pin!(or(
                async {
                    slow.await;
                    true
                },
                async {
                    closing.await;
                    false
                }
            )),
        )
        .await
        {
            Either::Left(_) | Either::Right((true, _)) => return,
            Either::Right((false, _)) => connection.as_mut().graceful_shutdown(),
        }
        drop(select(connection, pin!(self.cut_off())).await);
    }
}

async fn marked(
    answer: impl Future<Output = Response<Body>>,
    busy: Busy,
) -> Result<Response<Marked<Body>>, Infallible> {
    Ok(answer.await.map(|body| Marked { body, _busy: busy }))
}

/// What a connection beyond the bound is told.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
connection: close\r\ncontent-length: 139\r\n\r\n\
{\"error\":{\"message\":\"This server is at its limit. Try again shortly.\",\
\"type\":\"service_unavailable_error\",\"param\":null,\"code\":\"overloaded\"}}";

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
