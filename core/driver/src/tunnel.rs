//! A connection that became a WebSocket: bytes both ways until either side closes (data-plane 3).

use core::pin::pin;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::io;
use std::sync::Mutex;

use appproxy_core::exchange::EndOfBody;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{Either, select};

use crate::data::Opened;
use crate::lane::Lane;
use crate::part::or;
use crate::runtime::{Runtime, Timer};
use crate::stream::{Stream, close, read, write_all};

/// Once a side has closed, the other has this long to say its last words.
const LAST_WORDS: Duration = Duration::from_secs(2);
const BUFFER: usize = 16 * 1024;

/// The replica's side, and the record. Dropped before it ran, it is recorded as a client that went away.
pub(crate) struct Tunnel<R: Runtime> {
    replica: Option<Lane<R>>,
    opened: Opened<R>,
}

impl<R: Runtime> Tunnel<R> {
    pub(crate) const fn new(replica: Option<Lane<R>>, opened: Opened<R>) -> Self {
        Self { replica, opened }
    }

    /// Carries bytes until either side closes, both are silent for `request.idle_timeout`, or the node stops. `first`:
    /// what the client sent already.
    pub(crate) async fn run<S: Stream>(mut self, client: S, first: Bytes) {
        let Some(replica) = self.replica.take() else { return };
        let replica = replica.into_tunnel();
        let (idle, cut) = (self.opened.node.rules().idle_timeout, self.opened.node.phases.cutting.turned());
        let (end, down) = carry::<R, _, _>((client, first), replica, idle, cut).await;
        if let Some(committed) = &mut self.opened.committed {
            committed.carried(down);
        }
        self.opened.ended(end);
    }
}

impl<R: Runtime> Drop for Tunnel<R> {
    fn drop(&mut self) {
        self.opened.ended(EndOfBody::DownstreamGone);
    }
}

/// How it ended, and the bytes that went to the client. Each side comes with what it said already.
async fn carry<R: Runtime, C: Stream, S: Stream>(
    (client, from_client): (C, Bytes),
    (replica, from_replica): (S, Bytes),
    idle: Duration,
    cut: impl Future<Output = ()>,
) -> (EndOfBody, u64) {
    let (client, replica) = (Mutex::new(client), Mutex::new(replica));
    let (up, down) = (AtomicU64::new(0), AtomicU64::new(0));
    let to_replica = pin!(pass(&client, from_client, &replica, &up));
    let to_client = pin!(pass(&replica, from_replica, &client, &down));
    let silence = async {
        let mut before = (0, 0);
        loop {
            R::Timer::after(idle).await;
            let now = (up.load(Ordering::Relaxed), down.load(Ordering::Relaxed));
            if now == core::mem::replace(&mut before, now) {
                return EndOfBody::UpstreamIdle;
            }
        }
    };
    let stopped = cut.map(|()| EndOfBody::NodeStopped);
    let end = match select(select(to_replica, to_client), pin!(or(silence, stopped))).await {
        Either::Left((Either::Left((closed, to_client)), _)) => {
            drop(R::within(LAST_WORDS, to_client).await);
            if closed.is_ok() { EndOfBody::Complete } else { EndOfBody::DownstreamGone }
        }
        Either::Left((Either::Right((closed, to_replica)), _)) => {
            drop(R::within(LAST_WORDS, to_replica).await);
            if closed.is_ok() { EndOfBody::Complete } else { EndOfBody::UpstreamBroke }
        }
        Either::Right((end, _)) => end,
    };
    let down = down.load(Ordering::Relaxed);
    (end, down)
}

/// Passes bytes on until `from` closes, and closes `to` then.
async fn pass(mut from: impl Stream, first: Bytes, mut to: impl Stream, passed: &AtomicU64) -> io::Result<()> {
    let count = |bytes: usize| passed.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
    write_all(&mut to, &first).await?;
    count(first.len());
    let mut buffer = vec![0; BUFFER];
    loop {
        let bytes = read(&mut from, &mut buffer).await?;
        if bytes == 0 {
            return close(&mut to).await;
        }
        write_all(&mut to, buffer.get(..bytes).unwrap_or_default()).await?;
        count(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::Plain;
    use core::future::pending;

    type Tcp = <Plain as Runtime>::Tcp;
    type Carried = <Plain as Runtime>::Task<(EndOfBody, u64)>;

    /// Two ends of a connection.
    async fn pair() -> (Tcp, Tcp) {
        let (listener, at) = Plain::listen("127.0.0.1", 0).await.expect("listen");
        let far = Plain::connect(at).await.expect("connect");
        (Plain::accept(&listener).await.expect("accept").0, far)
    }

    async fn read_exact(stream: &mut impl Stream, mut to: &mut [u8]) {
        while !to.is_empty() {
            let bytes = read(stream, to).await.expect("read");
            assert!(bytes > 0, "an end");
            to = &mut to[bytes..];
        }
    }

    async fn open(idle: Duration, cut: impl Future<Output = ()> + Send + 'static) -> (Tcp, Tcp, Carried) {
        let ((ours, client), (theirs, replica)) = (pair().await, pair().await);
        let (early, late) = (Bytes::from_static(b"early"), Bytes::from_static(b"said"));
        (client, replica, Plain::spawn(carry::<Plain, _, _>((ours, early), (theirs, late), idle, cut)))
    }

    #[test]
    fn bytes_go_both_ways_until_either_closes() {
        Plain::block_on(async {
            for client_closes in [true, false] {
                let (mut client, mut replica, tunnel) = open(Duration::from_secs(60), pending()).await;
                let mut five = [0; 5];
                read_exact(&mut replica, &mut five).await;
                assert_eq!(&five, b"early");
                read_exact(&mut client, &mut five[..4]).await;
                assert_eq!(&five[..4], b"said");
                for _ in 0..100 {
                    write_all(&mut client, b"hello").await.expect("write");
                    read_exact(&mut replica, &mut five).await;
                    write_all(&mut replica, b"world").await.expect("write");
                    read_exact(&mut client, &mut five).await;
                    assert_eq!(&five, b"world");
                }
                // The other side never closes by itself.
                let (closing, mut other) = if client_closes { (client, replica) } else { (replica, client) };
                drop(closing);
                assert_eq!(read(&mut other, &mut five).await.expect("an end"), 0);
                drop(other);
                assert_eq!(tunnel.await.expect("no fault"), (EndOfBody::Complete, 504));
            }
        })
        .expect("a runtime");
    }

    #[test]
    fn silence_on_both_sides_and_the_end_of_the_node_end_it() {
        Plain::block_on(async {
            let (_client, _replica, tunnel) = open(Duration::from_millis(20), pending()).await;
            assert_eq!(tunnel.await.expect("no fault"), (EndOfBody::UpstreamIdle, 4));
            let (_client, _replica, tunnel) = open(Duration::from_secs(60), async {}).await;
            assert_eq!(tunnel.await.expect("no fault").0, EndOfBody::NodeStopped);
        })
        .expect("a runtime");
    }
}
