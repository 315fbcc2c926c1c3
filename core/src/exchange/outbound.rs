//! The request for one replica (data-plane 3.2, 3.7, 3.9).

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};
use http::uri::PathAndQuery;
use http::{Request, Uri};
use std::sync::Arc;

use super::admitted::{Streamed, Wanted};
use super::attempt::Attempt;
use super::gemini;
use super::headers::{self, ASK_UPGRADE};
use super::multipart;
use super::onward::{Lines, Onward, Own};
use super::passage::Passage;
use super::peek::Spelling;
use super::rules::{ExchangeRules, RewriteModel};
use super::surface::{Destination, Surface, encode_segment};
use crate::defects::{Defect, has};
use crate::desired::{Backend, BackendKind, Target};

/// Lines that a request for a replica has beside those of the client's that pass.
const ADDED: usize = 8;
/// Bytes of head to make room for at once.
const HEAD_ROOM: usize = 512;

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

/// Whether a request for this path can be made at all.
pub(super) fn can_ask(passage: &Passage, backend: &Backend, target: &Target, new_name: Option<&str>) -> bool {
    match path_as_it_came(passage, new_name) {
        Some(path) if backend.base_before(path).is_empty() => true,
        _ => uri(passage, backend, target, new_name).is_some(),
    }
}

/// The client's own path, unless the name in it is to be another.
fn path_as_it_came<'a>(passage: &'a Passage, new_name: Option<&str>) -> Option<&'a PathAndQuery> {
    let renamed = new_name.is_some() && matches!(passage.destination, Destination::PathModel { .. });
    passage.parts.uri.path_and_query().filter(|_| !renamed)
}

/// The path with the name in it that is served.
fn renamed_path(passage: &Passage, new_name: Option<&str>) -> Option<PathAndQuery> {
    let (Destination::PathModel { verb, .. }, Some(name)) = (&passage.destination, new_name) else { return None };
    let query = passage.parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    PathAndQuery::try_from(format!("/v1beta/models/{}{verb}{query}", encode_segment(name))).ok()
}

/// The absolute address; `None`: path and backend make none.
fn uri(passage: &Passage, backend: &Backend, target: &Target, new_name: Option<&str>) -> Option<Uri> {
    match path_as_it_came(passage, new_name) {
        Some(path) => backend.uri_at(target, path),
        None => backend.uri_at(target, &renamed_path(passage, new_name)?),
    }
}

impl Attempt {
    /// The replica's address as requests need it: what a connection is opened to, and what `Host` says.
    #[must_use]
    pub const fn target(&self) -> &Arc<Target> {
        &self.target
    }

    /// The request's body. Empty where there is none, and where it goes on as it comes, which whoever called
    /// [`Gated::stream`](super::Gated::stream) knows.
    #[must_use]
    pub fn payload(&self) -> Payload {
        payload(self.tries.passage(), self.new_name.as_deref())
    }

    /// Whether the body goes in chunks: it goes on as it comes, and nobody said how long it is.
    #[must_use]
    pub fn is_chunked(&self) -> bool {
        matches!(self.tries.passage().wanted.streamed, Some(Streamed { length: None }))
    }

    /// Writes the head of the request whose body is `payload`, as HTTP/1.1, the empty line included, behind what is in `to`.
    /// Where [`Self::is_chunked`] it says `transfer-encoding: chunked`, and to frame the chunks is the caller's.
    pub fn write_head(&self, payload: &Payload, to: &mut Vec<u8>) {
        let passage = self.tries.passage();
        to.reserve(HEAD_ROOM);
        to.extend_from_slice(passage.parts.method.as_str().as_bytes());
        to.push(b' ');
        match path_as_it_came(passage, self.new_name.as_deref()) {
            Some(path) => {
                to.extend_from_slice(self.backend.base_before(path).as_bytes());
                to.extend_from_slice(path.as_str().as_bytes());
            }
            None => {
                let uri = self.uri();
                let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
                to.extend_from_slice(path.as_bytes());
            }
        }
        to.extend_from_slice(b" HTTP/1.1\r\n");
        self.each_line(payload, to);
        if self.is_chunked() {
            to.extend_from_slice(b"transfer-encoding: chunked\r\n");
        }
        to.extend_from_slice(b"\r\n");
    }

