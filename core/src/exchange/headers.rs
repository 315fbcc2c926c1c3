//! What headers pass, and which are ours (data-plane 3.8, 3.9).

use http::Uri;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::cors;
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
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit-requests");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining-requests");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset-requests");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Headers that mean one connection only, whatever `Connection` names.
const HOP_BY_HOP: [HeaderName; 9] = [
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

/// The client's request id when it is fit to be logged and passed on, else a new one.
pub(super) fn request_id(headers: &HeaderMap, draws: &mut Draws) -> HeaderValue {
    let mut given = headers.get_all(X_REQUEST_ID).iter();
    match (given.next(), given.next()) {
        (Some(id), None) if is_request_id(id.as_bytes()) => id.clone(),
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
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
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

/// Says that a WebSocket is asked for, or granted: what else means one connection only has been taken out.
pub(super) fn ask_upgrade(headers: &mut HeaderMap) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
}

/// Whether an answer takes up the WebSocket that was asked for.
pub(super) fn grants_upgrade(headers: &HeaderMap) -> bool {
    let mut protocols = headers.get_all(header::UPGRADE).iter();
    matches!((protocols.next(), protocols.next()), (Some(only), None) if only.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// What `Forwarding` adds to the request for the replica.
#[derive(Debug, Clone)]
pub(super) struct Forwarding {
    /// The peer's own address, as it is written, unless it is a unix socket.
    pub(super) peer: Option<HeaderValue>,
    /// Whether the peer's own `X-Forwarded-*` are believed.
    pub(super) trusted: bool,
    /// Whether the client's connection has TLS.
    pub(super) tls: bool,
    /// The host the client asked for.
    pub(super) host: Option<HeaderValue>,
}

/// Headers that a request for a replica has beside those of the client's that pass: the five of [`outbound`], its length, a
/// credential.
const ADDED: usize = 7;

/// Those of a client's headers that any replica may see, and ours; what depends on the replica comes later.
pub(super) fn outbound(
    asked: &HeaderMap,
    forwarding: &Forwarding,
    request_id: &HeaderValue,
    keep_credentials: bool,
) -> HeaderMap {
    // A map of its own: those of the client's are needed whole for a further attempt, and taking out costs as much as
    // putting in.
    let mut headers = HeaderMap::with_capacity(asked.len() + ADDED);
    let named = named_by_connection(asked);
    for (name, value) in asked {
        let passes = match Kind::of(name) {
            Kind::OfConnection => has(Defect::HopHeadersKept),
            Kind::OfRequest => false,
            Kind::Credential => keep_credentials || has(Defect::CredentialForwarded),
            Kind::Forwarded => forwarding.trusted,
            Kind::Other => !has(Defect::OddHeadersDropped) || value.as_bytes().is_ascii(),
        };
        if passes && !named.contains(name) {
            headers.append(name.clone(), value.clone());
        }
    }
    headers.insert(X_REQUEST_ID, request_id.clone());
    forward(&mut headers, forwarding);
    headers
}

/// What decides whether a client's header goes on to a replica.
enum Kind {
    /// It means one connection only.
    OfConnection,
    /// It is made anew for each request.
    OfRequest,
    Credential,
    Forwarded,
    Other,
}

impl Kind {
    fn of(name: &HeaderName) -> Self {
        match name.as_str() {
            "host" | "content-length" | "expect" | "x-request-id" => Self::OfRequest,
            "authorization" | "x-api-key" | "x-goog-api-key" => Self::Credential,
            "x-forwarded-for" | "x-forwarded-proto" | "x-forwarded-host" | "forwarded" => Self::Forwarded,
            _ if HOP_BY_HOP.contains(name) => Self::OfConnection,
            _ => Self::Other,
        }
    }
}

fn forward(headers: &mut HeaderMap, forwarding: &Forwarding) {
    if let Some(peer) = &forwarding.peer
        && let Some(value) = if forwarding.trusted { appended(headers, peer) } else { Some(peer.clone()) }
    {
        headers.insert(X_FORWARDED_FOR, value);
    }
    if !(forwarding.trusted && headers.contains_key(X_FORWARDED_PROTO)) {
        headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static(if forwarding.tls { "https" } else { "http" }));
    }
    if let Some(host) = &forwarding.host
        && !(forwarding.trusted && headers.contains_key(X_FORWARDED_HOST))
    {
        headers.insert(X_FORWARDED_HOST, host.clone());
    }
}

/// All lines of `X-Forwarded-For` and one more entry, as one line: some replicas read only one.
fn appended(headers: &HeaderMap, peer: &HeaderValue) -> Option<HeaderValue> {
    if !headers.contains_key(X_FORWARDED_FOR) {
        return Some(peer.clone());
    }
    let mut all = Vec::with_capacity(64);
    for line in headers.get_all(X_FORWARDED_FOR) {
        all.extend_from_slice(line.as_bytes());
        all.extend_from_slice(b", ");
    }
    all.extend_from_slice(peer.as_bytes());
    HeaderValue::from_bytes(&all).ok()
}

/// The value of `Content-Length`: the client's own where it says the same.
pub(super) fn content_length(asked: &HeaderMap, length: u64) -> HeaderValue {
    let same = |value: &&HeaderValue| match value.as_bytes() {
        // One spelling only: no sign, no zeros before it.
        digits @ [b'1'..=b'9', ..] => {
            let number = |sum: u64, digit: &u8| sum.checked_mul(10)?.checked_add(u64::from(digit.checked_sub(b'0')?));
            digits.iter().all(u8::is_ascii_digit) && digits.iter().try_fold(0, number) == Some(length)
        }
        digits => digits == b"0" && length == 0,
    };
    asked.get(header::CONTENT_LENGTH).filter(same).cloned().unwrap_or_else(|| length.into())
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
