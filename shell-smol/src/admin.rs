//! The admin listener (data-plane 2, 7).

use std::sync::Arc;

use appproxy_core::secret::Secret;
use appproxy_core::telemetry::admin_answer;
use arc_swap::ArcSwapOption;
use http::{Request, Response};
use hyper::body::Incoming;

use crate::data::{Body, whole};
use crate::node::Node;

/// `admin.token`, which a reload may change.
pub(crate) type Token = Arc<ArcSwapOption<Secret>>;

/// Answers one request; every path needs `token` when there is one.
pub(crate) async fn handle(node: Arc<Node>, token: Token, request: Request<Incoming>) -> Response<Body> {
    let (method, path, headers) = (request.method(), request.uri().path(), request.headers());
    admin_answer(method, path, headers, token.load().as_deref(), || node.export()).map(whole)
}
