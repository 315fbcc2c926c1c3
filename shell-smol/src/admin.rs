//! The admin listener (data-plane 2, 7).

use std::sync::Arc;

use appproxy_core::secret::Secret;
use appproxy_core::telemetry::admin_answer;
use http::{Request, Response};
use hyper::body::Incoming;

use crate::data::{Body, whole};
use crate::node::Node;

/// Answers one request; every path needs `token` when there is one.
pub(crate) async fn handle(node: Arc<Node>, token: Option<Secret>, request: Request<Incoming>) -> Response<Body> {
    let (method, path, headers) = (request.method(), request.uri().path(), request.headers());
    admin_answer(method, path, headers, token.as_ref(), || node.export()).map(whole)
}
