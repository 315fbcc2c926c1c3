//! Publishes acks on the bus, over a connection of their own (worker-protocol 3.2).

use core::future::pending;
use core::time::Duration;
use std::time::Instant;

use appproxy_core::wire::envelope::CHANNEL;
use appproxy_core::worker::{AckTicket, Input};
use async_channel::{Receiver, Sender, bounded, unbounded};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};

use crate::bus::{Bus, explain};
use crate::runtime::Runtime;

/// One PUBLISH, or connecting for it.
const PUBLISH_WITHIN: Duration = Duration::from_secs(3);
/// An ack that waited longer than this for its connection has failed: the coordinator gives up after 15 s.
const ACK_WAITS: Duration = Duration::from_secs(8);
/// Acks waiting for their connection. Beyond: that ack has failed.
const QUEUED_ACKS: usize = 1024;

/// The sending side of the bus.
pub(crate) struct Publisher<R: Runtime> {
    tickets: Sender<(Instant, AckTicket)>,
    results: Receiver<Input>,
    _task: R::Task<()>,
}

impl<R: Runtime> Publisher<R> {
    /// Starts the task that publishes acks on `bus`, one after the other.
    pub(crate) fn start(bus: &Bus) -> Self {
        // Bounded in `publish`: room for all of them is not taken while there are none.
        let (tickets, queue) = unbounded();
        let (done, results) = bounded(1);
        let task = R::spawn(publish_all::<R>(bus.client.clone(), queue, done));
        Self { tickets, results, _task: task }
    }

    /// Queues an ack; when there is no room it has failed at once.
    pub(crate) fn publish(&self, ticket: AckTicket) -> Option<Input> {
        let id = ticket.id;
        let full = self.tickets.len() >= QUEUED_ACKS;
        let failed = full || self.tickets.try_send((Instant::now(), ticket)).is_err();
        failed.then_some(Input::AckFailed(id))
    }

    /// The next result.
    pub(crate) async fn next(&self) -> Input {
        match self.results.recv().await {
            Ok(result) => result,
            // Its task met a fault: from now on acks fail where they are queued.
            Err(_) => pending().await,
        }
    }
}

async fn publish_all<R: Runtime>(client: Client, queue: Receiver<(Instant, AckTicket)>, done: Sender<Input>) {
    let mut connection = None;
    while let Ok((since, ticket)) = queue.recv().await {
        // A connection that stood idle may have died unseen: the second try is on a fresh one. An ack that arrives
        // twice is harmless, one that does not arrive costs the coordinator 15 s.
        let sent = since.elapsed() < ACK_WAITS
            && (publish::<R>(&client, &mut connection, &ticket).await
                || publish::<R>(&client, &mut connection, &ticket).await);
        let result = if sent { Input::AckSent(ticket.id) } else { Input::AckFailed(ticket.id) };
        if done.send(result).await.is_err() {
            return;
        }
    }
}

async fn publish<R: Runtime>(
    client: &Client,
    connection: &mut Option<MultiplexedConnection>,
    ticket: &AckTicket,
) -> bool {
    let mut live = match connection.take() {
        Some(live) => live,
        None => {
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(Some(PUBLISH_WITHIN))
                .set_response_timeout(Some(PUBLISH_WITHIN));
            let connect = client.get_multiplexed_async_connection_with_config(&config);
            match R::within(PUBLISH_WITHIN, connect).await {
                Some(Ok(fresh)) => fresh,
                Some(Err(error)) => {
                    tracing::warn!(ack = %ticket.about, "the bus refuses our connection for acks: {}", explain(&error));
                    return false;
                }
                None => return false,
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
