//! The admin listener (data-plane 2, 7).

use std::sync::Arc;

use appproxy_core::secret::Secret;
use appproxy_core::telemetry::admin_answer;
use arc_swap::ArcSwapOption;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;

use crate::node::Node;

/// `admin.token`, which a reload may change.
pub(crate) type Token = Arc<ArcSwapOption<Secret>>;

/// The admin plane's router; every path needs `token` when there is one.
pub(crate) fn router(node: Arc<Node>, token: Token) -> Router {
    Router::new().fallback(handle).with_state((node, token))
}

async fn handle(State((node, token)): State<(Arc<Node>, Token)>, request: Request) -> Response {
    let (method, path, headers) = (request.method(), request.uri().path(), request.headers());
    admin_answer(method, path, headers, token.load().as_deref(), || node.export()).map(Body::from)
}
