//! A connection that became a WebSocket: bytes both ways until either side closes (data-plane 3).

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::io;
use std::sync::Arc;

use appproxy_core::exchange::{Committed, EndOfBody};
use appproxy_core::telemetry::Held;
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};

use crate::attempts::Freeing;
use crate::data;
use crate::executor::Instant;
use crate::lane::Lane;
use crate::node::Node;

/// Once a side has closed, the other has this long to say its last words.
const LAST_WORDS: Duration = Duration::from_secs(2);
const BUFFER: usize = 16 * 1024;

/// The replica's side, and the record. Dropped before it ran, it is recorded as a client that went away.
pub(crate) struct Tunnel {
    replica: Option<Lane>,
    committed: Option<Committed>,
    node: Arc<Node>,
    began: Instant,
    first_byte: Duration,
    /// Dropped last: what is counted, and who waits, hear of the end when it has come.
    _counts: (Held, Option<Freeing>),
}

impl Tunnel {
    pub(crate) fn new(
        replica: Option<Lane>,
        committed: Committed,
        node: Arc<Node>,
        began: Instant,
        counts: (Held, Option<Freeing>),
    ) -> Self {
        let (committed, first_byte) = (Some(committed), began.elapsed());
        Self { replica, committed, node, began, first_byte, _counts: counts }
    }

    /// Carries bytes until either side closes, both are silent for `request.idle_timeout`, or the node stops. `first`:
    /// what the client sent already.
    pub(crate) async fn run<S: AsyncRead + AsyncWrite + Unpin>(mut self, client: S, first: Bytes) {
        let Some(replica) = self.replica.take() else { return };
        let end = match replica.into_tunnel().await {
            Some((replica, read)) => {
                let (idle, cut) = (self.node.rules().idle_timeout, self.node.phases.cutting.turned());
                let (end, down) = carry((client, first), (replica.into_inner(), read), idle, cut).await;
                if let Some(committed) = &mut self.committed {
                    committed.carried(down);
                }
                end
            }
            None => EndOfBody::UpstreamBroke,
        };
        self.record(end);
    }

    fn record(&mut self, end: EndOfBody) {
        if let Some(committed) = self.committed.take() {
            data::record(&self.node, &committed.ended(end), self.began, Some(self.first_byte));
        }
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.record(EndOfBody::DownstreamGone);
    }
}

/// How it ended, and the bytes that went to the client. Each side comes with what it said already.
async fn carry<C, R>(
    (client, from_client): (C, Bytes),
    (replica, from_replica): (R, Bytes),
    idle: Duration,
    cut: impl Future<Output = ()>,
) -> (EndOfBody, u64)
where
    C: AsyncRead + AsyncWrite + Unpin,
    R: AsyncRead + AsyncWrite + Unpin,
{
    let ((client_read, client_write), (replica_read, replica_write)) = (split(client), split(replica));
    let (up, down) = (AtomicU64::new(0), AtomicU64::new(0));
    let end = {
        let to_replica = pass(client_read, from_client, replica_write, &up);
        let to_client = pass(replica_read, from_replica, client_write, &down);
        tokio::pin!(to_replica, to_client);
        let silence = async {
            let mut before = (0, 0);
            loop {
                tokio::time::sleep(idle).await;
                let now = (up.load(Ordering::Relaxed), down.load(Ordering::Relaxed));
                if now == core::mem::replace(&mut before, now) {
                    return;
                }
            }
        };
        tokio::select! {
            closed = &mut to_replica => {
                drop(tokio::time::timeout(LAST_WORDS, to_client).await);
                if closed.is_ok() { EndOfBody::Complete } else { EndOfBody::DownstreamGone }
            }
            closed = &mut to_client => {
                drop(tokio::time::timeout(LAST_WORDS, to_replica).await);
                if closed.is_ok() { EndOfBody::Complete } else { EndOfBody::UpstreamBroke }
            }
            () = silence => EndOfBody::UpstreamIdle,
            () = cut => EndOfBody::NodeStopped,
        }
    };
    (end, down.into_inner())
}

/// Passes bytes on until `from` closes, and closes `to` then.
async fn pass(
    mut from: impl AsyncRead + Unpin,
    first: Bytes,
    mut to: impl AsyncWrite + Unpin,
    passed: &AtomicU64,
) -> io::Result<()> {
    let count = |bytes: usize| passed.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
    to.write_all(&first).await?;
    count(first.len());
    let mut buffer = vec![0; BUFFER];
    loop {
        let bytes = from.read(&mut buffer).await?;
        if bytes == 0 {
            return to.shutdown().await;
        }
        to.write_all(buffer.get(..bytes).unwrap_or_default()).await?;
        count(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{DuplexStream, duplex};
    use tokio::task::JoinHandle;

    const IDLE: Duration = Duration::from_secs(60);

    fn open(
        cut: impl Future<Output = ()> + Send + 'static,
    ) -> (DuplexStream, DuplexStream, JoinHandle<(EndOfBody, u64)>) {
        let ((client, ours), (theirs, replica)) = (duplex(64), duplex(64));
        (client, replica, tokio::spawn(carry((ours, Bytes::from_static(b"early")), (theirs, Bytes::new()), IDLE, cut)))
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_go_both_ways_until_either_closes() {
        for client_closes in [true, false] {
            let (mut client, mut replica, tunnel) = open(core::future::pending());
            let mut five = [0; 5];
            replica.read_exact(&mut five).await.unwrap();
            assert_eq!(&five, b"early");
            for _ in 0..100 {
                client.write_all(b"hello").await.unwrap();
                replica.read_exact(&mut five).await.unwrap();
                replica.write_all(b"world").await.unwrap();
                client.read_exact(&mut five).await.unwrap();
                assert_eq!(&five, b"world");
            }
            // The other side never closes by itself.
            let (closing, mut other) = if client_closes { (client, replica) } else { (replica, client) };
            drop(closing);
            assert_eq!(other.read(&mut five).await.unwrap(), 0);
            assert_eq!(tunnel.await.unwrap(), (EndOfBody::Complete, 500));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_on_both_sides_and_the_end_of_the_node_end_it() {
        let (mut client, mut replica, tunnel) = open(core::future::pending());
        let mut five = [0; 5];
        replica.read_exact(&mut five).await.unwrap();
        for _ in 0..5 {
            tokio::time::sleep(IDLE - Duration::from_secs(1)).await;
            replica.write_all(b"x").await.unwrap();
            client.read_exact(&mut five[..1]).await.unwrap();
        }
        assert_eq!(tunnel.await.unwrap(), (EndOfBody::UpstreamIdle, 5));
        let (mut client, _replica, tunnel) = open(tokio::time::sleep(Duration::from_secs(1)));
        assert_eq!(client.read(&mut five).await.unwrap(), 0);
        assert_eq!(tunnel.await.unwrap().0, EndOfBody::NodeStopped);
    }
}
