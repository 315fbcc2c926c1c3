//! The event bus: one subscription that is drained always, one connection for acks (worker-protocol 3).
//!
//! Nothing here reconnects a subscription by itself: its end is told, and the core decides when to subscribe again.

use core::time::Duration;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use appproxy_core::config::worker::WorkerConfig;
use appproxy_core::wire::envelope::{self, CHANNEL};
use appproxy_core::wire::event::Decoded;
use appproxy_core::worker::{AckTicket, Input};
use futures_util::{Stream, StreamExt};
use redis::aio::{MultiplexedConnection, PubSubSink};
use redis::{AsyncConnectionConfig, Client, Msg, TlsCertificates};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::tls;

/// Connecting and subscribing; a frozen server would take for ever.
const SUBSCRIBE_WITHIN: Duration = Duration::from_secs(5);
/// A silent subscription is asked for a sign of life this often ...
const PING_EVERY: Duration = Duration::from_secs(5);
/// ... and is dead when it gives none within this time.
const PING_WITHIN: Duration = Duration::from_secs(5);
/// One PUBLISH, or connecting for it.
const PUBLISH_WITHIN: Duration = Duration::from_secs(3);
/// Messages taken off the bus and not yet taken in by the core. Beyond: the bus counts as lost, and the pull after the
/// next subscription brings what was missed.
const QUEUED_MESSAGES: usize = 4096;
/// Their bytes. Beyond: likewise.
const QUEUED_BYTES: usize = 64 * 1024 * 1024;
/// An ack that waited longer than this for its connection has failed: the coordinator gives up after 15 s.
const ACK_WAITS: Duration = Duration::from_secs(8);
/// Acks waiting for their connection. Beyond: that ack has failed.
const QUEUED_ACKS: usize = 1024;

/// The address of the bus and the authority whose events we want.
#[derive(Clone)]
pub(crate) struct Bus {
    client: Client,
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
    pub(crate) fn subscribe(&self) -> Subscription {
        let (sender, receiver) = mpsc::channel(QUEUED_MESSAGES);
        let why = Arc::new(OnceLock::new());
        let queued = Arc::new(AtomicUsize::new(0));
        let feed = Feed { sender, queued: queued.clone(), authority: self.authority.clone() };
        let (client, ended) = (self.client.clone(), why.clone());
        let task = tokio::spawn(async move {
            // Only this task sets it, once; the channel closes after it.
            let _ = ended.set(follow(&client, &feed).await);
            drop(feed);
        });
        Subscription { receiver, queued, why, task }
    }

    /// Starts the task that publishes acks, one after the other.
    pub(crate) fn publisher(&self) -> Publisher {
        let (tickets, queue) = mpsc::channel(QUEUED_ACKS);
        let (done, results) = mpsc::channel(QUEUED_ACKS);
        let task = tokio::spawn(publish_all(self.client.clone(), queue, done));
        Publisher { tickets, results, task }
    }
}

/// What the subscription's task has to say.
enum Said {
    Up,
    Message(Decoded, usize),
}

/// A running subscription.
pub(crate) struct Subscription {
    receiver: mpsc::Receiver<Said>,
    queued: Arc<AtomicUsize>,
    why: Arc<OnceLock<String>>,
    task: JoinHandle<()>,
}

