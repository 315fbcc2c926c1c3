//! The admin listener: `/metrics` (data-plane 2, 7).

use std::sync::Arc;

use appproxy_core::secret::Secret;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use subtle::ConstantTimeEq;

use crate::data::{Body, whole};
use crate::node::Node;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers one request; every path needs `token` when there is one.
pub(crate) async fn handle(node: Arc<Node>, token: Option<Secret>, request: Request<Incoming>) -> Response<Body> {
    let mut response = Response::new(whole(""));
    let mut say = |status, name, value, text: String| {
        *response.status_mut() = status;
        response.headers_mut().insert(name, HeaderValue::from_static(value));
        *response.body_mut() = whole(text);
    };
    if !authorised(token.as_ref(), request.headers()) {
        let message = "the admin listener needs `Authorization: Bearer <admin.token>`\n";
        say(StatusCode::UNAUTHORIZED, WWW_AUTHENTICATE, "Bearer", message.to_owned());
    } else if request.uri().path() == "/metrics" && [Method::GET, Method::HEAD].contains(request.method()) {
        say(StatusCode::OK, CONTENT_TYPE, OPEN_METRICS, node.export());
    } else {
        let message = format!("{} is not here; the admin listener has /metrics\n", request.uri().path());
        say(StatusCode::NOT_FOUND, CONTENT_TYPE, "text/plain; charset=utf-8", message);
    }
    response
}

fn authorised(token: Option<&Secret>, headers: &HeaderMap) -> bool {
    let Some(token) = token else { return true };
    let shown = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().split_at_checked(7));
    shown.is_some_and(|(scheme, shown)| {
        scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(shown.ct_eq(token.expose().as_bytes()))
    })
}
