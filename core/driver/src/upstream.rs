//! The client towards replicas: HTTP/1.1, no Nagle, connections that live shorter than the replicas keep them.

use core::pin::pin;
use core::time::Duration;
use std::error::Error;
use std::io::ErrorKind;
use std::sync::Arc;

use appproxy_core::desired::{Backend, Target};
use appproxy_core::exchange::{Attempt, FailStage, Failure, Origin};
use appproxy_core::worker::TransportFailure;
use futures_util::FutureExt;
use futures_util::future::Either;
use http::Response;
use rustls::ClientConfig;

use crate::clock::Clock;
use crate::dial;
use crate::failures::classify_io;
use crate::lane::{Answering, Asking, Broken, Lane, Unanswered};
use crate::pool::{self, Pool, Slot};
use crate::runtime::Runtime;
use crate::tls;
use crate::upload::Upload;

/// The replica of an attempt.
pub(crate) struct To {
    backend: Arc<Backend>,
    target: Arc<Target>,
    /// Over a connection of its own.
    fresh: bool,
}

impl To {
    pub(crate) fn of(attempt: &Attempt) -> Self {
        let (backend, target) = (attempt.backend().clone(), attempt.target().clone());
        Self { backend, target, fresh: attempt.needs_fresh_connection() }
    }
}

/// A client of all replicas. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Upstream<R: Runtime> {
    pool: Pool<R>,
    clock: Clock,
    tls: Arc<ClientConfig>,
    connect_timeout: Duration,
}

impl<R: Runtime> Upstream<R> {
    /// A client that gives connecting `connect_timeout`. Static `https` backends are verified with the system's roots.
    pub(crate) fn new(connect_timeout: Duration, clock: Clock) -> Result<Self, String> {
        Ok(Self { pool: pool::start(clock), clock, tls: Arc::new(tls::client_config(None)?), connect_timeout })
    }

    /// Closes the idle connections of backends that are gone or elsewhere.
    pub(crate) fn forget<'a>(&self, backends: impl Iterator<Item = &'a Arc<str>>) {
        self.pool.forget(backends);
    }

    /// Sends a request; the answer is its head, with a body that is read as the client takes it. Dropping either closes
    /// the connection. `patience`: for the head of the answer.
    pub(crate) fn send<'a>(
        &'a self,
        to: &'a To,
        asking: Asking<R>,
        patience: Duration,
        upload: Option<&'a Upload<R>>,
    ) -> impl Future<Output = Result<Response<Answering<R>>, (FailStage, Failure)>> + Send + 'a {
        const LATE: (FailStage, Failure) = (FailStage::AwaitHead, Failure::TimedOut);
        let exchange = self.exchange(to, asking);
        match upload {
            None => Either::Left(R::within(patience, exchange).map(|answered| answered.unwrap_or(Err(LATE)))),
            Some(upload) => Either::Right(Box::pin(async move {
                let (mut exchange, mut left) = (pin!(exchange), patience);
                loop {
                    match R::within(left, exchange.as_mut()).await {
                        Some(answered) => return answered,
                        None => left = upload.left(patience).ok_or(LATE)?,
                    }
                }
            })),
        }
    }

    async fn exchange(
        &self,
        To { backend, target, fresh }: &To,
        mut asking: Asking<R>,
    ) -> Result<Response<Answering<R>>, (FailStage, Failure)> {
        let slot = Slot { idle: self.pool.at(&backend.name, target.origin()), clock: self.clock };
        while !fresh && let Some(lane) = slot.idle.take(self.clock.moment()) {
            match lane.ask(asking).await {
                Ok((lane, response)) => return Ok(response.map(|framed| Answering::new(framed, lane, Some(slot)))),
                Err(mut unanswered) => match unanswered.unsent.take() {
                    // Not a byte of it was sent.
                    Some(unsent) => asking = unsent,
                    None => return Err(classify(&unanswered, true)),
                },
            }
        }
        // In a box: it is rare, and much larger than the rest.
        let (lane, response) = Box::pin(self.connect(slot.idle.origin()))
            .await?
            .ask(asking)
            .await
            .map_err(|unanswered| classify(&unanswered, false))?;
        Ok(response.map(|framed| Answering::new(framed, lane, (!fresh).then_some(slot))))
    }

    async fn connect(&self, origin: &Origin) -> Result<Lane<R>, (FailStage, Failure)> {
        let connecting = dial::connect(origin, &self.tls, self.connect_timeout);
        let Some(connected) = R::within(self.connect_timeout, connecting).await else {
            return Err((FailStage::Connect, Failure::TimedOut));
        };
        connected.map(Lane::open).map_err(|error| {
            // The system's own words may name an address: for the log only, and only when asked for.
            tracing::debug!(error = &error as &dyn Error, "no connection");
            let timed_out = error.kind() == ErrorKind::TimedOut;
            (FailStage::Connect, if timed_out { Failure::TimedOut } else { Failure::Broke })
        })
    }
}

/// What a request met that was handed to a connection; `reused`: which had served before.
fn classify<R: Runtime>(unanswered: &Unanswered<R>, reused: bool) -> (FailStage, Failure) {
    let Unanswered { error, unsent, heard } = unanswered;
    tracing::debug!(error = error as &dyn Error, "an attempt failed");
    let met = match error {
        Broken::Closed => Some(TransportFailure::Reset),
        Broken::Io(error) => classify_io(error),
        Broken::Malformed(_) | Broken::Body(_) => None,
    };
    let stage = match unsent {
        Some(_) => FailStage::Connect,
        None if met == Some(TransportFailure::Reset) && reused && !heard => FailStage::Stale,
        None => FailStage::AwaitHead,
    };
    (stage, if met == Some(TransportFailure::TimedOut) { Failure::TimedOut } else { Failure::Broke })
}
