//! The connections of one plane, from accepting them to their orderly end: bounded in number, in time and in heads.

use core::convert::Infallible;
use core::future::poll_fn;
use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use appproxy_core::access::address::Peer;
use appproxy_core::config::server::Server;
use appproxy_core::defects::{Defect, has};
use appproxy_core::exchange::{BadHead, Connection, FULL};
use appproxy_core::telemetry::{Gauge, Held};
use arc_swap::ArcSwap;
use async_channel::{Receiver, Sender, bounded};
use futures_util::FutureExt;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use rustls::ServerConfig;
use socket2::SockRef;

use crate::data::{self, Body};
use crate::http_timer::HttpTimer;
use crate::listen::Listener;
use crate::node::Node;
use crate::pace::{Busy, Marked, Pace};
use crate::paced::Paced;
use crate::part::{Part, either, or};
use crate::runtime::{Runtime, Timer};
use crate::shutdown::Phases;
use crate::stream::{Stream, close, swallow, write_all};

/// How long a connection beyond `server.max_connections` waits for a place.
const WAIT_FOR_PLACE: Duration = Duration::from_secs(2);
/// Time for a stream that is cut to say so.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// A pause after an accept that failed for want of file descriptors: the next one would fail too.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Time for a connection to close; what a refused client still sends is taken meanwhile, or it would never see why.
const CLOSING: Duration = Duration::from_secs(1);

/// What all connections of a plane share.
#[derive(Clone)]
pub(crate) struct Plane<R: Runtime>(Arc<Shared<R>>);

/// A request on its way to its answer.
pub(crate) type Answered<R> = Pin<Box<dyn Future<Output = Response<Body<R>>> + Send>>;

/// Answers requests, whatever they are.
type Answer<R> = Box<dyn Fn(Request<Incoming>, Arrival<R>) -> Answered<R> + Send + Sync>;

struct Shared<R: Runtime> {
    answer: Answer<R>,
    node: Arc<Node<R>>,
    limits: ArcSwap<Limits>,
    /// For TCP; swapped when the certificate is read anew.
    tls: Option<ArcSwap<ServerConfig>>,
    places: Places,
    phases: Phases,
    /// Closed when the last clone of this plane has gone; each connection holds one.
    _alive: Sender<Infallible>,
}

struct Limits {
    http: http1::Builder,
    header_timeout: Duration,
    idle_timeout: Duration,
    max_header: u64,
    max_connections: usize,
}

impl Limits {
    fn of<R: Runtime>(server: &Server) -> Self {
        let mut http = http1::Builder::new();
        http.timer(HttpTimer::<R>::new())
            .header_read_timeout(server.idle_timeout)
            // One more than is ever let through to it: to refuse a head is ours, who have the words.
            .max_header_size(usize::try_from(server.max_header_size).unwrap_or(usize::MAX).saturating_add(1));
        if has(Defect::LeavingUnnoticed) {
            http.half_close(true);
        }
        if has(Defect::NoBackPressure) {
            http.writev(false).max_buf_size(usize::MAX / 2);
        }
        Self {
            http,
            header_timeout: server.header_timeout,
            idle_timeout: server.idle_timeout,
            max_header: server.max_header_size,
            max_connections: usize::try_from(server.max_connections).unwrap_or(usize::MAX),
        }
    }
}

/// What the service is told of a request beside its head.
#[derive(Clone)]
pub(crate) struct Arrival<R: Runtime> {
    pub(crate) connection: Connection,
    pub(crate) pace: Pace<R>,
    pub(crate) at: Instant,
}

