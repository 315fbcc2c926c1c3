//! Carries out the core's probes: one GET on a connection of its own, one answer or one reason why there is none
//! (data-plane 4).

use std::sync::Arc;

use appproxy_core::limits;
use appproxy_core::worker::{Probe, ProbeEnded, TransportFailure};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Collected, Empty, Limited};
use rustls::ClientConfig;

use crate::clock::Clock;
use crate::dial;
use crate::executor::until;
use crate::failures::classify;
use crate::tls;

/// A client that asks backends how they are. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Prober {
    tls: Arc<ClientConfig>,
    clock: Clock,
}

impl Prober {
    /// Static `https` backends are verified with the system's roots, as for requests.
    pub(crate) fn new(clock: Clock) -> Result<Self, String> {
        Ok(Self { tls: Arc::new(tls::client_config(None)?), clock })
    }

    /// Makes one probe, until its deadline at the latest.
    pub(crate) async fn make(self, probe: Probe) -> ProbeEnded {
        let deadline = self.clock.instant(probe.deadline());
        let request = probe.request().clone().map(|()| Empty::new());
        match until(deadline, self.exchange(request)).await {
            Some(Ok((status, body))) => probe.answered(status, &body),
            Some(Err(failure)) => probe.failed(failure),
            None => probe.failed(TransportFailure::TimedOut),
        }
    }

    async fn exchange(&self, request: Request<Empty<Bytes>>) -> Result<(StatusCode, Bytes), TransportFailure> {
        // A connection that is kept may be stale, which says nothing of the backend.
        let response = dial::once(request, &self.tls).await.map_err(|error| classify(&*error))?;
        let (head, body) = response.into_parts();
        // A body too large or broken off is no model list; the status stands.
        let body = Limited::new(body, limits::PROBE_ANSWER_BYTES).collect().await;
        Ok((head.status, body.map(Collected::to_bytes).unwrap_or_default()))
    }
}
