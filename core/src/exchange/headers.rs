//! What headers of an answer pass, and which are ours (data-plane 3.8, 3.9); those of a request: `onward`.

use http::Uri;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use std::borrow::Cow;

use super::cors;
use super::facts::Facts;
use super::outcome::Trail;
use crate::access::rate_ledger::RateFigures;
use crate::defects::{Defect, has};
use crate::desired::Backend;
pub(super) use crate::desired::{X_API_KEY, X_GOOG_API_KEY};
use crate::limits::REQUEST_ID_BYTES;
use crate::seed::Draws;

pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const X_MODEL: HeaderName = HeaderName::from_static("x-appproxy-model");
const X_BACKEND: HeaderName = HeaderName::from_static("x-appproxy-backend");
const X_FALLBACK: HeaderName = HeaderName::from_static("x-appproxy-fallback");
pub(super) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
pub(super) const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
pub(super) const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit-requests");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining-requests");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset-requests");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Headers that mean one connection only, whatever `Connection` names.
pub(super) const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The client's request id when it is fit to be logged and passed on, and the only one; else a new one.
pub(super) fn request_id(headers: &HeaderMap, facts: &Facts, draws: &mut Draws) -> HeaderValue {
    let only = if facts.request_ids == 1 { headers.get(X_REQUEST_ID) } else { None };
    match only {
        Some(id) if is_request_id(id.as_bytes()) => id.clone(),
        _ => {
            HeaderValue::from_maybe_shared(draws.uuid_text()).unwrap_or_else(|_| HeaderValue::from_static("unnumbered"))
        }
    }
}

fn is_request_id(bytes: &[u8]) -> bool {
    (1..=REQUEST_ID_BYTES).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
}

/// Removes what belongs to one connection: the fixed set and whatever `Connection` names.
pub(super) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    if has(Defect::HopHeadersKept) {
        return;
    }
    for name in named_by_connection(headers) {
        headers.remove(name);
    }
    remove_all(headers, &HOP_BY_HOP);
}

/// The headers that `Connection` says are for this connection only.
pub(super) fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    if has(Defect::HopHeadersKept) {
        return Vec::new();
    }
    let lines = headers.get_all(header::CONNECTION).iter();
    let names = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    // Mostly there is no such line, and nothing is allocated.
    names.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok()).collect()
}

/// Removes these, mostly absent, with one look at those that are there. At most 32 names.
fn remove_all(headers: &mut HeaderMap, names: &[HeaderName]) {
    let mut present = 0_u32;
    for there in headers.keys() {
        for (at, name) in names.iter().enumerate() {
            present |= u32::from(there == name) << at;
        }
    }
    for (at, name) in names.iter().enumerate() {
        if present & (1 << at) != 0 {
            headers.remove(name);
        }
    }
}

/// What asks for a WebSocket, and grants it.
pub(super) const ASK_UPGRADE: [(HeaderName, HeaderValue); 2] = [
    (header::CONNECTION, HeaderValue::from_static("upgrade")),
    (header::UPGRADE, HeaderValue::from_static("websocket")),
];

/// Whether an answer takes up the WebSocket that was asked for.
pub(super) fn grants_upgrade(headers: &HeaderMap) -> bool {
    let mut protocols = headers.get_all(header::UPGRADE).iter();
    matches!((protocols.next(), protocols.next()), (Some(only), None) if only.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// The value of `Content-Length`: the client's own where it says the same.
pub(super) fn content_length(asked: Option<&HeaderValue>, length: u64) -> Cow<'_, HeaderValue> {
    let same = |value: &&HeaderValue| match value.as_bytes() {
        // One spelling only: no sign, no zeros before it.
        digits @ [b'1'..=b'9', ..] => {
            let number = |sum: u64, digit: &u8| sum.checked_mul(10)?.checked_add(u64::from(digit.checked_sub(b'0')?));
            digits.iter().all(u8::is_ascii_digit) && digits.iter().try_fold(0, number) == Some(length)
        }
        digits => digits == b"0" && length == 0,
    };
    asked.filter(same).map_or_else(|| Cow::Owned(length.into()), Cow::Borrowed)
}

/// Turns a replica's headers into those the client gets: repeated ones stay, in order.
pub(super) fn inbound(headers: &mut HeaderMap, trail: &Trail, backend: &Backend) {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        // With both, the chunks are what counts (RFC 9112, 6.3): passed on, the length would cut the answer short.
        headers.remove(header::CONTENT_LENGTH);
    }
    strip_hop_by_hop(headers);
    // Addresses of machines behind us are nobody's business (R6).
    remove_all(headers, &[X_MODEL, X_BACKEND, X_FALLBACK, header::VIA, header::ALT_SVC]);
    for name in [header::LOCATION, header::CONTENT_LOCATION] {
        if let Some(place) = headers.get(&name).and_then(|value| within(value, backend)) {
            headers.insert(name, place);
        }
    }
    mark(headers, trail);
}

/// A place at the backend's own address, as one here; `None` for any other, which stays as it is.
fn within(value: &HeaderValue, backend: &Backend) -> Option<HeaderValue> {
    let uri = Uri::try_from(value.as_bytes()).ok()?;
    let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    let port = uri.port_u16().unwrap_or(usual);
    let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
    if !host.eq_ignore_ascii_case(&backend.host) || port != backend.port {
        return None;
    }
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let path = path.strip_prefix(&*backend.base_path).filter(|rest| rest.starts_with('/')).unwrap_or(path);
    HeaderValue::from_str(path).ok()
}

/// Whether a body is JSON.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    kind.eq_ignore_ascii_case(b"application/json") || kind.to_ascii_lowercase().ends_with(b"+json")
}

/// Adds what every answer carries: request id, model, backend, rate figures.
pub(super) fn mark(headers: &mut HeaderMap, trail: &Trail) {
    headers.insert(X_REQUEST_ID, trail.request_id.clone());
    if let Some(model) = trail.model.as_deref()
        && let Ok(value) = HeaderValue::from_bytes(model.as_bytes())
    {
        headers.insert(X_MODEL, value);
    }
    if let Some(backend) = trail.backend.as_deref()
        && let Ok(value) = HeaderValue::from_bytes(backend.as_bytes())
    {
        headers.insert(X_BACKEND, value);
    }
    if let Some(fallback) = trail.fallback.as_deref()
        && let Ok(value) = HeaderValue::from_bytes(fallback.as_bytes())
    {
        headers.insert(X_FALLBACK, value);
    }
    if let Some(grant) = &trail.cors {
        cors::mark(headers, grant);
    }
    if let Some(RateFigures { limit, remaining, reset }) = trail.rate {
        headers.insert(X_LIMIT, limit.into());
        headers.insert(X_REMAINING, remaining.into());
        headers.insert(X_RESET, reset.into());
    }
}

#[cfg(test)]
#[path = "headers_tests.rs"]
mod tests;
