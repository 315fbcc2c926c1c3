//! The event bus: a subscription that is drained always (worker-protocol 3).
//!
//! Nothing here reconnects a subscription by itself: its end is told, and the core decides when to subscribe again.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use appproxy_core::config::worker::WorkerConfig;
use appproxy_core::defects::{Defect, has};
use appproxy_core::wire::envelope::{self, CHANNEL};
use appproxy_core::worker::Input;
use async_channel::{Receiver, Sender, unbounded};
use futures_util::{Stream, StreamExt};
use redis::aio::PubSubSink;
use redis::{Client, Msg, TlsCertificates};

use crate::part::or;
use crate::runtime::{Runtime, Timer};
use crate::tls;

/// Connecting and subscribing; a frozen server would take for ever.
const SUBSCRIBE_WITHIN: Duration = Duration::from_secs(5);
/// A silent subscription is asked for a sign of life this often ...
const PING_EVERY: Duration = Duration::from_secs(5);
/// ... and is dead when it gives none within this time.
const PING_WITHIN: Duration = Duration::from_secs(5);
/// Messages taken off the bus and not yet taken in by the core. Beyond: the bus counts as lost, and the pull after the
/// next subscription brings what was missed.
const QUEUED_MESSAGES: usize = 4096;
/// Their bytes. Beyond: likewise.
const QUEUED_BYTES: usize = 64 * 1024 * 1024;

/// The address of the bus and the authority whose events we want.
#[derive(Clone)]
pub(crate) struct Bus {
    pub(crate) client: Client,
    authority: Arc<str>,
}

impl Bus {
    /// The bus of `config`; `None` when events are off. A bad address is an error that does not quote it.
    pub(crate) fn new(config: &WorkerConfig) -> Result<Option<Self>, String> {
        let Some(url) = config.redis_url.as_ref().filter(|_| config.events_enabled) else { return Ok(None) };
        let client = match &config.ca_file {
            Some(path) if url.expose().starts_with("rediss") => {
                let certificates = TlsCertificates { client_tls: None, root_cert: Some(tls::roots_pem(path)?) };
                Client::build_with_tls(url.expose(), certificates)
            }
            _ => Client::open(url.expose()),
        };
        let client = client.map_err(|error| format!("redis_url: {}", error.category()))?;
        Ok(Some(Self { client, authority: config.authority.clone() }))
    }

    /// Subscribes in a task of its own. Dropping the subscription ends it.
    pub(crate) fn subscribe<R: Runtime>(&self) -> Subscription<R> {
        let (tell, told) = unbounded();
        let queued = Arc::new(AtomicUsize::new(0));
        let feed = Feed { tell, queued: queued.clone(), authority: self.authority.clone() };
        let client = self.client.clone();
        let task = R::spawn(async move {
            let why = follow::<R>(&client, &feed).await;
            drop(feed.tell.try_send((Input::BusLost(why), 0)));
        });
        Subscription { told, queued, _task: task }
    }
}

/// A running subscription.
pub(crate) struct Subscription<R: Runtime> {
    told: Receiver<(Input, usize)>,
    queued: Arc<AtomicUsize>,
    _task: R::Task<()>,
}

impl<R: Runtime> Subscription<R> {
    /// The next input for the core. After `BusLost` there is nothing more to ask.
    pub(crate) async fn next(&self) -> Input {
        match self.told.recv().await {
            Ok((input, bytes)) => {
                self.queued.fetch_sub(bytes, Ordering::Relaxed);
                input
            }
            Err(_) => Input::BusLost("the subscription's task ended".to_owned()),
        }
    }
}

/// The task's side: inputs, and the bytes of the messages they were.
struct Feed {
    /// Bounded by whoever tells: room for thousands of messages is not taken while none come.
    tell: Sender<(Input, usize)>,
    queued: Arc<AtomicUsize>,
    authority: Arc<str>,
}

