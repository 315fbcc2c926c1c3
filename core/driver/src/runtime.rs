//! What the driver asks of a runtime: tasks, time, connections, signals.

use core::fmt::Debug;
use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use appproxy_core::worker::TransportFailure;
use bytes::Bytes;
use http::Request;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};

use crate::stream::Stream;
use crate::{Failed, calls};

/// Far enough to be never, and near enough to be an instant.
const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);

/// A runtime, with all that the driver asks of one. Nothing of it is decided here, and no value of it is passed about: a
/// type that implements it stands for the runtime of this process.
///
/// What the driver relies on beyond the types is held against each runtime by `tests/tests/runtimes.rs`.
///
/// To have the whole worker on a runtime of your own, implement this for a type `Mine` and start
/// [`Running::<Mine>`](crate::Running). The Redis crate brings its own connections: it has to be told, by one of its features,
/// whether those are tokio's (`tokio-rustls-comp`) or smol's (`smol-rustls-comp`, which works beside any runtime).
pub trait Runtime: Debug + Copy + Send + Sync + Unpin + 'static {
    /// What a journal says that wrote it.
    const PROGRAM: &'static str;

    /// A task that comes to a `T`, or to an error if it meets a fault. Dropping it ends it.
    type Task<T: Send + 'static>: Future<Output = Result<T, Self::Fault>> + Send + Sync + Unpin + 'static;
    /// What is left of a task that panicked.
    type Fault: Debug + Send + 'static;
    /// Resolves at its instant.
    type Timer: Timer;
    /// The signals that end a worker, or have it read its configuration anew.
    type Signals: Signals;
    /// A TCP connection. The driver turns off Nagle's delays and has the system look whether the peer still lives, hence
    /// `AsFd`.
    type Tcp: Stream + AsFd + 'static;
    /// What accepts them.
    type TcpListener: Send + Sync + 'static;
    /// A connection over a unix socket.
    type Unix: Stream + 'static;
    /// What accepts them.
    type UnixListener: Send + Sync + 'static;
    /// TLS towards a peer.
    type TlsTo: Stream + 'static;
    /// TLS of a client.
    type TlsOf: Stream + 'static;

    /// Makes sure that tasks can be spawned, as often as it is called.
    ///
    /// # Errors
    /// When they cannot, with what to do about it.
    fn start() -> Result<(), Failed>;

    /// What `future` comes to, for a program that has nothing else to do in this thread.
    ///
    /// # Errors
    /// When the runtime cannot be started.
    fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failed>;

    /// Runs `future` while the task is held.
    fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Self::Task<T>;

    /// Runs `future` to its end. Also called while something is dropped, in a thread of the runtime.
    fn detach(future: impl Future<Output: Send + 'static> + Send + 'static);

    /// Does `work` where it may take a while; it is done to its end, whoever waits. `None`: it met a fault.
    fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> impl Future<Output = Option<T>> + Send;

    /// What `work` comes to, unless it is not done at an instant. `work` is asked first: what is done is done, however late.
    fn until<T>(limit: Instant, work: impl Future<Output = T> + Send) -> impl Future<Output = Option<T>> + Send;

    /// The same, unless it takes longer than `limit`.
    fn within<T>(limit: Duration, work: impl Future<Output = T> + Send) -> impl Future<Output = Option<T>> + Send {
        Self::until(later(limit), work)
    }

    /// All addresses of a name.
    fn resolve(host: &str, port: u16) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send;

    /// Opens a TCP connection.
    fn connect(to: SocketAddr) -> impl Future<Output = io::Result<Self::Tcp>> + Send;

    /// Listens at the first address of a name that can be had; says which it is.
    fn listen(host: &str, port: u16) -> impl Future<Output = io::Result<(Self::TcpListener, SocketAddr)>> + Send;

    /// The next connection, and where it comes from.
    fn accept(listener: &Self::TcpListener) -> impl Future<Output = io::Result<(Self::Tcp, SocketAddr)>> + Send;

    /// Opens a connection to a unix socket.
    fn connect_unix(path: &Path) -> impl Future<Output = io::Result<Self::Unix>> + Send;

    /// Listens at a unix socket that does not exist yet.
    ///
    /// # Errors
    /// What the system says.
    fn listen_unix(path: &Path) -> io::Result<Self::UnixListener>;

    /// The next connection.
    fn accept_unix(listener: &Self::UnixListener) -> impl Future<Output = io::Result<Self::Unix>> + Send;

    /// Speaks TLS with the peer of this name.
    fn tls_to(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        stream: Self::Tcp,
    ) -> impl Future<Output = io::Result<Self::TlsTo>> + Send;

    /// Speaks TLS with a client.
    fn tls_of(config: Arc<ServerConfig>, stream: Self::Tcp) -> impl Future<Output = io::Result<Self::TlsOf>> + Send;

    /// One call to the coordinator: the status and the whole body of its answer, of which no more is read than
    /// `appproxy_core::limits::CALL_ANSWER_BYTES`; the driver limits the time. Unless a runtime has a client of its own, it
    /// goes by the driver's.
    fn fetch(
        request: Request<Bytes>,
        tls: &Arc<ClientConfig>,
    ) -> impl Future<Output = Result<(u16, Bytes), TransportFailure>> + Send {
        calls::fetch::<Self>(request, tls)
    }
}

/// Resolves at its instant, never before, and says which that was. One that has come can be set again.
pub trait Timer: Future<Output = Instant> + Send + Sync + Unpin + 'static {
    /// A timer for this instant.
    fn at(instant: Instant) -> Self;

    /// Moves it to another instant.
    fn set_at(&mut self, instant: Instant);

    /// A timer for so long from now.
    #[must_use]
    fn after(wait: Duration) -> Self
    where
        Self: Sized,
    {
        Self::at(later(wait))
    }
}

/// SIGTERM, SIGINT and SIGHUP.
pub trait Signals: Send + Sized {
    /// Takes the signals over from the system's default, which is to die.
    ///
    /// # Errors
    /// What the system says.
    fn listen() -> io::Result<Self>;

    /// The next signal of any kind: `"SIGTERM"`, `"SIGINT"` or `"SIGHUP"`, spelled so. SIGHUP asks a worker to read its
    /// configuration anew; a terminal that closes says it too. Dropped before it comes to one, and asked again: no signal may
    /// be lost by that.
    fn next_of_all(&mut self) -> impl Future<Output = &'static str> + Send;
}

/// The instant that is so long from now.
fn later(wait: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(wait).unwrap_or_else(|| now + FAR)
}
