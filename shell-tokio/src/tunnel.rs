//! A connection that became a WebSocket: bytes both ways until either side closes (data-plane 3).

use core::pin::pin;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::io;

use appproxy_core::exchange::EndOfBody;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{Either, select};

use crate::data::Opened;
use crate::executor::{Timer, within};
use crate::lane::Lane;
use crate::part::or;
use crate::streams::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, close, split};

/// Once a side has closed, the other has this long to say its last words.
const LAST_WORDS: Duration = Duration::from_secs(2);
const BUFFER: usize = 16 * 1024;

/// The replica's side, and the record. Dropped before it ran, it is recorded as a client that went away.
pub(crate) struct Tunnel {
    replica: Option<Lane>,
    opened: Opened,
}

impl Tunnel {
    pub(crate) const fn new(replica: Option<Lane>, opened: Opened) -> Self {
        Self { replica, opened }
    }

    /// Carries bytes until either side closes, both are silent for `request.idle_timeout`, or the node stops. `first`:
    /// what the client sent already.
    pub(crate) async fn run<S: AsyncRead + AsyncWrite + Unpin>(mut self, client: S, first: Bytes) {
        let Some(replica) = self.replica.take() else { return };
        let (replica, read) = replica.into_tunnel();
        let (idle, cut) = (self.opened.node.rules().idle_timeout, self.opened.node.phases.cutting.turned());
        let (end, down) = carry((client, first), (replica.into_inner(), read), idle, cut).await;
        if let Some(committed) = &mut self.opened.committed {
            committed.carried(down);
        }
        self.opened.ended(end);
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.opened.ended(EndOfBody::DownstreamGone);
    }
}

/// How it ended, and the bytes that went to the client. Each side comes with what it said already.
async fn carry<C, R>(
    client: (C, Bytes),
    replica: (R, Bytes),
    idle: Duration,
    cut: impl Future<Output = ()>,
) -> (EndOfBody, u64)
where
    C: AsyncRead + AsyncWrite + Unpin,
    R: AsyncRead + AsyncWrite + Unpin,
{
    let ((client, from_client), (replica, from_replica)) = (client, replica);
    let ((client_read, client_write), (replica_read, replica_write)) = (split(client), split(replica));
    let (up, down) = (AtomicU64::new(0), AtomicU64::new(0));
    let to_replica = pin!(pass(client_read, from_client, replica_write, &up));
    let to_client = pin!(pass(replica_read, from_replica, client_write, &down));
    let silence = async {
        let mut before = (0, 0);
        loop {
            Timer::after(idle).await;
            let now = (up.load(Ordering::Relaxed), down.load(Ordering::Relaxed));
            if now == core::mem::replace(&mut before, now) {
                return EndOfBody::UpstreamIdle;
            }
        }
    };
    let stopped = cut.map(|()| EndOfBody::NodeStopped);
    let end = match select(select(to_replica, to_client), pin!(or(silence, stopped))).await {
        Either::Left((Either::Left((closed, to_client)), _)) => {
            drop(within(LAST_WORDS, to_client).await);
            if closed.is_ok() { EndOfBody::Complete } else { EndOfBody::DownstreamGone }
        }
        Either::Left((Either::Right((closed, to_replica)), _)) => {
            drop(within(LAST_WORDS, to_replica).await);
            if closed.is_ok() { EndOfBody::Complete } else { EndOfBody::UpstreamBroke }
        }
        Either::Right((end, _)) => end,
    };
    let down = down.load(Ordering::Relaxed);
    (end, down)
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
            return close(&mut to).await;
        }
        to.write_all(buffer.get(..bytes).unwrap_or_default()).await?;
        count(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::{Task, block_on, spawn};
    use crate::streams::{TcpListener, TcpStream};
    use core::future::pending;

    /// Two ends of a connection.
    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let far = TcpStream::connect(listener.local_addr().expect("address")).await.expect("connect");
        (listener.accept().await.expect("accept").0, far)
    }

    async fn open(
        idle: Duration,
        cut: impl Future<Output = ()> + Send + 'static,
    ) -> (TcpStream, TcpStream, Task<(EndOfBody, u64)>) {
        let ((ours, client), (theirs, replica)) = (pair().await, pair().await);
        let (early, late) = (Bytes::from_static(b"early"), Bytes::from_static(b"said"));
        (client, replica, spawn(carry((ours, early), (theirs, late), idle, cut)))
    }

    #[test]
    fn bytes_go_both_ways_until_either_closes() {
        block_on(async {
            for client_closes in [true, false] {
                let (mut client, mut replica, tunnel) = open(Duration::from_secs(60), pending()).await;
                let mut five = [0; 5];
                replica.read_exact(&mut five).await.expect("read");
                assert_eq!(&five, b"early");
                client.read_exact(&mut five[..4]).await.expect("read");
                assert_eq!(&five[..4], b"said");
                for _ in 0..100 {
                    client.write_all(b"hello").await.expect("write");
                    replica.read_exact(&mut five).await.expect("read");
                    replica.write_all(b"world").await.expect("write");
                    client.read_exact(&mut five).await.expect("read");
                    assert_eq!(&five, b"world");
                }
                // The other side never closes by itself.
                let (closing, mut other) = if client_closes { (client, replica) } else { (replica, client) };
                drop(closing);
                assert_eq!(other.read(&mut five).await.expect("an end"), 0);
                drop(other);
                assert_eq!(tunnel.await.expect("no fault"), (EndOfBody::Complete, 504));
            }
        })
        .expect("a runtime");
    }

    #[test]
    fn silence_on_both_sides_and_the_end_of_the_node_end_it() {
        block_on(async {
            let (_client, _replica, tunnel) = open(Duration::from_millis(20), pending()).await;
            assert_eq!(tunnel.await.expect("no fault"), (EndOfBody::UpstreamIdle, 4));
            let (_client, _replica, tunnel) = open(Duration::from_secs(60), async {}).await;
            assert_eq!(tunnel.await.expect("no fault").0, EndOfBody::NodeStopped);
        })
        .expect("a runtime");
    }
}