impl Subscription {
    /// The next input for the core. After `BusLost` there is nothing more to ask.
    pub(crate) async fn next(&mut self) -> Input {
        loop {
            match self.receiver.recv().await {
                Some(Said::Up) => return Input::BusUp,
                Some(Said::Message(decoded, bytes)) => {
                    self.queued.fetch_sub(bytes, Ordering::Relaxed);
                    match decoded {
                        Decoded::Event(event) => return Input::Bus(event),
                        Decoded::Malformed(malformed) => return Input::BusMalformed(malformed),
                        Decoded::NotForUs => {}
                    }
                }
                None => {
                    let why = self.why.get().cloned();
                    return Input::BusLost(why.unwrap_or_else(|| "the subscription's task ended".to_owned()));
                }
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Feed {
    sender: mpsc::Sender<Said>,
    queued: Arc<AtomicUsize>,
    authority: Arc<str>,
}

/// Follows one subscription to its end and says why it ended.
async fn follow(client: &Client, feed: &Feed) -> String {
    let connect = async {
        let mut pubsub = client.get_async_pubsub().await?;
        pubsub.subscribe(CHANNEL).await?;
        Ok::<_, redis::RedisError>(pubsub)
    };
    let (sink, stream) = match timeout(SUBSCRIBE_WITHIN, connect).await {
        Ok(Ok(pubsub)) => pubsub.split(),
        Ok(Err(error)) => return explain(&error),
        Err(_) => return format!("no subscription within {} s", SUBSCRIBE_WITHIN.as_secs()),
    };
    if feed.sender.try_send(Said::Up).is_err() {
        return "nobody listens".to_owned();
    }
    tokio::select! {
        why = drain(stream, feed) => why,
        why = stay_alive(sink) => why,
    }
}

/// Takes every message off at once: the redis crate's own queue has no bound, and the server cuts slow readers.
async fn drain(mut stream: impl Stream<Item = Msg> + Unpin, feed: &Feed) -> String {
    while let Some(message) = stream.next().await {
        let bytes = message.get_payload_bytes();
        let decoded = envelope::decode(bytes, &feed.authority);
        if matches!(decoded, Decoded::NotForUs) {
            continue;
        }
        let waiting = feed.queued.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
        if waiting > QUEUED_BYTES || feed.sender.try_send(Said::Message(decoded, bytes.len())).is_err() {
            return "more events than can be taken in; the next pull brings what was missed".to_owned();
        }
    }
    "the server ended the connection".to_owned()
}

/// A frozen server or a cut network says nothing at all: only an unanswered ping tells.
async fn stay_alive(mut sink: PubSubSink) -> String {
    loop {
        sleep(PING_EVERY).await;
        match timeout(PING_WITHIN, sink.ping::<redis::Value>()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return explain(&error),
            Err(_) => return format!("no answer to a ping within {} s", PING_WITHIN.as_secs()),
        }
    }
}

/// A redis error without what it may quote (addresses, commands).
fn explain(error: &redis::RedisError) -> String {
    match error.code() {
        Some(code) => format!("{} ({code})", error.category()),
        None => error.category().to_owned(),
    }
}

/// The sending side of the bus.
pub(crate) struct Publisher {
    tickets: mpsc::Sender<(Instant, AckTicket)>,
    results: mpsc::Receiver<Input>,
    task: JoinHandle<()>,
}

impl Publisher {
    /// Queues an ack; when there is no room it has failed at once.
    pub(crate) fn publish(&self, ticket: AckTicket) -> Option<Input> {
        let id = ticket.id;
        self.tickets.try_send((Instant::now(), ticket)).err().map(|_| Input::AckFailed(id))
    }

    /// The next result.
    pub(crate) async fn next(&mut self) -> Option<Input> {
        self.results.recv().await
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn publish_all(client: Client, mut queue: mpsc::Receiver<(Instant, AckTicket)>, done: mpsc::Sender<Input>) {
    let mut connection = None;
    while let Some((since, ticket)) = queue.recv().await {
        // A connection that stood idle may have died unseen: the second try is on a fresh one. An ack that arrives
        // twice is harmless, one that does not arrive costs the coordinator 15 s.
        let sent = since.elapsed() < ACK_WAITS
            && (publish(&client, &mut connection, &ticket).await || publish(&client, &mut connection, &ticket).await);
        let result = if sent { Input::AckSent(ticket.id) } else { Input::AckFailed(ticket.id) };
        if done.send(result).await.is_err() {
            return;
        }
    }
}

async fn publish(client: &Client, connection: &mut Option<MultiplexedConnection>, ticket: &AckTicket) -> bool {
    let mut live = match connection.take() {
        Some(live) => live,
        None => {
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(Some(PUBLISH_WITHIN))
                .set_response_timeout(Some(PUBLISH_WITHIN));
            let connect = client.get_multiplexed_async_connection_with_config(&config);
            match timeout(PUBLISH_WITHIN, connect).await {
                Ok(Ok(fresh)) => fresh,
                Ok(Err(error)) => {
                    tracing::warn!(ack = %ticket.about, "the bus refuses our connection for acks: {}", explain(&error));
                    return false;
                }
                Err(_) => return false,
            }
        }
    };
    let sent: Result<i64, _> =
        redis::cmd("PUBLISH").arg(CHANNEL).arg(ticket.message.as_slice()).query_async(&mut live).await;
    match sent {
        Ok(_) => {
            *connection = Some(live);
            true
        }
        Err(error) => {
            tracing::debug!(ack = %ticket.about, "an ack was not published: {}", explain(&error));
            false
        }
    }
}
