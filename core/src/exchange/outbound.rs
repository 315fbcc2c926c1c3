//! The request for one replica (data-plane 3.2, 3.7, 3.9).

use bytes::Bytes;
use http::Request;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, HeaderMap};
use http::uri::PathAndQuery;

use super::admitted::{Admitted, Streamed};
use super::gemini;
use super::headers::{self, X_API_KEY, X_GOOG_API_KEY};
use super::multipart;
use super::peek::Spelling;
use super::rules::{ExchangeRules, RewriteModel};
use super::surface::{Destination, Surface, encode_segment};
use crate::desired::{Backend, BackendKind, Target};

/// A body in up to three frames, none of them copied: before the model's name, the new name, and after it.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload {
    frames: [Bytes; 3],
}

impl core::fmt::Debug for Payload {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Payload({} bytes)", self.len())
    }
}

impl Payload {
    pub(super) const fn whole(body: Bytes) -> Self {
        Self { frames: [body, Bytes::new(), Bytes::new()] }
    }

    /// The frames in order; empty ones may be among them.
    #[must_use]
    pub fn into_frames(self) -> [Bytes; 3] {
        self.frames
    }

    /// Bytes of all frames.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frames.iter().map(Bytes::len).sum()
    }

    /// Whether there is not one byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Whether a backend of this kind has the paths of a surface (data-plane 5).
pub(super) const fn speaks(kind: BackendKind, surface: Surface) -> bool {
    match kind {
        BackendKind::Vllm | BackendKind::Generic => !matches!(surface, Surface::Gemini),
        BackendKind::OpenAi => matches!(surface, Surface::OpenAi),
        BackendKind::Anthropic => matches!(surface, Surface::Anthropic),
        BackendKind::Gemini => matches!(surface, Surface::Gemini),
    }
}

/// The whole request, with an absolute URI; `None` when the backend's address makes none.
pub(super) fn build(
    admitted: &Admitted,
    backend: &Backend,
    target: &Target,
    rules: &ExchangeRules,
) -> Option<Request<Payload>> {
    let parts = &admitted.passage.parts;
    let new_name = replacement(admitted, backend, rules);
    let uri = backend.uri_at(target, &path_for(admitted, new_name)?)?;
    let payload = payload(admitted, new_name);

    let mut headers = admitted.passage.outbound(rules);
    headers.insert(HOST, target.host());
    let length = match admitted.streamed {
        Some(Streamed { length }) => length,
        None if payload.is_empty() && parts.method.is_safe() => None,
        None => u64::try_from(payload.len()).ok(),
    };
    // Without one it goes in chunks, which is for the shell to say.
    if let Some(length) = length {
        headers.insert(CONTENT_LENGTH, headers::content_length(&parts.headers, length));
    }
    // What opens one circuit is no business of whatever stands in for it.
    if admitted.passage.trail.fallback.is_some() {
        strip_credentials(&mut headers);
    }
    credential(&mut headers, backend);

    let mut request = Request::new(payload);
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    Some(request)
}

/// The name to put in the place of the one asked for: the one that is served, or the backend's own when it is known not to
/// list the one asked for.
fn replacement<'a>(admitted: &'a Admitted, backend: &'a Backend, rules: &ExchangeRules) -> Option<&'a str> {
    let own = match rules.rewrite_model {
        RewriteModel::Auto => backend.own_name(&admitted.model),
        RewriteModel::Never => None,
    };
    let served = || admitted.asked.as_ref().is_some_and(|asked| *asked != admitted.model).then_some(&admitted.model);
    own.or_else(served).map(|name| &**name)
}

fn payload(admitted: &Admitted, new_name: Option<&str>) -> Payload {
    let body = &admitted.body;
    if let (false, Some(name)) = (admitted.named.is_empty(), new_name) {
        return Payload::whole(gemini::renamed(body, &admitted.named, name));
    }
    let (Some(place), Some(name)) = (&admitted.place, new_name) else { return Payload::whole(body.clone()) };
    if place.span.start > place.span.end || place.span.end > body.len() {
        return Payload::whole(body.clone());
    }
    let name = match (place.spelling, &admitted.passage.boundary) {
        (Spelling::Part, Some(boundary)) => multipart::model_part(boundary, name),
        (spelling, _) => spelling.write(name),
    };
    Payload { frames: [body.slice(..place.span.start), Bytes::from(name), body.slice(place.span.end..)] }
}

fn path_for(admitted: &Admitted, new_name: Option<&str>) -> Option<PathAndQuery> {
    let uri = &admitted.passage.parts.uri;
    match (&admitted.passage.destination, new_name) {
        (Destination::PathModel { verb, .. }, Some(name)) => {
            let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
            PathAndQuery::try_from(format!("/v1beta/models/{}{verb}{query}", encode_segment(name))).ok()
        }
        _ => uri.path_and_query().cloned(),
    }
}

/// A configured credential replaces the client's.
fn credential(headers: &mut HeaderMap, backend: &Backend) {
    if backend.credential.is_some() {
        strip_credentials(headers);
    }
    headers.extend(backend.credential_header());
}

fn strip_credentials(headers: &mut HeaderMap) {
    for name in [AUTHORIZATION, X_API_KEY, X_GOOG_API_KEY] {
        headers.remove(name);
    }
}

#[cfg(test)]
#[cfg(feature = "appproxy-router")]
#[path = "outbound_tests.rs"]
mod tests;
