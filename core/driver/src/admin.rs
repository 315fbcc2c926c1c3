//! The admin listener (data-plane 2, 7).

use std::sync::Arc;

use appproxy_core::secret::Secret;
use appproxy_core::telemetry::{Desk, admin_answer, admin_busy};
use arc_swap::ArcSwapOption;
use http::{Request, Response};
use hyper::body::Incoming;

use crate::data::{Body, whole};
use crate::node::Node;
use crate::runtime::Runtime;

/// `admin.token`, which a reload may change.
pub(crate) type Token = Arc<ArcSwapOption<Secret>>;

/// Answers one request; every path needs `token` when there is one.
pub(crate) async fn handle<R: Runtime>(
    node: Arc<Node<R>>,
    token: Token,
    request: Request<Incoming>,
) -> Response<Body<R>> {
    let (method, uri, headers) = (request.method(), request.uri(), request.headers());
    let token = token.load();
    let (response, drain) = node.see(|seen| {
        let (states, metrics) = (&node.states, &node.metrics);
        let desk = Desk { version: env!("CARGO_PKG_VERSION"), node: seen, states, metrics };
        admin_answer(method, uri, headers, token.as_deref(), &desk)
    });
    if drain.is_some_and(|drain| !node.drain(drain)) {
        return admin_busy().map(whole);
    }
    response.map(whole)
}
