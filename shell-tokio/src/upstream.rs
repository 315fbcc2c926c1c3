//! The pooled client towards replicas: HTTP/1.1, no Nagle, connections that live shorter than the replicas keep them.

use core::time::Duration;
use std::error::Error;
use std::io::{self, ErrorKind};

use appproxy_core::exchange::{FailStage, Failure, Outgoing, Payload};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::marked::{Marking, Served};
use crate::tls;

/// Below the 5 s after which uvicorn, which most LLM servers stand on, closes an idle connection.
const IDLE: Duration = Duration::from_secs(4);
/// Idle connections kept per replica; bursts beyond it connect anew.
const IDLE_PER_REPLICA: usize = 256;

/// A client of all replicas. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Upstream {
    pooled: Client<Marking<HttpsConnector<HttpConnector>>, Outgoing>,
    /// Keeps no connection for another request.
    fresh: Client<Marking<HttpsConnector<HttpConnector>>, Outgoing>,
}

impl Upstream {
    /// A client that gives connecting `connect_timeout`. Static `https` backends are verified with the system's roots.
    pub(crate) fn new(connect_timeout: Duration) -> Result<Self, String> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(connect_timeout));
        tcp.set_keepalive(Some(Duration::from_secs(60)));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls::client_config(None)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = |idle: usize| {
            Client::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(IDLE)
                .pool_max_idle_per_host(idle)
                .build(Marking(connector.clone()))
        };
        Ok(Self { pooled: client(IDLE_PER_REPLICA), fresh: client(0) })
    }

    /// Sends a request; the answer is its head, with a body that is read as the client takes it. Dropping either
    /// closes the connection. `fresh`: over a connection of its own.
    pub(crate) async fn send(
        &self,
        request: Request<Payload>,
        first_byte_timeout: Duration,
        fresh: bool,
    ) -> Result<Response<Incoming>, (FailStage, Failure)> {
        let client = if fresh { &self.fresh } else { &self.pooled };
        match tokio::time::timeout(first_byte_timeout, client.request(request.map(Outgoing::from))).await {
            Ok(Ok(response)) => {
                Served::set(response.extensions());
                Ok(response)
            }
            Ok(Err(error)) => {
                // The client's own words may name an address: for the log only, and only when asked for.
                tracing::debug!(error = &error as &dyn Error, "an attempt failed");
                Err(classify(&error))
            }
            Err(_) => Err((FailStage::AwaitHead, Failure::TimedOut)),
        }
    }
}

fn classify(error: &hyper_util::client::legacy::Error) -> (FailStage, Failure) {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    let (mut timed_out, mut never_written, mut closed) = (false, false, false);
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
        if let Some(hyper) = error.downcast_ref::<hyper::Error>() {
            never_written |= hyper.is_canceled();
            closed |= hyper.is_incomplete_message();
        }
        cause = error.source();
    }
    let failure = if timed_out { Failure::TimedOut } else { Failure::Broke };
    let stage = if error.is_connect() || never_written {
        FailStage::Connect
    } else if closed && error.connect_info().is_some_and(Served::before) {
        FailStage::Stale
    } else {
        FailStage::AwaitHead
    };
    (stage, failure)
}
