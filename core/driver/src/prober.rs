//! Carries out the core's probes: one GET on a connection of its own, one answer or one reason why there is none
//! (data-plane 4).

use core::marker::PhantomData;
use core::time::Duration;
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use appproxy_core::exchange::Outgoing;
use appproxy_core::limits;
use appproxy_core::worker::{Probe, ProbeEnded, TransportFailure};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Collected, Limited};
use rustls::ClientConfig;

use crate::clock::Clock;
use crate::failures::classify;
use crate::lane::once;
use crate::runtime::Runtime;
use crate::tls;
use crate::upload::Sent;

/// A client that asks backends how they are. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Prober<R> {
    tls: Arc<ClientConfig>,
    clock: Clock,
    runtime: PhantomData<R>,
}

impl<R: Runtime> Prober<R> {
    /// Static `https` backends are verified with the system's roots, as for requests.
    pub(crate) fn new(clock: Clock) -> Result<Self, String> {
        Ok(Self { tls: Arc::new(tls::client_config(None)?), clock, runtime: PhantomData })
    }

    /// Makes one probe, until its deadline at the latest.
    pub(crate) async fn make(self, probe: Probe) -> ProbeEnded {
        let deadline = self.clock.instant(probe.deadline());
        let request = probe.request().clone().map(|()| Sent::Kept(Outgoing::empty()));
        let limit = deadline.saturating_duration_since(Instant::now());
        match R::until(deadline, self.exchange(request, limit)).await {
            Some(Ok((status, body))) => probe.answered(status, &body),
            Some(Err(error)) => probe.failed(classify(&*error)),
            None => probe.failed(TransportFailure::TimedOut),
        }
    }

    async fn exchange(
        &self,
        request: Request<Sent<R>>,
        limit: Duration,
    ) -> Result<(StatusCode, Bytes), Box<dyn Error + Send + Sync>> {
        // A connection that is kept may be stale, which says nothing of the backend.
        let (head, body) = once(request, &self.tls, limit).await?.into_parts();
        // A body too large or broken off is no model list; the status stands.
        let body = Limited::new(body, limits::PROBE_ANSWER_BYTES).collect().await;
        Ok((head.status, body.map(Collected::to_bytes).unwrap_or_default()))
    }
}