    /// The whole request with an absolute URI, for an HTTP client that takes it so. Where [`Self::is_chunked`] its body goes
    /// in chunks, which is for the client to say; otherwise no `Content-Length` means no body.
    #[must_use]
    pub fn request(&self) -> Request<Payload> {
        let parts = &self.tries.passage().parts;
        let (payload, mut headers) = (self.payload(), HeaderMap::with_capacity(parts.headers.len() + ADDED));
        self.each_line(&payload, &mut headers);
        let mut request = Request::new(payload);
        request.method_mut().clone_from(&parts.method);
        *request.uri_mut() = self.uri();
        *request.headers_mut() = headers;
        request
    }

    fn uri(&self) -> Uri {
        // There is one, or the attempt would not have begun.
        uri(self.tries.passage(), &self.backend, &self.target, self.new_name.as_deref()).unwrap_or_default()
    }

    /// Every line of the head.
    fn each_line(&self, payload: &Payload, to: &mut impl Lines) {
        let Passage { parts, trail, facts, trusted, .. } = self.tries.passage();
        let connection = self.tries.connection();
        to.own(Own::Host, self.target.host());
        // What opens one circuit is no business of whatever stands in for it, and a configured credential replaces the
        // client's.
        let theirs = trail.fallback.is_none() && self.backend.credential.is_none();
        let onward = Onward {
            peer: connection.address(),
            trusted: *trusted,
            tls: connection.tls(),
            authority: if facts.hosts == 0 { authority_of(&parts.uri) } else { None },
            request_id: &trail.request_id,
            credentials: theirs && (self.forward_credentials || has(Defect::CredentialForwarded)),
            options: facts.options,
        };
        let asked_length = onward.each(&parts.headers, to);
        if self.tries.passage().asks_upgrade() {
            ASK_UPGRADE.iter().for_each(|(name, value)| to.line(name, value));
        }
        if let Some(length) = self.length(payload) {
            to.own(Own::Length, &headers::content_length(asked_length, length));
        }
        if let Some((name, value)) = self.backend.credential_header() {
            to.line(&name, &value);
        }
    }

    /// Bytes of the body; `None`: there is none to speak of, or nobody knows.
    fn length(&self, payload: &Payload) -> Option<u64> {
        let passage = self.tries.passage();
        match passage.wanted.streamed {
            Some(Streamed { length }) => length,
            None if payload.is_empty() && passage.parts.method.is_safe() => None,
            None => u64::try_from(payload.len()).ok(),
        }
    }
}

fn authority_of(uri: &Uri) -> Option<HeaderValue> {
    HeaderValue::from_str(uri.authority()?.as_str()).ok()
}

/// The name to put in the place of the one asked for: the one that is served, or the backend's own when it is known not to
/// list the one asked for.
pub(super) fn replacement(passage: &Passage, backend: &Backend, rules: &ExchangeRules) -> Option<Arc<str>> {
    let Wanted { asked, model, .. } = &passage.wanted;
    let own = match rules.rewrite_model {
        RewriteModel::Auto => backend.own_name(model),
        RewriteModel::Never => None,
    };
    let served = || asked.as_ref().is_some_and(|asked| asked != model).then_some(model);
    own.or_else(served).cloned()
}

fn payload(passage: &Passage, new_name: Option<&str>) -> Payload {
    let Wanted { body, named, place, .. } = &passage.wanted;
    if let (false, Some(name)) = (named.is_empty(), new_name) {
        return Payload::whole(gemini::renamed(body, named, name));
    }
    let (Some(place), Some(name)) = (place, new_name) else { return Payload::whole(body.clone()) };
    if place.span.start > place.span.end || place.span.end > body.len() {
        return Payload::whole(body.clone());
    }
    let name = match (place.spelling, &passage.boundary) {
        (Spelling::Part, Some(boundary)) => multipart::model_part(boundary, name),
        (spelling, _) => spelling.write(name),
    };
    Payload { frames: [body.slice(..place.span.start), Bytes::from(name), body.slice(place.span.end..)] }
}

#[cfg(test)]
#[cfg(feature = "appproxy-router")]
#[path = "outbound_tests.rs"]
mod tests;
