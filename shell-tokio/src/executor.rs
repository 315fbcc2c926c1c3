//! What the driver asks of a runtime, as tokio has it: tasks, time, signals; connections are in `streams`.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use appproxy_driver::{Failed, Runtime, Signals, Timer};
use futures_util::FutureExt;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinError;
use tokio::time::{Sleep, sleep_until};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};
use tokio_util::task::AbortOnDropHandle;

use crate::streams::Io;

/// The tokio runtime that this process has entered.
#[derive(Debug, Clone, Copy)]
pub struct Tokio;

impl Runtime for Tokio {
    const PROGRAM: &'static str = "appproxy-worker";

    type Task<T: Send + 'static> = AbortOnDropHandle<T>;
    type Fault = JoinError;
    type Timer = Sleeping;
    type Signals = Three;
    type Tcp = Io<TcpStream>;
    type TcpListener = TcpListener;
    type Unix = Io<UnixStream>;
    type UnixListener = UnixListener;
    type TlsTo = Io<client::TlsStream<TcpStream>>;
    type TlsOf = Io<server::TlsStream<TcpStream>>;

    fn start() -> Result<(), Failed> {
        let entered = Handle::try_current();
        entered.map(drop).map_err(|_| Failed::run("no tokio runtime: start the worker inside of one".to_owned()))
    }

    fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failed> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failed::run(format!("no runtime: {error}")))?;
        Ok(runtime.block_on(future))
    }

    fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> AbortOnDropHandle<T> {
        AbortOnDropHandle::new(tokio::spawn(future))
    }

    fn detach(future: impl Future<Output: Send + 'static> + Send + 'static) {
        drop(tokio::spawn(future));
    }

    async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        match tokio::task::spawn_blocking(work).await {
            Ok(done) => Some(done),
            Err(error) if error.is_panic() => None,
            // A runtime that ends drops us here anyway.
            Err(_) => core::future::pending().await,
        }
    }

    fn until<T>(limit: Instant, work: impl Future<Output = T> + Send) -> impl Future<Output = Option<T>> + Send {
        tokio::time::timeout_at(limit.into(), work).map(Result::ok)
    }

    async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        tokio::net::lookup_host((host, port)).await.map(Iterator::collect)
    }

    async fn connect(to: SocketAddr) -> io::Result<Self::Tcp> {
        TcpStream::connect(to).await.map(Io)
    }

    async fn listen(host: &str, port: u16) -> io::Result<(TcpListener, SocketAddr)> {
        let listener = TcpListener::bind((host, port)).await?;
        let at = listener.local_addr()?;
        Ok((listener, at))
    }

    async fn accept(listener: &TcpListener) -> io::Result<(Self::Tcp, SocketAddr)> {
        let (stream, from) = listener.accept().await?;
        Ok((Io(stream), from))
    }

    async fn connect_unix(path: &Path) -> io::Result<Self::Unix> {
        UnixStream::connect(path).await.map(Io)
    }

    fn listen_unix(path: &Path) -> io::Result<UnixListener> {
        UnixListener::bind(path)
    }

    async fn accept_unix(listener: &UnixListener) -> io::Result<Self::Unix> {
        let (stream, _) = listener.accept().await?;
        Ok(Io(stream))
    }

    async fn tls_to(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        stream: Self::Tcp,
    ) -> io::Result<Self::TlsTo> {
        TlsConnector::from(config).connect(name, stream.0).await.map(Io)
    }

    async fn tls_of(config: Arc<ServerConfig>, stream: Self::Tcp) -> io::Result<Self::TlsOf> {
        TlsAcceptor::from(config).accept(stream.0).await.map(Io)
    }
}

/// Resolves at its instant.
#[derive(Debug)]
pub struct Sleeping(Pin<Box<Sleep>>);

impl Timer for Sleeping {
    fn at(instant: Instant) -> Self {
        Self(Box::pin(sleep_until(instant.into())))
    }

    fn set_at(&mut self, instant: Instant) {
        self.0.as_mut().reset(instant.into());
    }
}

impl Future for Sleeping {
    type Output = Instant;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Instant> {
        ready!(self.0.as_mut().poll(cx));
        Poll::Ready(self.0.deadline().into_std())
    }
}

/// SIGTERM, SIGINT and SIGHUP.
#[derive(Debug)]
pub struct Three {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals for Three {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next_of_all(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.hangup.recv() => "SIGHUP",
        }
    }
}
