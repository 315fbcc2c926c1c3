//! Carries out the core's probes: one GET on a connection of its own, one answer or one reason why there is none
//! (data-plane 4).

use appproxy_core::limits;
use appproxy_core::worker::{Probe, ProbeEnded, TransportFailure};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::clock::Clock;
use crate::failures::classify;
use crate::tls;

/// A client that asks backends how they are. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Prober {
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    clock: Clock,
}

impl Prober {
    /// Static `https` backends are verified with the system's roots, as for requests.
    pub(crate) fn new(clock: Clock) -> Result<Self, String> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls::client_config(None)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        // Nothing is kept: that a connection is stale says nothing of the backend.
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        Ok(Self { client, clock })
    }

    /// Makes one probe, until its deadline at the latest.
    pub(crate) async fn make(self, probe: Probe) -> ProbeEnded {
        let deadline = self.clock.instant(probe.deadline());
        let request = probe.request().clone().map(|()| Empty::new());
        match tokio::time::timeout_at(deadline, self.exchange(request)).await {
            Ok(Ok((status, body))) => probe.answered(status, &body),
            Ok(Err(failure)) => probe.failed(failure),
            Err(_) => probe.failed(TransportFailure::TimedOut),
        }
    }

    async fn exchange(&self, request: Request<Empty<Bytes>>) -> Result<(StatusCode, Bytes), TransportFailure> {
        let response = self.client.request(request).await.map_err(|error| classify(&error))?;
        let (head, body) = response.into_parts();
        // A body too large or broken off is no model list; the status stands.
        let body = Limited::new(body, limits::PROBE_ANSWER_BYTES).collect().await;
        Ok((head.status, body.map(http_body_util::Collected::to_bytes).unwrap_or_default()))
    }
}
