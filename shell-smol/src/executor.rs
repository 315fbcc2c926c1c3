//! What the driver asks of a runtime, as smol has it, and this process's executor: one for the whole program, driven by
//! threads of our own, one for each core (smol's global executor has one thread unless the environment says otherwise).

use core::convert::Infallible;
use std::any::Any;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

use appproxy_core::worker::TransportFailure;
use appproxy_driver::{Failed, FuturesIo, Runtime, Signals, Timer};
use async_channel::bounded;
use async_executor::StaticExecutor;
use async_signal::Signal;
use bytes::Bytes;
use futures_rustls::{TlsAcceptor, TlsConnector, client, server};
use futures_util::FutureExt;
use futures_util::future::CatchUnwind;
use http::Request;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use smol::future::{or, pending, yield_now};
use smol::net::unix::{UnixListener, UnixStream};
use smol::stream::StreamExt;

use crate::alarm::{self, Alarm};
use crate::coordinator;
use crate::socket::{TcpListener, TcpStream};

static EXECUTOR: StaticExecutor = StaticExecutor::new();

/// Tasks in a row before a thread looks what its sockets have to say: a thread that is away from them for longer has the
/// reactor's own thread step in, and with one core the two then take turns.
const TURNS: usize = 8;

/// smol, on this process's executor.
#[derive(Debug, Clone, Copy)]
pub struct Smol;

impl Runtime for Smol {
    const PROGRAM: &'static str = "appproxy-worker-smol";

    type Task<T: Send + 'static> = CatchUnwind<AssertUnwindSafe<async_executor::Task<T>>>;
    type Fault = Box<dyn Any + Send>;
    type Timer = Alarm;
    type Signals = OneStream;
    type Tcp = FuturesIo<TcpStream>;
    type TcpListener = TcpListener;
    type Unix = FuturesIo<UnixStream>;
    type UnixListener = UnixListener;
    type TlsTo = FuturesIo<client::TlsStream<TcpStream>>;
    type TlsOf = FuturesIo<server::TlsStream<TcpStream>>;

    /// Starts the threads, at the first call.
    fn start() -> Result<(), Failed> {
        static STARTED: OnceLock<Result<(), Failed>> = OnceLock::new();
        STARTED.get_or_init(start_threads).clone()
    }

    /// In this thread; what it spawns runs in the others.
    fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failed> {
        Self::start()?;
        Ok(smol::block_on(future))
    }

    fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Self::Task<T> {
        AssertUnwindSafe(EXECUTOR.spawn(future)).catch_unwind()
    }

    fn detach(future: impl Future<Output: Send + 'static> + Send + 'static) {
        EXECUTOR.spawn(future).detach();
    }

    async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (tell, told) = bounded(1);
        smol::unblock(move || drop(tell.try_send(work()))).detach();
        told.recv().await.ok()
    }

    fn until<T>(limit: Instant, work: impl Future<Output = T> + Send) -> impl Future<Output = Option<T>> + Send {
        or(FutureExt::map(work, Some), FutureExt::map(Alarm::at(limit), |_| None))
    }

    async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        smol::net::resolve((host, port)).await
    }

    async fn connect(to: SocketAddr) -> io::Result<Self::Tcp> {
        TcpStream::connect(to).await.map(looking)
    }

    async fn listen(host: &str, port: u16) -> io::Result<(TcpListener, SocketAddr)> {
        let listener = TcpListener::bind((host, port)).await?;
        let at = listener.local_addr()?;
        Ok((listener, at))
    }

    async fn accept(listener: &TcpListener) -> io::Result<(Self::Tcp, SocketAddr)> {
        let (stream, from) = listener.accept().await?;
        Ok((looking(stream), from))
    }

    async fn connect_unix(path: &Path) -> io::Result<Self::Unix> {
        UnixStream::connect(path).await.map(FuturesIo::new)
    }

    fn listen_unix(path: &Path) -> io::Result<UnixListener> {
        UnixListener::bind(path)
    }

    async fn accept_unix(listener: &UnixListener) -> io::Result<Self::Unix> {
        let (stream, _) = listener.accept().await?;
        Ok(FuturesIo::new(stream))
    }

    async fn tls_to(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        stream: Self::Tcp,
    ) -> io::Result<Self::TlsTo> {
        let stream = TlsConnector::from(config).connect(name, stream.into_inner()).await?;
        Ok(FuturesIo::looking(stream, |stream| stream.get_mut().0.look_again()))
    }

    async fn tls_of(config: Arc<ServerConfig>, stream: Self::Tcp) -> io::Result<Self::TlsOf> {
        TlsAcceptor::from(config).accept(stream.into_inner()).await.map(FuturesIo::new)
    }

    async fn fetch(request: Request<Bytes>, tls: &Arc<ClientConfig>) -> Result<(u16, Bytes), TransportFailure> {
        coordinator::fetch(request, tls).await
    }
}

/// The reactor may tell of something once more when it has been heard of already.
const fn looking(stream: TcpStream) -> FuturesIo<TcpStream> {
    FuturesIo::looking(stream, TcpStream::look_again)
}

fn start_threads() -> Result<(), Failed> {
    alarm::start().map_err(|error| Failed::run(format!("no thread for timers: {error}")))?;
    let count = thread::available_parallelism().map_or(1, core::num::NonZero::get);
    for number in 0..count {
        let started = thread::Builder::new().name(format!("smol-{number}")).spawn(|| smol::block_on(drive()));
        if let Err(error) = started {
            return Err(Failed::run(format!("no thread for the executor: {error}")));
        }
    }
    Ok(())
}

async fn drive() -> Infallible {
    loop {
        for _ in 0..TURNS {
            EXECUTOR.tick().await;
        }
        yield_now().await;
    }
}

/// SIGTERM, SIGINT and SIGHUP.
#[derive(Debug)]
pub struct OneStream(async_signal::Signals);

impl Signals for OneStream {
    fn listen() -> io::Result<Self> {
        async_signal::Signals::new([Signal::Term, Signal::Int, Signal::Hup]).map(Self)
    }

    async fn next_of_all(&mut self) -> &'static str {
        loop {
            match StreamExt::next(&mut self.0).await {
                Some(Ok(Signal::Term)) => return "SIGTERM",
                Some(Ok(Signal::Int)) => return "SIGINT",
                Some(Ok(Signal::Hup)) => return "SIGHUP",
                Some(Ok(_)) => {}
                Some(Err(error)) => tracing::warn!(%error, "a signal could not be read"),
                None => pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn work_has_its_time_and_no_more() {
        assert_eq!(smol::block_on(Smol::until(Instant::now(), pending::<()>())), None);
        assert_eq!(smol::block_on(Smol::within(Duration::from_secs(60), async { 7 })), Some(7));
    }
}
