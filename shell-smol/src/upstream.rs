//! The client towards replicas: HTTP/1.1, no Nagle, connections that live shorter than the replicas keep them.

use core::time::Duration;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use appproxy_core::exchange::{FailStage, Failure, Payload};
use http::{Request, Response};
use rustls::ClientConfig;

use crate::body::Outgoing;
use crate::dial::{Peer, for_origin, speak};
use crate::executor::within;
use crate::pool::{Answering, Pool};
use crate::tls;

/// A client of all replicas. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Upstream {
    pool: Pool,
    tls: Arc<ClientConfig>,
    connect_timeout: Duration,
}

impl Upstream {
    /// A client that gives connecting `connect_timeout`. Static `https` backends are verified with the system's roots.
    pub(crate) fn new(connect_timeout: Duration) -> Result<Self, String> {
        Ok(Self { pool: Pool::start(), tls: Arc::new(tls::client_config(None)?), connect_timeout })
    }

    /// Sends a request; the answer is its head, with a body that is read as the client takes it. Dropping either
    /// closes the connection. `fresh`: over a connection of its own.
    pub(crate) async fn send(
        &self,
        request: Request<Payload>,
        first_byte_timeout: Duration,
        fresh: bool,
    ) -> Result<Response<Answering>, (FailStage, Failure)> {
        let exchange = self.exchange(request.map(Outgoing::from), fresh);
        within(first_byte_timeout, exchange).await.unwrap_or(Err((FailStage::AwaitHead, Failure::TimedOut)))
    }

    async fn exchange(
        &self,
        mut request: Request<Outgoing>,
        fresh: bool,
    ) -> Result<Response<Answering>, (FailStage, Failure)> {
        let Some(peer) = Peer::of(request.uri()) else { return Err((FailStage::Connect, Failure::Broke)) };
        for_origin(&mut request);
        while !fresh && let Some(mut connection) = self.pool.take(&peer) {
            match connection.try_send_request(request).await {
                Ok(response) => return Ok(self.answering(response, connection, Some(peer))),
                Err(mut error) => match error.take_message() {
                    // Not a byte of it was sent.
                    Some(unsent) => request = unsent,
                    None => return Err(classify(&error.into_error(), true)),
                },
            }
        }
        let connecting = async { Ok::<_, Box<dyn Error + Send + Sync>>(speak(peer.connect(&self.tls).await?).await?) };
        let mut connection = match within(self.connect_timeout, connecting).await {
            Some(Ok(connection)) => connection,
            Some(Err(error)) => {
                let timed_out =
                    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::TimedOut);
                // The system's own words may name an address: for the log only, and only when asked for.
                tracing::debug!(error = &*error as &dyn Error, "no connection");
                return Err((FailStage::Connect, if timed_out { Failure::TimedOut } else { Failure::Broke }));
            }
            None => return Err((FailStage::Connect, Failure::TimedOut)),
        };
        match connection.send_request(request).await {
            Ok(response) => Ok(self.answering(response, connection, (!fresh).then_some(peer))),
            Err(error) => Err(classify(&error, false)),
        }
    }

    fn answering(
        &self,
        response: Response<hyper::body::Incoming>,
        connection: hyper::client::conn::http1::SendRequest<Outgoing>,
        keep: Option<Peer>,
    ) -> Response<Answering> {
        let back = keep.map(|peer| (self.pool.clone(), peer));
        response.map(|body| Answering::new(body, connection, back))
    }
}

/// What a request met that was handed to a connection; `reused`: which had served before.
fn classify(error: &hyper::Error, reused: bool) -> (FailStage, Failure) {
    tracing::debug!(error = error as &dyn Error, "an attempt failed");
    let mut cause = error.source();
    let (mut timed_out, mut closed) = (false, error.is_incomplete_message());
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            timed_out |= io.kind() == ErrorKind::TimedOut;
            closed |= matches!(
                io.kind(),
                ErrorKind::ConnectionReset
                    | ErrorKind::ConnectionAborted
                    | ErrorKind::BrokenPipe
                    | ErrorKind::UnexpectedEof
            );
        }
        cause = error.source();
    }
    let stage = match error.is_canceled() {
        true => FailStage::Connect,
        false if closed && reused => FailStage::Stale,
        false => FailStage::AwaitHead,
    };
    (stage, if timed_out { Failure::TimedOut } else { Failure::Broke })
}
