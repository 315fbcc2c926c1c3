//! The data listener: carries a request through the core's states, one after the other, and its answer back.

use std::sync::Arc;
use std::time::Instant;

use appproxy_core::exchange::{Answer, Committed, EndOfBody, Gate, Outcome, fault};
use appproxy_core::telemetry::{AccessLine, Held};
use bytes::Bytes;
use core::panic::AssertUnwindSafe;
use core::pin::pin;
use core::time::Duration;
use futures_util::FutureExt;
use http::{Request, Response};
use http_body_util::{Either, Full};

use crate::access_line;
use crate::attempts::{self, Begun, Freeing};
use crate::body::{Coming, Inbound, Stopped, collect};
use crate::held::Held as Waits;
use crate::node::Node;
use crate::pace::Pace;
use crate::plane::Arrival;
use crate::relay::Relay;
use crate::runtime::Runtime;
use crate::tunnel::Tunnel;
use crate::unpacking;
use crate::upload::Upload;

/// An answer's body: whole, or passed on.
pub(crate) type Body<R> = Either<Full<Bytes>, Box<Relay<R>>>;

/// A whole body.
pub(crate) fn whole<R: Runtime>(bytes: impl Into<Bytes>) -> Body<R> {
    Either::Left(Full::new(bytes.into()))
}

/// Answers one request: every path is the core's to judge.
pub(crate) async fn handle<R: Runtime, B: Coming>(
    node: Arc<Node<R>>,
    request: Request<B>,
    arrival: Arrival<R>,
) -> Response<Body<R>> {
    let (in_flight, began, version) = (node.metrics.in_flight.hold(), arrival.at, request.version());
    // A fault of ours in one request is that request's alone. What it shares with others is plain data behind locks that
    // are held for single calls.
    let mut response = match AssertUnwindSafe(exchange(&node, request, arrival, in_flight)).catch_unwind().await {
        Ok(Ok(response)) => response,
        Ok(Err(answer)) => own_answer(&node, *answer, began),
        Err(_) => {
            tracing::error!("a request met a fault in this worker and was answered with 500; please report it");
            node.metrics.counts().refused("internal");
            fault().map(whole)
        }
    };
    node.mark_last(version, &mut response);
    response
}

/// One exchange. An error is an answer of our own.
async fn exchange<R: Runtime, B: Coming>(
    node: &Arc<Node<R>>,
    request: Request<B>,
    arrival: Arrival<R>,
    in_flight: Held,
) -> Result<Response<Body<R>>, Box<Answer>> {
    let (parts, body) = request.into_parts();
    let body = Inbound::new(body, &parts.headers);
    let Arrival { connection, pace, at: began } = arrival;

    let gate = node.see(|seen| Gate::open(parts, connection, seen, &mut node.states.draws()))?;
    let gated = match gate.ledger_key().cloned() {
        Some(key) => node.see(|seen| gate.pass(Some(&mut node.states.ledger(&key)), seen))?,
        None => node.see(|seen| gate.pass(None, seen))?,
    };

    let limit = gated.max_body_size();
    if gated.is_streamed() {
        let admitted = node.see(|seen| gated.stream(seen))?;
        let begun = attempts::answered(node, began, admitted, Some(Upload::new(body, limit, node)));
        return Ok(passed_on(node, &pace, began, in_flight, Box::pin(begun).await?));
    }
    let (gated, collected) = Waits::new(node, began, gated).through(pin!(collect(body, limit, node))).await?;
    let (bytes, room) = match collected {
        Ok(collected) => collected,
        Err(Stopped::Refused(denial)) => return Err(gated.refuse(&denial)),
        Err(Stopped::Gone) => return Err(gated.broken_off()),
    };

    let (admitted, room) = match gated.is_packed() {
        false => (node.see(|seen| gated.route(bytes, seen))?, room),
        true => Box::pin(unpacking::routed(node, began, gated, bytes, room)).await?,
    };
    let begun = attempts::answered(node, began, admitted, None).await?;
    drop(room);
    Ok(passed_on(node, &pace, began, in_flight, begun))
}

/// An answer that has begun, and whose end is recorded once. Dropped before, it is recorded as its owner says.
pub(crate) struct Opened<R: Runtime> {
    /// Taken when the end is recorded.
    pub(crate) committed: Option<Committed>,
    pub(crate) node: Arc<Node<R>>,
    began: Instant,
    first_byte: Duration,
    /// Dropped last: what is counted, and who waits, hear of the end when it has come.
    _counts: (Held, Option<Freeing<R>>),
}

impl<R: Runtime> Opened<R> {
    /// Records the end, the first time.
    pub(crate) fn ended(&mut self, end: EndOfBody) {
        if let Some(committed) = self.committed.take() {
            record(&self.node, &committed.ended(end), self.began, Some(self.first_byte));
        }
    }
}

/// The answer of a replica.
fn passed_on<R: Runtime>(
    node: &Arc<Node<R>>,
    pace: &Pace<R>,
    began: Instant,
    in_flight: Held,
    begun: Begun<R>,
) -> Response<Body<R>> {
    let Begun { committed, head, body, upload, freeing } = begun;
    let (is_upgrade, first_byte) = (committed.is_upgrade(), began.elapsed());
    let (committed, node) = (Some(committed), node.clone());
    let opened = Opened { committed, node, began, first_byte, _counts: (in_flight, freeing) };
    let mut response = if is_upgrade {
        pace.upgrade(Tunnel::new(body.into_lane(), opened));
        Response::new(whole(""))
    } else {
        Response::new(Either::Right(Box::new(Relay::new(body, upload, opened))))
    };
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    response
}

fn own_answer<R: Runtime>(node: &Node<R>, answer: Answer, began: Instant) -> Response<Body<R>> {
    record(node, &answer.outcome, began, None);
    let mut response = Response::new(whole(answer.body));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    response
}

/// The access line and the counts of an exchange that is over.
pub(crate) fn record<R: Runtime>(node: &Node<R>, outcome: &Outcome, began: Instant, first_byte: Option<Duration>) {
    let took = began.elapsed();
    node.metrics.exchange(outcome, first_byte, took, &node.view());
    outcome.ends().for_each(|ended| node.saw(ended));
    if let Some(backend) = outcome.trail.credential_refused() {
        node.credential_refused(backend);
    }
    access_line::write(&AccessLine::of(outcome, first_byte, took));
}
