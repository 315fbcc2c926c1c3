//! Why a request is not served, and how that is said in each surface's own shape (data-plane 3.11, 9).

use bytes::Bytes;
use http::StatusCode;
use serde_json::json;
use std::borrow::Cow;

use super::surface::Surface;
use crate::defects::{Defect, has};

/// Every reason this node gives. The code is stable; clients and metrics may rely on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// The body is no JSON object, is cut off, or names `model` or `stream` twice.
    InvalidJson,
    /// No `model`.
    MissingModel,
    /// `model` is null, empty or no string.
    InvalidModel,
    /// The request's head (or multipart body) is malformed.
    InvalidRequest,
    /// No key.
    MissingApiKey,
    /// An unknown key.
    InvalidApiKey,
    /// A key past its end.
    ExpiredApiKey,
    /// No access token, where a circuit needs one (legacy worker).
    MissingToken,
    /// Not a token of ours, or not valid yet.
    InvalidToken,
    /// A token past its end.
    ExpiredToken,
    /// A good token, for another circuit.
    TokenMismatch,
    /// The key or the circuit may not be used from this address.
    IpNotAllowed,
    /// The key may not use this model.
    ModelNotAllowed,
    /// No such model.
    ModelNotFound,
    /// No circuit at this host name (legacy worker).
    EndpointNotFound,
    /// No such path.
    UnknownPath,
    /// The path does not take this method.
    MethodNotAllowed,
    /// The body came too slowly.
    RequestTimeout,
    /// The body is larger than `server.max_body_size`.
    BodyTooLarge,
    /// The body's `content-encoding` cannot be read.
    UnsupportedEncoding,
    /// The key's requests of this minute are used up.
    RateLimitExceeded,
    /// The path, or this path on the chosen backend, is not supported.
    NotSupported,
    /// The replicas could not be reached, or broke off before answering.
    UpstreamError,
    /// The model has no replica that can serve now.
    ModelUnavailable,
    /// The model's replicas are not known to be up yet.
    ModelNotReady,
    /// This node has no key set yet, or one too old to trust.
    NotReady,
    /// This node is at a bound.
    Overloaded,
    /// The replica did not begin to answer in time.
    UpstreamTimeout,
}

impl Code {
    /// Every code, for tables and metrics.
    pub const ALL: [Self; 28] = [
        Self::InvalidJson,
        Self::MissingModel,
        Self::InvalidModel,
        Self::InvalidRequest,
        Self::MissingApiKey,
        Self::InvalidApiKey,
        Self::ExpiredApiKey,
        Self::MissingToken,
        Self::InvalidToken,
        Self::ExpiredToken,
        Self::TokenMismatch,
        Self::IpNotAllowed,
        Self::ModelNotAllowed,
        Self::ModelNotFound,
        Self::EndpointNotFound,
        Self::UnknownPath,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::BodyTooLarge,
        Self::UnsupportedEncoding,
        Self::RateLimitExceeded,
        Self::NotSupported,
        Self::UpstreamError,
        Self::ModelUnavailable,
        Self::ModelNotReady,
        Self::NotReady,
        Self::Overloaded,
        Self::UpstreamTimeout,
    ];

    /// The code as clients and metrics see it.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::InvalidJson => "invalid_json",
            Self::MissingModel => "missing_model",
            Self::InvalidModel => "invalid_model",
            Self::InvalidRequest => "invalid_request",
            Self::MissingApiKey => "missing_api_key",
            Self::InvalidApiKey => "invalid_api_key",
            Self::ExpiredApiKey => "expired_api_key",
            Self::MissingToken => "missing_token",
            Self::InvalidToken => "invalid_token",
            Self::ExpiredToken => "expired_token",
            Self::TokenMismatch => "token_mismatch",
            Self::IpNotAllowed => "ip_not_allowed",
            Self::ModelNotAllowed => "model_not_allowed",
            Self::ModelNotFound => "model_not_found",
            Self::EndpointNotFound => "endpoint_not_found",
            Self::UnknownPath => "unknown_path",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::RequestTimeout => "request_timeout",
            Self::BodyTooLarge => "body_too_large",
            Self::UnsupportedEncoding => "unsupported_encoding",
            Self::RateLimitExceeded => "rate_limit_exceeded",
            Self::NotSupported => "not_supported",
            Self::UpstreamError => "upstream_error",
            Self::ModelUnavailable => "model_unavailable",
            Self::ModelNotReady => "model_not_ready",
            Self::NotReady => "not_ready",
            Self::Overloaded => "overloaded",
            Self::UpstreamTimeout => "upstream_timeout",
        }
    }

    /// The HTTP status of the code.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::InvalidJson | Self::MissingModel | Self::InvalidModel | Self::InvalidRequest => {
                StatusCode::BAD_REQUEST
            }
            Self::MissingApiKey
            | Self::InvalidApiKey
            | Self::ExpiredApiKey
            | Self::MissingToken
            | Self::InvalidToken
            | Self::ExpiredToken
            | Self::TokenMismatch => StatusCode::UNAUTHORIZED,
            Self::IpNotAllowed | Self::ModelNotAllowed => StatusCode::FORBIDDEN,
            Self::ModelNotFound | Self::EndpointNotFound | Self::UnknownPath => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedEncoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::RateLimitExceeded => StatusCode::TOO_MANY_REQUESTS,
            Self::NotSupported => StatusCode::NOT_IMPLEMENTED,
            Self::UpstreamError => StatusCode::BAD_GATEWAY,
            Self::ModelUnavailable | Self::ModelNotReady | Self::NotReady | Self::Overloaded => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::UpstreamTimeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// Which part of the request is at fault, in OpenAI's `param`.
    const fn param(self) -> Option<&'static str> {
        match self {
            Self::MissingModel | Self::InvalidModel | Self::ModelNotAllowed | Self::ModelNotFound => Some("model"),
            _ => None,
        }
    }
}