/// Follows one subscription to its end and says why it ended.
async fn follow<R: Runtime>(client: &Client, feed: &Feed) -> String {
    let connect = async {
        let mut pubsub = client.get_async_pubsub().await?;
        pubsub.subscribe(CHANNEL).await?;
        Ok::<_, redis::RedisError>(pubsub)
    };
    let (sink, stream) = match R::within(SUBSCRIBE_WITHIN, connect).await {
        Some(Ok(pubsub)) => pubsub.split(),
        Some(Err(error)) => return explain(&error),
        None => return format!("no subscription within {} s", SUBSCRIBE_WITHIN.as_secs()),
    };
    if feed.tell.try_send((Input::BusUp, 0)).is_err() {
        return "nobody listens".to_owned();
    }
    or(drain(stream, feed), stay_alive::<R>(sink)).await
}

/// Takes every message off at once: the redis crate's own queue has no bound, and the server cuts slow readers.
async fn drain(mut stream: impl Stream<Item = Msg> + Unpin, feed: &Feed) -> String {
    while let Some(message) = stream.next().await {
        let bytes = message.get_payload_bytes();
        let Some(input) = Input::heard(envelope::decode(bytes, &feed.authority)) else { continue };
        let waiting = feed.queued.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
        let full = waiting > QUEUED_BYTES || feed.tell.len() >= QUEUED_MESSAGES;
        if full || feed.tell.try_send((input, bytes.len())).is_err() {
            return "more events than can be taken in; the next pull brings what was missed".to_owned();
        }
    }
    "the server ended the connection".to_owned()
}

/// A frozen server or a cut network says nothing at all: only an unanswered ping tells.
async fn stay_alive<R: Runtime>(mut sink: PubSubSink) -> String {
    loop {
        R::Timer::after(PING_EVERY).await;
        if has(Defect::BusNotPinged) {
            continue;
        }
        match R::within(PING_WITHIN, sink.ping::<redis::Value>()).await {
            Some(Ok(_)) => {}
            Some(Err(error)) => return explain(&error),
            None => return format!("no answer to a ping within {} s", PING_WITHIN.as_secs()),
        }
    }
}

/// A redis error without what it may quote (commands, answers); an I/O error quotes nothing.
pub(crate) fn explain(error: &redis::RedisError) -> String {
    if error.is_io_error() {
        return error.to_string();
    }
    match error.code() {
        Some(code) => format!("{} ({code})", error.category()),
        None => error.category().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::Plain;
    use redis::Value;

    fn message() -> Msg {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        Msg::from_owned_value(Value::Array(vec![text("message"), text(CHANNEL), text("no envelope")]))
            .expect("a message")
    }

    #[test]
    fn a_flood_that_nobody_takes_in_ends_as_a_lost_bus() {
        Plain::block_on(async {
            let (tell, told) = unbounded();
            let queued = Arc::new(AtomicUsize::new(0));
            let feed = Feed { tell, queued: queued.clone(), authority: "a".into() };
            let flood = futures_util::stream::iter((0..=QUEUED_MESSAGES).map(|_| message()));
            let task = Plain::spawn(async move {
                let why = drain(flood, &feed).await;
                drop(feed.tell.try_send((Input::BusLost(why), 0)));
            });
            let subscription = Subscription::<Plain> { told, queued, _task: Plain::spawn(async {}) };
            task.await.expect("no fault");
            for _ in 0..QUEUED_MESSAGES {
                assert!(matches!(subscription.next().await, Input::BusMalformed(_)));
            }
            let Input::BusLost(why) = subscription.next().await else { panic!("the bus counts as lost") };
            assert!(why.contains("more events than can be taken in"), "{why}");
        })
        .expect("a runtime");
    }

    #[test]
    fn a_subscription_that_cannot_be_made_says_why() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").expect("bind").local_addr().expect("address").port();
        let client = Client::open(format!("redis://:hunter2@127.0.0.1:{port}/0")).expect("address");
        let bus = Bus { client, authority: "a".into() };
        let heard = Plain::block_on(async { bus.subscribe::<Plain>().next().await }).expect("a runtime");
        let Input::BusLost(why) = heard else { panic!("nobody listens there") };
        assert!(why.to_lowercase().contains("refused") && !why.contains("hunter2"), "{why}");
    }
}
