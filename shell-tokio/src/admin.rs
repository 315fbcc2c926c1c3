//! The admin listener: `/metrics` (data-plane 2, 7).

use std::sync::Arc;

use appproxy_core::secret::Secret;
use arc_swap::ArcSwapOption;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{StatusCode, Uri};
use subtle::ConstantTimeEq;

use crate::node::Node;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// `admin.token`, which a reload may change.
pub(crate) type Token = Arc<ArcSwapOption<Secret>>;

/// The admin plane's router; every path needs `token` when there is one.
pub(crate) fn router(node: Arc<Node>, token: Token) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .fallback(unknown)
        .layer(from_fn_with_state(token, authorise))
        .with_state(node)
}

async fn metrics(State(node): State<Arc<Node>>) -> Response {
    ([(CONTENT_TYPE, OPEN_METRICS)], node.export()).into_response()
}

async fn unknown(uri: Uri) -> Response {
    (StatusCode::NOT_FOUND, format!("{} is not here; the admin listener has /metrics\n", uri.path())).into_response()
}

async fn authorise(State(token): State<Token>, request: Request, next: Next) -> Response {
    let token = token.load();
    let Some(token) = token.as_ref() else { return next.run(request).await };
    let shown = request.headers().get(AUTHORIZATION).and_then(|value| value.as_bytes().split_at_checked(7));
    let right = shown.is_some_and(|(scheme, shown)| {
        scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(shown.ct_eq(token.expose().as_bytes()))
    });
    if right {
        return next.run(request).await;
    }
    let message = "the admin listener needs `Authorization: Bearer <admin.token>`\n";
    (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], message).into_response()
}