impl<R: Runtime> Plane<R> {
    /// A plane that answers with `answer` within the bounds of `server`, and what closes with its last connection.
    pub(crate) fn new(
        answer: impl Fn(Request<Incoming>, Arrival<R>) -> Answered<R> + Send + Sync + 'static,
        node: Arc<Node<R>>,
        server: &Server,
        tls: Option<Arc<ServerConfig>>,
        open: Gauge,
        phases: Phases,
    ) -> (Self, Receiver<Infallible>) {
        let places = Places { taken: AtomicUsize::new(0), freed: bounded(1), open };
        let (limits, tls) = (ArcSwap::from_pointee(Limits::of::<R>(server)), tls.map(ArcSwap::new));
        let ((alive, gone), answer) = (bounded(1), Box::new(answer));
        (Self(Arc::new(Shared { answer, node, limits, tls, places, phases, _alive: alive })), gone)
    }

    /// Has connections that come from now on go by `server`, and by this certificate.
    pub(crate) fn reload(&self, server: &Server, tls: Option<Arc<ServerConfig>>) {
        self.0.limits.store(Arc::new(Limits::of::<R>(server)));
        if let (Some(held), Some(fresh)) = (&self.0.tls, tls) {
            held.store(fresh);
        }
    }

    /// Accepts until the listeners close.
    pub(crate) async fn accept(self, listener: Listener<R>) {
        loop {
            let closing = self.0.phases.closing.turned().map(|()| None);
            match or(closing, self.accept_one(&listener).map(Some)).await {
                None => return,
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    R::Timer::after(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn accept_one(&self, listener: &Listener<R>) -> io::Result<()> {
        let plane = self.clone();
        match listener {
            Listener::Tcp(listener, _) => {
                let (stream, from) = R::accept(listener).await?;
                drop(SockRef::from(&stream).set_tcp_nodelay(true));
                R::detach(async move { plane.welcome(stream, Peer::Ip(from.ip())).await });
            }
            Listener::Unix(listener, _) => {
                let stream = R::accept_unix(listener).await?;
                R::detach(async move {
                    if let Some((_place, stream)) = plane.place(stream).await {
                        plane.converse(stream, Connection::new(Peer::Unix, false)).await;
                    }
                });
            }
        }
        Ok(())
    }

    /// A connection over TCP, with TLS when that is configured.
    async fn welcome(&self, stream: R::Tcp, peer: Peer) {
        let Some(tls) = &self.0.tls else {
            if let Some((_place, stream)) = self.place(stream).await {
                self.converse(stream, Connection::new(peer, false)).await;
            }
            return;
        };
        let Some(_place) = self.0.places.take::<R>(self.0.limits.load().max_connections).await else {
            // It speaks TLS, of which there is none yet to say so in.
            return self.cut("limit");
        };
        let handshake = R::tls_of(tls.load_full(), stream);
        let limit = self.0.limits.load().header_timeout;
        let closing = self.0.phases.closing.turned().map(|()| None);
        match or(R::within(limit, handshake).map(Some), closing).await {
            None => {}
            Some(Some(Ok(stream))) => self.converse(stream, Connection::new(peer, true)).await,
            Some(Some(Err(error))) => {
                tracing::debug!(%error, "a client's TLS handshake failed");
                self.cut("tls");
            }
            Some(None) => self.cut("slow"),
        }
    }

    fn cut(&self, why: &'static str) {
        self.0.node.metrics.counts().connection_cut(why);
    }

    /// A place for a connection; one that finds none is told so.
    async fn place<S: Stream>(&self, mut stream: S) -> Option<(Place<'_>, S)> {
        match self.0.places.take::<R>(self.0.limits.load().max_connections).await {
            Some(place) => Some((place, stream)),
            None => {
                self.cut("limit");
                drop(R::within(CLOSING, write_all(&mut stream, FULL)).await);
                None
            }
        }
    }

    /// Resolves a moment after running requests are cut: their streams say so themselves before they end.
    async fn cut_off(&self) {
        self.0.phases.cutting.turned().await;
        R::Timer::after(LAST_WORDS).await;
    }

    async fn converse<S: Stream + 'static>(&self, stream: S, from: Connection) {
        let limits = self.0.limits.load_full();
        let pace = Pace::start(self.0.node.clock);
        let (plane, of_requests) = (self.clone(), pace.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let arrival = Arrival { connection: from.clone(), pace: of_requests.clone(), at: Instant::now() };
            let busy = Some(of_requests.head_done());
            Answering { answer: (plane.0.answer)(request, arrival), busy }
        });
        let io = Paced::new(stream, pace.clone(), limits.max_header);
        let mut connection = limits.http.serve_connection(io, service);
        let part = Part::new();
        let served = poll_fn(|cx| part.poll(cx, |cx| connection.poll_without_shutdown(cx)));
        let slow = pace.too_slow(limits.header_timeout, limits.idle_timeout).map(|()| Err(Stop::Slow));
        let closing = self.0.phases.closing.turned().map(|()| Err(Stop::Closing));
        let ended = match either(served.map(Ok), or(slow, closing)).await {
            Ok(ended) => ended,
            Err(Stop::Slow) => return self.cut("slow"),
            Err(Stop::Closing) => {
                Pin::new(&mut connection).graceful_shutdown();
                // All of it is polled from now on: what waits in it is to notice that it is cut.
                let served = poll_fn(|cx| connection.poll_without_shutdown(cx));
                let Some(ended) = or(served.map(Some), self.cut_off().map(|()| None)).await else { return };
                ended
            }
        };
        let parts = connection.into_parts();
        let mut stream = parts.io;
        match (pace.take_tunnel(), pace.refused()) {
            (Some(tunnel), _) if ended.is_ok() => tunnel.run(stream, parts.read_buf).await,
            // How a connection ended is in its requests' access lines; this one's request never was one.
            (_, Some(head)) => self.refuse(stream, head).await,
            _ => drop(R::within(CLOSING, close(&mut stream)).await),
        }
    }

    async fn refuse<S: Stream>(&self, stream: Paced<R, S>, head: &BadHead) {
        let node = &self.0.node;
        let answer = head.answer(node.clock.moment(), &mut node.states.draws());
        self.cut("bad_head");
        data::record(node, &answer.outcome, Instant::now(), None);
        let mut stream = stream.io;
        let told = async {
            write_all(&mut stream, &answer.http1()).await?;
            close(&mut stream).await?;
            swallow(&mut stream).await
        };
        drop(R::within(CLOSING, told).await);
    }
}

/// Why a connection is not simply served on.
enum Stop {
    /// Its client is too slow.
    Slow,
    /// The listeners close.
    Closing,
}

/// A request at work. Not a closure's future: hyper gives the connection back only when this can be moved.
struct Answering<R: Runtime> {
    answer: Answered<R>,
    busy: Option<Busy<R>>,
}

impl<R: Runtime> Future for Answering<R> {
    type Output = Result<Response<Marked<R, Body<R>>>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(self.answer.as_mut().poll(cx));
        let busy = self.busy.take();
        Poll::Ready(Ok(answer.map(|body| Marked { body, _busy: busy })))
    }
}

/// How many connections there are, against a bound that may change.
struct Places {
    taken: AtomicUsize,
    /// Rung when a place was given back.
    freed: (Sender<()>, Receiver<()>),
    open: Gauge,
}

impl Places {
    async fn take<R: Runtime>(&self, bound: usize) -> Option<Place<'_>> {
        let deadline = Instant::now() + WAIT_FOR_PLACE;
        let one_more = |taken: usize| (taken < bound).then_some(taken + 1);
        while self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            R::until(deadline, self.freed.1.recv()).await?.ok()?;
        }
        Some(Place { places: self, _open: self.open.hold() })
    }
}

/// Counts a connection while it lives.
struct Place<'a> {
    places: &'a Places,
    _open: Held,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.places.taken.fetch_sub(1, Ordering::Relaxed);
        // One that was rung already stays so.
        let _ = self.places.freed.0.try_send(());
    }
}
