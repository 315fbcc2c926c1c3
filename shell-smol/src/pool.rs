//! Connections to replicas that wait for their next request. One is kept only when its last answer was read to the end.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use smol::Timer;

use crate::body::Outgoing;
use crate::dial::Peer;
use crate::executor::spawn;

/// Below the 5 s after which uvicorn, which most LLM servers stand on, closes an idle connection.
const IDLE: Duration = Duration::from_secs(4);
/// Idle connections kept per replica; bursts beyond it connect anew.
const IDLE_PER_REPLICA: usize = 256;

type Connection = SendRequest<Outgoing>;

/// Idle connections of one replica, the newest last.
type Idle = HashMap<Peer, Vec<(Instant, Connection)>>;

/// The idle connections of all replicas. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Pool(Arc<Mutex<Idle>>);

impl Pool {
    /// An empty pool, which closes what has been idle for too long.
    pub(crate) fn start() -> Self {
        let pool = Self::default();
        spawn(sweep(Arc::downgrade(&pool.0))).detach();
        pool
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection to `peer` that was used last; none that has been idle too long or is known to be closed.
    pub(crate) fn take(&self, peer: &Peer) -> Option<Connection> {
        let mut idle = self.idle();
        let of_peer = idle.get_mut(peer)?;
        while let Some((since, connection)) = of_peer.pop() {
            if since.elapsed() < IDLE && connection.is_ready() {
                return Some(connection);
            }
        }
        None
    }

    fn put(&self, peer: Peer, connection: Connection) {
        let mut idle = self.idle();
        let of_peer = idle.entry(peer).or_default();
        if of_peer.len() < IDLE_PER_REPLICA {
            of_peer.push((Instant::now(), connection));
        }
    }
}

async fn sweep(pool: Weak<Mutex<Idle>>) {
    loop {
        Timer::after(IDLE).await;
        let Some(pool) = pool.upgrade() else { return };
        Pool(pool).idle().retain(|_, of_peer| {
            of_peer.retain(|(since, connection)| since.elapsed() < IDLE && !connection.is_closed());
            !of_peer.is_empty()
        });
    }
}

/// An answer's body. Dropped before its end it takes its connection with it, which cancels the request; at its end the
/// connection goes back.
pub(crate) struct Answering {
    body: Incoming,
    ended: bool,
    back: Option<(Pool, Peer, Connection)>,
}

impl Answering {
    /// `back`: the pool and the peer of a connection that may serve again.
    pub(crate) fn new(body: Incoming, connection: Connection, back: Option<(Pool, Peer)>) -> Self {
        Self { body, ended: false, back: back.map(|(pool, peer)| (pool, peer, connection)) }
    }

    fn give_back(&mut self) {
        let Some((pool, peer, mut connection)) = self.back.take() else { return };
        if connection.is_ready() {
            pool.put(peer, connection);
        } else if !connection.is_closed() {
            // The connection's own task has yet to see the end.
            spawn(async move {
                if connection.ready().await.is_ok() {
                    pool.put(peer, connection);
                }
            })
            .detach();
        }
    }
}

impl Body for Answering {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        self.ended |= matches!(polled, Poll::Ready(None));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if self.is_end_stream() {
            self.give_back();
        }
    }
}
