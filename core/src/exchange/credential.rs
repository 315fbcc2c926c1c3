//! Whose key a request shows, and whether it is good (worker-protocol 5.3 step 1; 9, Gate).

use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::uri::PathAndQuery;

use super::control::Node;
use super::denial::{Code, Denial};
use super::headers::{X_API_KEY, X_GOOG_API_KEY};
use super::holder::Holder;
use super::operator_keys::hash_bytes;
use super::passage::Carried;
use super::rules::KeyGate;
use super::surface::{Surface, decode};
use crate::access::key_store::KeyRecord;
use crate::defects::{Defect, has};
use crate::wire::key::TokenHash;

/// Seconds until a node without keys may have some.
const KEYS_RETRY_AFTER: u32 = 5;

/// The hash of a request's key: the first place that holds a key decides. `?key=` of a Gemini path is taken out of the
/// URI.
pub(super) fn take(passage: &mut Carried) -> Result<Option<TokenHash>, Denial> {
    let gemini = passage.trail.surface == Surface::Gemini;
    let in_query = if gemini { take_from_query(&mut passage.parts)? } else { None };
    let headers = &passage.parts.headers;
    let shown = bearer(headers)
        .or_else(|| plain(headers, &X_API_KEY))
        .or_else(|| plain(headers, &X_GOOG_API_KEY).filter(|_| gemini))
        .map(|key| passage.connection().hash(key));
    Ok(shown.or(in_query))
}

/// The operator key that a request shows, where other credentials are good as well.
#[cfg(feature = "appproxy-legacy")]
pub(super) fn operator(passage: &mut Carried, node: Node<'_>) -> Result<Option<KeyRecord>, Denial> {
    let Some(hash) = take(passage)? else { return Ok(None) };
    let record = node.rules.operator_keys.judge(&hash, node.now.wall);
    record.map(|record| valid(record, node)).transpose()
}

/// Who the key makes of the request.
pub(super) fn judge(shown: Option<TokenHash>, node: Node<'_>) -> Result<Holder, Denial> {
    let gate = node.rules.key_gate;
    let Some(hash) = shown.filter(|_| gate != KeyGate::Open) else {
        return match gate {
            KeyGate::Open | KeyGate::Permissive => Ok(Holder::Anyone),
            KeyGate::Blocking | KeyGate::Published => Err(Denial::new(
                Code::MissingApiKey,
                "This request needs an API key. Send it as `Authorization: Bearer <key>` or `x-api-key`.",
            )),
        };
    };
    let wall = node.now.wall;
    if let Some(record) = node.rules.operator_keys.judge(&hash, wall) {
        return valid(record, node).map(Holder::Operator);
    }
    if gate == KeyGate::Published {
        if !node.view.keys_loaded() || !node.control.keys_fresh(node.now.moment) {
            return Err(Denial::new(Code::NotReady, "API keys cannot be checked at the moment. Try again shortly.")
                .retry_after(KEYS_RETRY_AFTER));
        }
        if let Some(record) = node.view.keys().judge(&hash, wall) {
            return valid(record, node).map(Holder::Published);
        }
    }
    Err(invalid())
}

fn invalid() -> Denial {
    Denial::new(Code::InvalidApiKey, "The API key is not valid. Check it, or ask for another.")
}

/// The same for a key that is known by its id alone. Looks through all of them: for people's questions.
pub(super) fn judge_named(key_id: Option<&str>, node: Node<'_>) -> Result<Holder, Denial> {
    let Some(id) = key_id.filter(|_| node.rules.key_gate != KeyGate::Open) else { return judge(None, node) };
    let operators = node.rules.operator_keys.table();
    let hash = operators.iter().chain(node.view.keys().iter()).find(|record| record.key_id().as_str() == id);
    // An id that nobody has is judged like a key that nobody has.
    let hash = hash.map_or(TokenHash([0; 32]), |record| *record.token_hash());
    judge(Some(hash), node)
}

/// The operator key of this id, where other credentials are good as well: for people's questions.
#[cfg(feature = "appproxy-legacy")]
pub(super) fn operator_named(id: &str, node: Node<'_>) -> Result<KeyRecord, Denial> {
    let record = node.rules.operator_keys.iter().find(|record| record.key_id().as_str() == id);
    record.map_or_else(|| Err(invalid()), |record| valid(record, node))
}

fn valid(record: &KeyRecord, node: Node<'_>) -> Result<KeyRecord, Denial> {
    if record.expired(node.now.wall) && !has(Defect::ExpiryIgnored) {
        Err(Denial::new(Code::ExpiredApiKey, "The API key has expired. Ask for another."))
    } else {
        Ok(record.clone())
    }
}

/// The token of `Authorization: Bearer`, the scheme in any case.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    // There is seldom a second line.
    let first = token_of(headers.get(AUTHORIZATION)?);
    first.or_else(|| headers.get_all(AUTHORIZATION).iter().skip(1).find_map(token_of))
}

fn token_of(value: &HeaderValue) -> Option<&[u8]> {
    let value = value.as_bytes();
    // Nearly all write it so.
    let token = value.strip_prefix(b"Bearer ").or_else(|| {
        let (scheme, token) = value.split_at_checked(6)?;
        let token = token.strip_prefix(b" ").or_else(|| token.strip_prefix(b"\t"))?;
        scheme.eq_ignore_ascii_case(b"bearer").then_some(token)
    });
    token.map(<[u8]>::trim_ascii).filter(|token| !token.is_empty())
}

fn plain<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a [u8]> {
    headers.get_all(name).iter().map(|value| value.as_bytes().trim_ascii()).find(|key| !key.is_empty())
}

/// Takes every `key` parameter out of the query; the first that is not empty is the key.
fn take_from_query(parts: &mut Parts) -> Result<Option<TokenHash>, Denial> {
    let Some(query) = parts.uri.query() else { return Ok(None) };
    let is_key = |pair: &str| {
        let name = pair.split_once('=').map_or(pair, |(name, _)| name);
        decode(name).is_some_and(|name| name == "key")
    };
    if !query.split('&').any(is_key) {
        return Ok(None);
    }
    let key = query
        .split('&')
        .filter(|pair| is_key(pair))
        .filter_map(|pair| decode(pair.split_once('=')?.1))
        .find(|value| !value.is_empty())
        .map(|value| hash_bytes(value.as_bytes()));
    let kept: Vec<&str> = query.split('&').filter(|pair| !is_key(pair)).collect();
    let path = parts.uri.path();
    let text = if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) };
    let unreadable =
        || Denial::new(Code::InvalidRequest, "The query of the request cannot be read. Check its address.");
    let mut uri = parts.uri.clone().into_parts();
    uri.path_and_query = Some(PathAndQuery::try_from(text).map_err(|_| unreadable())?);
    parts.uri = http::Uri::from_parts(uri).map_err(|_| unreadable())?;
    Ok(key)
}

#[cfg(test)]
#[cfg(feature = "appproxy-router")]
#[path = "credential_tests.rs"]
mod tests;
