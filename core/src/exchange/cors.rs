//! `server.cors.allowed_origins`: which browser pages may call (data-plane 2).

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderValue, ORIGIN, VARY,
};
use http::{Method, request::Parts};

use crate::defects::{Defect, has};

/// The origins that are let in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AllowedOrigins {
    /// No browser page; no header is added and no pre-flight answered.
    #[default]
    Nobody,
    /// `["*"]`: every page. Credentials of the browser's own are never asked for.
    Anyone,
    /// These, compared as they are written.
    Listed(Vec<String>),
}

impl AllowedOrigins {
    /// Reads the configured list; a `*` in it lets everyone in.
    #[must_use]
    pub fn new<'a>(origins: impl IntoIterator<Item = &'a str>) -> Self {
        let listed: Vec<String> = origins.into_iter().map(|origin| origin.trim_end_matches('/').to_owned()).collect();
        if listed.is_empty() {
            Self::Nobody
        } else if listed.iter().any(|origin| origin == "*") {
            Self::Anyone
        } else {
            Self::Listed(listed)
        }
    }

    /// What `Access-Control-Allow-Origin` says to this request; `None` when it says nothing.
    pub(super) fn grant(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        if *self == Self::Nobody && !has(Defect::OriginsIgnored) {
            return None;
        }
        let origin = headers.get(ORIGIN)?;
        if has(Defect::OriginsIgnored) {
            return Some(origin.clone());
        }
        match self {
            Self::Nobody => None,
            Self::Anyone => Some(HeaderValue::from_static("*")),
            Self::Listed(listed) => {
                listed.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes()).then(|| origin.clone())
            }
        }
    }
}

/// Whether a browser asks if it may ask.
pub(super) fn is_preflight(parts: &Parts) -> bool {
    parts.method == Method::OPTIONS && parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// What the paths of this server take.
pub(super) const OWN_METHODS: &str = "GET, HEAD, POST, DELETE";
/// What a circuit's replicas may take.
#[cfg(feature = "appproxy-legacy")]
pub(super) const EVERY_METHOD: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// The headers of the answer to a pre-flight; the grant itself comes with [`mark`].
pub(super) fn preflight(asked: &HeaderMap, methods: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
    // `*` would leave out `Authorization`.
    if let Some(wanted) = asked.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    headers.append(VARY, HeaderValue::from_static("Access-Control-Request-Headers"));
    headers
}

/// Lets the page see the answer, and those of our headers that a client reads.
pub(super) fn mark(headers: &mut HeaderMap, grant: &HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, grant.clone());
    headers.insert(
        ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static(
            "x-request-id, retry-after, x-appproxy-model, x-appproxy-backend, x-appproxy-fallback, \
             x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests",
        ),
    );
    if grant != "*" {
        headers.append(VARY, HeaderValue::from_static("Origin"));
    }
}

#[cfg(test)]
#[cfg(feature = "appproxy-router")]
#[path = "cors_tests.rs"]
mod tests;
