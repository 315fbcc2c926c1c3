//! The data listener: carries a request through the core's states, one after the other, and its answer back.

use std::sync::Arc;

use appproxy_core::access::address::Peer;
use appproxy_core::exchange::{Answer, Connection, Gate, Outcome};
use bytes::Bytes;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use futures_util::FutureExt;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::Incoming;

use crate::access_line::AccessLine;
use crate::attempts::{self, Begun};
use crate::body::{Inbound, collect};
use crate::held::Held;
use crate::node::Node;
use crate::relay::Relay;
use crate::unpacking;

/// An answer's body: whole, or passed on.
pub(crate) type Body = Either<Full<Bytes>, Box<Relay>>;

/// A whole body.
pub(crate) fn whole(bytes: impl Into<Bytes>) -> Body {
    Either::Left(Full::new(bytes.into()))
}

const INTERNAL: &str = r#"{"error":{"message":"This server met a fault of its own. Send the request again.","type":"server_error","param":null,"code":"internal"}}"#;

/// Answers one request: every path is the core's to judge.
pub(crate) async fn handle(node: Arc<Node>, request: Request<Incoming>) -> Response<Body> {
    let in_flight = InFlight::count(&node);
    // A fault of ours in one request is that request's alone. What it shares with others is plain data behind locks that
    // are held for single calls.
    let exchange = AssertUnwindSafe(exchange(&node, request, in_flight)).catch_unwind();
    match exchange.await {
        Ok(Ok(response)) => response,
        Ok(Err(answer)) => own_answer(&node, *answer),
        Err(_) => {
            tracing::error!("a request met a fault in this worker and was answered with 500; please report it");
            node.metrics.refused("internal");
            let mut response = Response::new(whole(INTERNAL));
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
    }
}

/// One exchange. An error is an answer of our own.
async fn exchange(
    node: &Arc<Node>,
    request: Request<Incoming>,
    in_flight: InFlight,
) -> Result<Response<Body>, Box<Answer>> {
    let (mut parts, body) = request.into_parts();
    let body = Inbound::new(body, &parts.headers);
    // A connection that nobody described has no address: every address list refuses it.
    let connection = parts.extensions.remove().unwrap_or(Connection { peer: Peer::Unix, tls: false });

    let gate = node.see(|seen| Gate::open(parts, connection, seen, &mut node.draws()))?;
    let gated = match gate.ledger_key().cloned() {
        Some(key) => node.see(|seen| gate.pass(Some(&mut node.ledger(&key)), seen))?,
        None => node.see(|seen| gate.pass(None, seen))?,
    };

    let collecting = collect(body, gated.max_body_size(), &node.bodies, node.patience);
    let (gated, collected) = Held::new(node, gated).through(collecting).await?;
    let (bytes, room) = match collected {
        Ok(collected) => collected,
        Err(denial) => return Err(gated.refuse(&denial)),
    };
    let (admitted, room) = match gated.is_packed() {
        false => (node.see(|seen| gated.route(bytes, seen))?, room),
        true => unpacking::routed(node, gated, bytes, room).await?,
    };
    let Begun { committed, head, body, freeing } = attempts::answered(node, admitted).await?;
    drop(room);
    let relay = Relay::new(body, committed, node.clone(), (in_flight, freeing));
    let mut response = Response::new(Either::Right(Box::new(relay)));
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    Ok(response)
}

fn own_answer(node: &Node, answer: Answer) -> Response<Body> {
    record(node, &answer.outcome, None);
    let mut response = Response::new(whole(answer.body));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    response
}

/// The access line and the counts of an exchange that is over.
pub(crate) fn record(node: &Node, outcome: &Outcome, first_byte: Option<Duration>) {
    let trail = &outcome.trail;
    let took = node.clock.moment().since(trail.arrived());
    let metrics = &node.metrics;

    // Only names in force become labels: what a client sent, or what is gone, must not add series for ever.
    let view = node.view();
    let model = match trail.known_model() {
        Some(model) if view.model(model).is_some() || view.static_model(model).is_some() => model.clone(),
        Some(_) => "removed".into(),
        None => "-".into(),
    };
    let backend = match trail.backend() {
        Some(backend) if view.backend(backend).is_some() => backend.clone(),
        Some(_) => "removed".into(),
        None => "-".into(),
    };
    if let Some(first_byte) = first_byte {
        metrics.first_byte(model.clone(), first_byte);
    }
    metrics.request(model, backend, outcome.status.as_u16(), took);
    metrics.retries.inc_by(u64::from(trail.attempts().saturating_sub(1)));
    if trail.fallback().is_some() {
        metrics.fallbacks.inc();
    }
    outcome.ends().for_each(|ended| node.saw(ended));
    if let Some(backend) = trail.credential_refused() {
        node.credential_refused(backend);
    }
    if let Some(code) = outcome.denial {
        metrics.refused(code.label());
    }
    let end = outcome.end.label();
    if end != "complete" {
        metrics.cut(end);
    }

    AccessLine {
        method: trail.method().as_str(),
        path: trail.path(),
        request_id: trail.request_id(),
        model: trail.model().map_or("-", |model| model),
        key_id: trail.key_id().map_or("-", |key| key.as_str()),
        backend: trail.backend().map_or("-", |backend| backend),
        attempts: trail.attempts(),
        status: outcome.status.as_u16(),
        first_byte,
        took,
        bytes: outcome.body_bytes,
        end,
    }
    .write();
}

/// Counts a request from its head to the end of its answer.
pub(crate) struct InFlight(Arc<Node>);

impl InFlight {
    fn count(node: &Arc<Node>) -> Self {
        node.metrics.in_flight.inc();
        Self(node.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.metrics.in_flight.dec();
    }
}
