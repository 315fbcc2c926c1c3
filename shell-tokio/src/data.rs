//! The data listener: carries a request through the core's states, one after the other, and its answer back.

use std::net::SocketAddr;
use std::sync::Arc;

use appproxy_core::access::address::Peer;
use appproxy_core::exchange::{Answer, Connection, Gate, Outcome};
use appproxy_core::telemetry::{AccessLine, Held};
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use futures_util::FutureExt;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use tokio::time::Instant;

use crate::access_line;
use crate::attempts::{self, Begun};
use crate::body::{Inbound, Stopped, collect};
use crate::held::Held as Waits;
use crate::node::Node;
use crate::pace::Pace;
use crate::plane::Arrival;
use crate::relay::Relay;
use crate::tunnel::Tunnel;
use crate::unpacking;

/// The data plane for connections that are not ours: all we know of them is the address that axum noted.
pub(crate) fn embedded(node: Arc<Node>) -> Router {
    Router::new().fallback(arrived).with_state(node)
}

async fn arrived(State(node): State<Arc<Node>>, request: Request<Body>) -> Response<Body> {
    let from = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let peer = from.map_or(Peer::Unix, |ConnectInfo(address)| Peer::Ip(address.ip()));
    let connection = Connection { peer, tls: false };
    let arrival = Arrival { connection, pace: Pace::start(node.clock), at: Instant::now() };
    answer(&node, arrival, request).await
}

const INTERNAL: &str = r#"{"error":{"message":"This server met a fault of its own. Send the request again.","type":"server_error","param":null,"code":"internal"}}"#;

/// Answers a request: every path is the core's to judge.
pub(crate) async fn answer(node: &Arc<Node>, arrival: Arrival, request: Request<Body>) -> Response<Body> {
    let (in_flight, began) = (node.metrics.in_flight.hold(), arrival.at);
    // A fault of ours in one request is that request's alone. What it shares with others is plain data behind locks that
    // are held for single calls.
    let exchange = AssertUnwindSafe(exchange(node, request, arrival, in_flight)).catch_unwind();
    match exchange.await {
        Ok(Ok(response)) => response,
        Ok(Err(answer)) => own_answer(node, *answer, began),
        Err(_) => {
            tracing::error!("a request met a fault in this worker and was answered with 500; please report it");
            node.metrics.counts().refused("internal");
            let mut response = Response::new(Body::from(INTERNAL));
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
    }
}

/// One exchange. An error is an answer of our own.
async fn exchange(
    node: &Arc<Node>,
    request: Request<Body>,
    arrival: Arrival,
    in_flight: Held,
) -> Result<Response<Body>, Box<Answer>> {
    let (parts, body) = request.into_parts();
    let body = Inbound::new(body, &parts.headers);
    let Arrival { connection, pace, at: began } = arrival;

    let gate = node.see(|seen| Gate::open(parts, connection, seen, &mut node.states.draws()))?;
    let gated = match gate.ledger_key().cloned() {
        Some(key) => node.see(|seen| gate.pass(Some(&mut node.states.ledger(&key)), seen))?,
        None => node.see(|seen| gate.pass(None, seen))?,
    };

    let limit = gated.max_body_size();
    let (gated, collected) = Waits::new(node, began, gated).through(collect(body, limit, node)).await?;
    let (bytes, room) = match collected {
        Ok(collected) => collected,
        Err(Stopped::Refused(denial)) => return Err(gated.refuse(&denial)),
        Err(Stopped::Gone) => {
            record(node, &gated.gone(), began, None);
            // Nobody reads it.
            return Ok(Response::default());
        }
    };

    let (admitted, room) = match gated.is_packed() {
        false => (node.see(|seen| gated.route(bytes, seen))?, room),
        true => unpacking::routed(node, began, gated, bytes, room).await?,
    };
    let Begun { committed, head, body, upgraded, freeing } = attempts::answered(node, began, admitted).await?;
    drop(room);
    let counts = (in_flight, freeing);
    let mut response = match upgraded {
        Some(replica) if committed.is_upgrade() => {
            pace.upgrade(Tunnel::new(replica, committed, node.clone(), began, counts));
            Response::new(Body::empty())
        }
        _ => Response::new(Body::new(Relay::new(body, committed, node.clone(), began, counts))),
    };
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    Ok(response)
}

fn own_answer(node: &Node, answer: Answer, began: Instant) -> Response<Body> {
    record(node, &answer.outcome, began, None);
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    response
}

/// The access line and the counts of an exchange that is over.
pub(crate) fn record(node: &Node, outcome: &Outcome, began: Instant, first_byte: Option<Duration>) {
    let took = began.elapsed();
    node.metrics.exchange(outcome, first_byte, took, &node.view());
    outcome.ends().for_each(|ended| node.saw(ended));
    if let Some(backend) = outcome.trail.credential_refused() {
        node.credential_refused(backend);
    }
    access_line::write(&AccessLine::of(outcome, first_byte, took));
}
