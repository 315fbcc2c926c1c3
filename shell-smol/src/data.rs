//! The data listener: carries a request through the core's states, one after the other, and its answer back.

use std::sync::Arc;

use appproxy_core::access::address::Peer;
use appproxy_core::exchange::{Answer, Connection, Gate, Outcome};
use appproxy_core::telemetry::{AccessLine, Held};
use bytes::Bytes;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use futures_util::FutureExt;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::Incoming;

use crate::access_line;
use crate::attempts::{self, Begun};
use crate::body::{Inbound, collect};
use crate::held::Held as Waits;
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
    let in_flight = node.metrics.in_flight.hold();
    // A fault of ours in one request is that request's alone. What it shares with others is plain data behind locks that
    // are held for single calls.
    let exchange = AssertUnwindSafe(exchange(&node, request, in_flight)).catch_unwind();
    match exchange.await {
        Ok(Ok(response)) => response,
        Ok(Err(answer)) => own_answer(&node, *answer),
        Err(_) => {
            tracing::error!("a request met a fault in this worker and was answered with 500; please report it");
            node.metrics.counts().refused("internal");
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
    in_flight: Held,
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
    let (gated, collected) = Waits::new(node, gated).through(collecting).await?;
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
    let took = node.clock.moment().since(outcome.trail.arrived());
    node.metrics.counts().exchange(outcome, first_byte, took, &node.view());
    outcome.ends().for_each(|ended| node.saw(ended));
    if let Some(backend) = outcome.trail.credential_refused() {
        node.credential_refused(backend);
    }
    access_line::write(&AccessLine::of(outcome, first_byte, took));
}
