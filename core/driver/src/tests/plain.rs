//! A runtime for the tests of this package: smol, with nothing of our own in it.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::any::Any;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use futures_rustls::{TlsAcceptor, TlsConnector, client, server};
use futures_util::FutureExt;
use futures_util::future::CatchUnwind;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use smol::net::unix::{UnixListener, UnixStream};
use smol::net::{TcpListener, TcpStream};

use crate::futures_io::FuturesIo;
use crate::runtime::{Runtime, Signals, Timer};
use crate::{Failed, part};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Plain;

impl Runtime for Plain {
    const PROGRAM: &'static str = "appproxy-worker-plain";

    type Task<T: Send + 'static> = CatchUnwind<AssertUnwindSafe<smol::Task<T>>>;
    type Fault = Box<dyn Any + Send>;
    type Timer = Alarm;
    type Signals = Silence;
    type Tcp = FuturesIo<TcpStream>;
    type TcpListener = TcpListener;
    type Unix = FuturesIo<UnixStream>;
    type UnixListener = UnixListener;
    type TlsTo = FuturesIo<client::TlsStream<TcpStream>>;
    type TlsOf = FuturesIo<server::TlsStream<TcpStream>>;

    fn start() -> Result<(), Failed> {
        Ok(())
    }

    fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failed> {
        Ok(smol::block_on(future))
    }

    fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Self::Task<T> {
        AssertUnwindSafe(smol::spawn(future)).catch_unwind()
    }

    fn detach(future: impl Future<Output: Send + 'static> + Send + 'static) {
        smol::spawn(future).detach();
    }

    async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        AssertUnwindSafe(smol::unblock(work)).catch_unwind().await.ok()
    }

    async fn until<T>(limit: Instant, work: impl Future<Output = T> + Send) -> Option<T> {
        part::or(work.map(Some), Alarm::at(limit).map(|_| None)).await
    }

    async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        smol::net::resolve((host, port)).await
    }

    async fn connect(to: SocketAddr) -> io::Result<Self::Tcp> {
        TcpStream::connect(to).await.map(FuturesIo::new)
    }

    async fn listen(host: &str, port: u16) -> io::Result<(TcpListener, SocketAddr)> {
        let listener = TcpListener::bind((host, port)).await?;
        let at = listener.local_addr()?;
        Ok((listener, at))
    }

    async fn accept(listener: &TcpListener) -> io::Result<(Self::Tcp, SocketAddr)> {
        let (stream, from) = listener.accept().await?;
        Ok((FuturesIo::new(stream), from))
    }

    async fn connect_unix(path: &Path) -> io::Result<Self::Unix> {
        UnixStream::connect(path).await.map(FuturesIo::new)
    }

    fn listen_unix(path: &Path) -> io::Result<UnixListener> {
        UnixListener::bind(path)
    }

    async fn accept_unix(listener: &UnixListener) -> io::Result<Self::Unix> {
        listener.accept().await.map(|(stream, _)| FuturesIo::new(stream))
    }

    async fn tls_to(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        stream: Self::Tcp,
    ) -> io::Result<Self::TlsTo> {
        TlsConnector::from(config).connect(name, stream.into_inner()).await.map(FuturesIo::new)
    }

    async fn tls_of(config: Arc<ServerConfig>, stream: Self::Tcp) -> io::Result<Self::TlsOf> {
        TlsAcceptor::from(config).accept(stream.into_inner()).await.map(FuturesIo::new)
    }
}

#[derive(Debug)]
pub(crate) struct Alarm(Instant, smol::Timer);

impl Timer for Alarm {
    fn at(instant: Instant) -> Self {
        Self(instant, smol::Timer::at(instant))
    }

    fn set_at(&mut self, instant: Instant) {
        self.0 = instant;
        self.1.set_at(instant);
    }
}

impl Future for Alarm {
    type Output = Instant;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Instant> {
        ready!(Pin::new(&mut self.1).poll(cx));
        Poll::Ready(self.0)
    }
}

/// Nobody sends signals to a test.
pub(crate) struct Silence;

impl Signals for Silence {
    fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next_of_all(&mut self) -> &'static str {
        core::future::pending().await
    }
}

#[cfg(feature = "appproxy-router")]
#[test]
fn the_whole_worker_runs_on_it() {
    use appproxy_fixtures::Request;
    use appproxy_fixtures::stage::{Demo, Mode, Prepared, ask};
    use core::time::Duration;
    use serde_json::json;

    Plain::block_on(async {
        let prepared = Plain::aside(|| Demo::prepare(0, Mode::Router)).await.expect("no fault");
        let Prepared { demo, configuration, .. } = prepared.expect("surroundings");
        let loaded = appproxy_core::config::load(&configuration, &|_| None).expect("a configuration");
        let running = crate::Running::<Plain>::start(loaded.config).await.expect("a worker");
        while !running.is_ready() {
            Alarm::after(Duration::from_millis(10)).await;
        }
        let address = running.data().first().map(ToString::to_string).expect("an address");
        let body = json!({"model": "demo-chat", "messages": [{"role": "user", "content": "Hello"}]});
        let chat = Request::post("/v1/chat/completions", &body).with_header("authorization", "Bearer sk-demo");
        let answer = Plain::aside(move || ask(&address, chat)).await.expect("no fault").expect("an answer");
        assert!(answer.value().get("choices").is_some(), "{}", answer.status);
        running.stop().await;
        Plain::aside(move || drop(demo)).await.expect("no fault");
    })
    .expect("a runtime");
}
