//! The development coordinator on a loopback port, with the bus it publishes on.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use appproxy_core::wire::envelope::CHANNEL;
use appproxy_fixtures::coordinator::{Coordinator, Faults, Settings, Ticket};
use appproxy_fixtures::{Request, Response};
use futures_util::StreamExt;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinSet;

use super::served::{Answer, Body, Served, whole};

/// The development coordinator, its port and its bus.
#[derive(Debug)]
pub struct StageCoordinator {
    desk: Desk,
    address: SocketAddr,
    served: Option<Served>,
    /// Publishing, listening and timing; ended with this value.
    _tasks: JoinSet<()>,
}

impl StageCoordinator {
    /// Starts a coordinator on a free loopback port. `bus` is the address of its Redis; without one it announces nothing.
    ///
    /// # Errors
    /// When no port can be had, or `bus` is no address.
    pub async fn start(settings: Settings, seed: u64, bus: Option<&str>) -> io::Result<Self> {
        let (publish, queue) = mpsc::unbounded_channel();
        let state = State { machine: Coordinator::new(settings, seed), waiting: HashMap::new() };
        let desk = Desk { state: Arc::new(Mutex::new(state)), changed: Arc::default(), publish, began: Instant::now() };
        let client = bus.map(redis::Client::open).transpose().map_err(io::Error::other)?;
        let mut tasks = JoinSet::new();
        tasks.spawn(publish_all(client.clone(), queue));
        tasks.spawn(desk.clone().keep_time());
        if let Some(client) = client {
            let (listening, ready) = oneshot::channel();
            tasks.spawn(desk.clone().listen(client, listening));
            // A change announced before we listen could not be acked; a bus that is down must not keep us, though.
            drop(tokio::time::timeout(Duration::from_secs(5), ready).await);
        }
        let served = Served::start(0, desk.clone()).await?;
        Ok(Self { desk, address: served.address, served: Some(served), _tasks: tasks })
    }

    /// Where it listens; the same after a stop and a start.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What goes wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.desk.lock().machine.faults = faults;
    }

    /// Hands a request in without a socket, as its own HTTP API would take it.
    pub async fn ask(&self, request: Request) -> Option<Response> {
        self.desk.take(request).await
    }

    /// Stops listening and cuts every call; what is stored stays.
    pub async fn kill(&mut self) {
        if let Some(served) = self.served.take() {
            served.cut().await;
            let mut state = self.desk.lock();
            for ticket in state.machine.restart() {
                state.waiting.remove(&ticket);
            }
        }
    }

    /// Listens again, at the same port.
    ///
    /// # Errors
    /// When the port is taken meanwhile.
    pub async fn revive(&mut self) -> io::Result<()> {
        if self.served.is_none() {
            self.served = Some(Served::start(self.address.port(), self.desk.clone()).await?);
        }
        Ok(())
    }
}

#[derive(Debug)]
struct State {
    machine: Coordinator,
    waiting: HashMap<Ticket, oneshot::Sender<Response>>,
}

/// Messages to publish in order, and whom to tell when they are out.
type Batch = (Vec<Vec<u8>>, oneshot::Sender<()>);

/// Where requests, bus messages and time come in.
#[derive(Debug, Clone)]
struct Desk {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    publish: mpsc::UnboundedSender<Batch>,
    began: Instant,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Carries a request through to its answer; `None` when the coordinator stopped meanwhile.
    async fn take(&self, request: Request) -> Option<Response> {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (published, out) = oneshot::channel();
        let (handled, answer) = {
            let mut state = self.lock();
            let mut handled =
                state.machine.handle(&request, self.now(), u64::try_from(wall.as_millis()).unwrap_or(u64::MAX));
            // Queued and registered under the lock: the order stays, and no answer comes before its waiter.
            let batch = core::mem::take(&mut handled.publish);
            drop(self.publish.send((batch, published)));
            let answer = handled.ticket.map(|ticket| {
                let (sender, answer) = oneshot::channel();
                state.waiting.insert(ticket, sender);
                Waiter { desk: self.clone(), ticket, answer }
            });
            (handled, answer)
        };
        self.changed.notify_one();
        drop(out.await);
        match (handled.response, answer) {
            (Some(response), _) => Some(response),
            (None, Some(mut waiter)) => (&mut waiter.answer).await.ok(),
            (None, None) => None,
        }
    }

    fn deliver(&self, answers: Vec<(Ticket, Response)>) {
        let mut state = self.lock();
        for (ticket, response) in answers {
            if let Some(waiter) = state.waiting.remove(&ticket) {
                drop(waiter.send(response));
            }
        }
    }

    /// Lets the machine's deadlines come.
    async fn keep_time(self) {
        loop {
            let answers = self.lock().machine.tick(self.now());
            self.deliver(answers);
            let next = self.lock().machine.next_deadline();
            let changed = self.changed.notified();
            match next {
                Some(at) => {
                    let wait = Duration::from_millis(at.saturating_sub(self.now()).max(1));
                    drop(tokio::time::timeout(wait, changed).await);
                }
                None => changed.await,
            }
        }
    }

    /// Listens to the bus, again and again.
    async fn listen(self, client: redis::Client, listening: oneshot::Sender<()>) {
        let mut listening = Some(listening);
        loop {
            if let Ok(mut pubsub) = client.get_async_pubsub().await
                && pubsub.subscribe(CHANNEL).await.is_ok()
            {
                let _ = listening.take().map(|ready| ready.send(()));
                let mut messages = pubsub.into_on_message();
                while let Some(message) = messages.next().await {
                    let answers = self.lock().machine.bus_message(message.get_payload_bytes(), self.now());
                    self.deliver(answers);
                    self.changed.notify_one();
                }
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// A call that waits. Its client going away drops it, and the machine forgets it.
struct Waiter {
    desk: Desk,
    ticket: Ticket,
    answer: oneshot::Receiver<Response>,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut state = self.desk.lock();
        if state.waiting.remove(&self.ticket).is_some() {
            state.machine.abandon(self.ticket);
        }
    }
}

impl Answer for Desk {
    async fn answer(&self, request: Request) -> io::Result<http::Response<Body>> {
        let Some(answer) = self.take(request).await else {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the coordinator stopped"));
        };
        let mut response = http::Response::new(whole(answer.body));
        *response.status_mut() = http::StatusCode::from_u16(answer.status).unwrap_or_default();
        *response.headers_mut() = answer.headers;
        Ok(response)
    }
}

/// Publishes batch after batch; what cannot be published is lost, as on any Pub/Sub.
async fn publish_all(client: Option<redis::Client>, mut queue: mpsc::UnboundedReceiver<Batch>) {
    let mut connection = None;
    while let Some((messages, done)) = queue.recv().await {
        for message in messages {
            let Some(client) = &client else { break };
            for _ in 0..2 {
                let live = match connection.take() {
                    Some(live) => Ok(live),
                    None => client.get_multiplexed_async_connection().await,
                };
                let Ok(mut live) = live else { break };
                let sent: Result<i64, _> =
                    redis::cmd("PUBLISH").arg(CHANNEL).arg(message.as_slice()).query_async(&mut live).await;
                if sent.is_ok() {
                    connection = Some(live);
                    break;
                }
            }
        }
        let _ = done.send(());
    }
}