/// One refusal: what is said to the client, and nothing more than may be said (no hash, no piece of a key, no address,
/// no list of models).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The reason.
    pub code: Code,
    /// The status: the code's, unless a replica's own is kept.
    pub status: StatusCode,
    /// What to do, for a person.
    pub message: Cow<'static, str>,
    /// Whole seconds for `retry-after`. Every 429 and 503 has one.
    pub retry_after: Option<u32>,
    /// What `Allow` says, with 405.
    pub allow: Option<&'static str>,
}

/// Seconds a client is asked to wait where nothing better is known.
pub const RETRY_AFTER_SECONDS: u32 = 1;

impl Denial {
    /// A refusal with the code's own status.
    #[must_use]
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self::with_status(code, code.status(), message)
    }

    /// A refusal that keeps another status, a replica's own.
    #[must_use]
    pub fn with_status(code: Code, status: StatusCode, message: impl Into<Cow<'static, str>>) -> Self {
        let waits = status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE;
        Self { code, status, message: message.into(), retry_after: waits.then_some(RETRY_AFTER_SECONDS), allow: None }
    }

    /// The same refusal, with a time to wait in whole seconds.
    #[must_use]
    pub const fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// For the shell: the body passed `limit` bytes.
    #[must_use]
    pub fn body_too_large(limit: u64) -> Self {
        Self::new(Code::BodyTooLarge, format!("The request body is larger than {limit} bytes. Send a smaller one."))
    }

    /// For the shell: a bound of this node is reached (connections, buffered bytes).
    #[must_use]
    pub fn overloaded() -> Self {
        Self::new(Code::Overloaded, "This server is at its limit. Try again shortly.")
    }

    /// For the shell: the body's chunks are malformed.
    #[must_use]
    pub fn body_malformed() -> Self {
        Self::new(Code::InvalidRequest, "The chunks of the request body are malformed. Send the request again.")
    }

    /// The body ended before all of it had come.
    pub(super) fn body_broken_off() -> Self {
        let problem = "The request body ended before all of it had come. Send the request again, whole.";
        Self::new(Code::InvalidRequest, problem)
    }

    /// For the shell: the body came more slowly than [`super::Collecting`] allows.
    #[must_use]
    pub fn body_too_slow() -> Self {
        Self::new(Code::RequestTimeout, "The request body came too slowly. Send the request again, faster.")
    }

    /// The body, in the shape of `surface`.
    #[must_use]
    pub fn body(&self, surface: Surface, request_id: &str) -> Bytes {
        let message: &str = &self.message;
        let surface = if has(Defect::OneShapeForAll) { Surface::OpenAi } else { surface };
        let body = match surface {
            Surface::OpenAi | Surface::Rerank => json!({"error": {
                "message": message,
                "type": openai_type(self.status),
                "param": self.code.param(),
                "code": self.code.label(),
            }}),
            Surface::Anthropic => json!({
                "type": "error",
                "error": {"type": anthropic_type(self.status), "message": message},
                "request_id": request_id,
            }),
            Surface::Gemini => json!({"error": {
                "code": self.status.as_u16(),
                "message": message,
                "status": gemini_status(self.status),
            }}),
        };
        Bytes::from(body.to_string())
    }
}

/// OpenAI's own words for what its SDKs tell apart by status.
const fn openai_type(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        503 => "service_unavailable_error",
        _ => "server_error",
    }
}

const fn anthropic_type(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 => "overloaded_error",
        _ => "api_error",
    }
}

const fn gemini_status(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        400..=499 => "INVALID_ARGUMENT",
        _ => "INTERNAL",
    }
}

/// What ends a stream that broke after its head was sent: an error event in the stream's own format.
///
/// `at_boundary` says whether the bytes sent so far end with a whole event; after a half-sent one the event starts with
/// a blank line, so that a reader does not glue the two together.
#[must_use]
pub fn stream_error_event(surface: Surface, at_boundary: bool, denial: &Denial, request_id: &str) -> Bytes {
    let body = denial.body(surface, request_id);
    let mut event = Vec::with_capacity(body.len() + 32);
    if !at_boundary {
        event.extend_from_slice(b"\n\n");
    }
    if surface == Surface::Anthropic {
        event.extend_from_slice(b"event: error\n");
    }
    event.extend_from_slice(b"data: ");
    event.extend_from_slice(&body);
    event.extend_from_slice(b"\n\n");
    event.into()
}

#[cfg(test)]
#[path = "denial_tests.rs"]
mod tests;
