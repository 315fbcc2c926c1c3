//! What comes from clients and replicas: a request's head, a body's model, a stream's bytes.

use core::fmt;

use appproxy_core::exchange::selection::Selection;
use appproxy_core::exchange::{
    Admitted, Answer, Attempt, Chosen, Committed, EndOfBody, Gate, Head, Payload, RetryBudget, multipart, peek,
};
use appproxy_core::seed::{Draws, Seed};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri, header};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::world::{KEY, OPERATOR, WORLD, connection};

/// A request: the first byte is where it comes from, then lines (`METHOD path`, headers as `name: value`, an empty line),
/// then the body.
pub fn request_head(bytes: &[u8]) {
    drop(sent_to(bytes));
}

/// The same; the backend to which it is sent.
pub fn sent_to(bytes: &[u8]) -> Option<String> {
    let (&from, rest) = bytes.split_first()?;
    let (head, body) = cut(rest, b"\n\n");
    let parts = parts_of(head)?;
    let (hosts, lengths) = (values(&parts.headers, &header::HOST), values(&parts.headers, &header::CONTENT_LENGTH));
    let coded = parts.headers.contains_key(header::TRANSFER_ENCODING);
    let said = sent(parts.clone(), from, body);
    assert_eq!(said, sent(parts, from, body), "the same request has the same end");
    let sent = said.ok()?;
    assert!(hosts == 1, "let through with {hosts} Host lines");
    assert!(lengths == 0 || !coded, "let through with two ways to tell its length");
    let holds = |key: &str| rest.windows(key.len()).any(|window| window == key.as_bytes());
    assert!(holds(KEY) || holds(OPERATOR), "let through without a key");
    let published = WORLD.view.backends().any(|backend| *backend.name == *sent.backend);
    assert!(published, "sent to {}", sent.backend);
    for name in [header::AUTHORIZATION.as_str(), "x-api-key", "x-goog-api-key", "connection", "te", "upgrade"] {
        assert!(!sent.headers.contains_key(name), "{name} is not for replicas");
    }
    assert_eq!(values(&sent.headers, &header::HOST), 1);
    Some(sent.backend)
}

/// What a replica gets to see.
#[derive(Debug, PartialEq)]
struct Sent {
    backend: String,
    uri: Uri,
    headers: HeaderMap,
    body: Vec<u8>,
}

/// The request, all the way to its first attempt; or the status of the answer made here.
fn sent(parts: Parts, from: u8, body: &[u8]) -> Result<Sent, (u16, Bytes)> {
    let admitted = admit(parts, from, body).map_err(|answer| refused(&answer))?;
    let (attempt, request) = first_attempt(admitted).map_err(|answer| refused(&answer))?;
    let backend = attempt.backend().name.to_string();
    drop(attempt.gone());
    let (head, payload) = request.into_parts();
    Ok(Sent { backend, uri: head.uri, headers: head.headers, body: payload.into_frames().concat() })
}

fn first_attempt(admitted: Admitted) -> Result<(Attempt, Request<Payload>), Box<Answer>> {
    let choosing = admitted.begin(&mut RetryBudget::default(), WORLD.node());
    match choosing.choose(&mut Selection::new(), WORLD.node())? {
        Chosen::Send(attempt) => {
            let request = attempt.request();
            written_alike(&attempt, &request);
            Ok((attempt, request))
        }
        Chosen::Elsewhere(_) | Chosen::Queue(_) => panic!("no chains and no queues here"),
    }
}

/// The head as it is written says what the request says, and is one head.
fn written_alike(attempt: &Attempt, request: &Request<Payload>) {
    let mut written = Vec::new();
    attempt.write_head(request.body(), &mut written);
    let lines = written.strip_suffix(b"\r\n\r\n").expect("an empty line ends it");
    let mut lines: Vec<&[u8]> = lines.split(|byte| *byte == b'\n').collect();
    lines.iter_mut().rev().skip(1).for_each(|line| *line = line.strip_suffix(b"\r").expect("a line ends in CR LF"));
    let first = lines.remove(0);
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    assert_eq!(first, format!("{} {path} HTTP/1.1", request.method()).as_bytes());
    let said =
        |(name, value): (&HeaderName, &HeaderValue)| [name.as_str().as_bytes(), b": ", value.as_bytes()].concat();
    let mut wanted: Vec<Vec<u8>> = request.headers().iter().map(said).collect();
    if attempt.is_chunked() {
        wanted.push(b"transfer-encoding: chunked".to_vec());
    }
    lines.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(lines, wanted);
}

fn admit(parts: Parts, from: u8, body: &[u8]) -> Result<Admitted, Box<Answer>> {
    let mut draws = Draws::new(Seed::from_number(1));
    let gate = Gate::open(parts, connection(from), WORLD.node(), &mut draws)?;
    assert!(gate.ledger_key().is_none(), "no key here has a limit");
    gate.pass(None, WORLD.node())?.route(Bytes::copy_from_slice(body), WORLD.node())
}

fn refused(answer: &Answer) -> (u16, Bytes) {
    let status = answer.status.as_u16();
    let own = [200, 204, 400, 401, 403, 404, 405, 413, 415, 429, 501, 503];
    assert!(own.contains(&status), "{status} is no answer of the gate");
    for key in [KEY, OPERATOR] {
        // A request's own id comes back, whatever its client wrote there.
        let own = answer.outcome.trail.request_id().contains(key);
        let told = !own && answer.body.windows(key.len()).any(|window| window == key.as_bytes());
        assert!(!told || status == 404 || status == 403, "an answer that quotes a key: {:?}", answer.body);
    }
    (status, answer.body.clone())
}

fn parts_of(head: &[u8]) -> Option<Parts> {
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = core::str::from_utf8(lines.next()?).ok()?;
    let (method, target) = first.split_once(' ')?;
    let mut parts = Request::builder()
        .method(Method::from_bytes(method.as_bytes()).ok()?)
        .uri(target.parse::<Uri>().ok()?)
        .body(())
        .ok()?
        .into_parts()
        .0;
    for line in lines {
        let (name, value) = cut(line, b":");
        let value = HeaderValue::from_bytes(value.trim_ascii()).ok()?;
        parts.headers.append(HeaderName::from_bytes(name).ok()?, value);
    }
    Some(parts)
}

fn values(headers: &HeaderMap, name: &HeaderName) -> usize {
    headers.get_all(name).iter().count()
}

/// What stands before and after the first `mark`; nothing after it when there is none.
fn cut<'a>(bytes: &'a [u8], mark: &[u8]) -> (&'a [u8], &'a [u8]) {
    match bytes.windows(mark.len()).position(|window| window == mark) {
        Some(at) => bytes.split_at_checked(at).map_or((bytes, &[]), |(before, after)| (before, &after[mark.len()..])),
        None => (bytes, &[]),
    }
}

/// Every top-level member, as serde_json reads them one after the other.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Members;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(All)
    }
}

/// What serde_json alone says of a body: its model and whether a stream is asked for.
fn by_serde(bytes: &[u8]) -> Option<(String, bool)> {
    let Members(members) = serde_json::from_slice(bytes).ok()?;
    core::str::from_utf8(bytes).ok()?;
    let only = |name: &str| {
        let mut all = members.iter().filter(|(key, _)| key == name).map(|(_, value)| value.get());
        let first = all.next();
        all.next().is_none().then_some(first)
    };
    let model: String = serde_json::from_str(only("model")??).ok()?;
    let stream = only("stream")? == Some("true");
    (!model.is_empty()).then_some((model, stream))
}

/// The bytes as a JSON body; and, behind a first line with the boundary, as a form.
pub fn model_peek(bytes: &[u8]) {
    let ours = peek::json(bytes).ok().map(|found| (found.model.into_owned(), found.stream));
    assert_eq!(ours, by_serde(bytes), "serde_json reads it otherwise");
    if let Ok(found) = peek::json(bytes) {
        serde_json::from_slice::<&RawValue>(bytes).expect("what is let through is JSON");
        match serde_json::from_slice::<serde_json::Value>(bytes) {
            Ok(body) => {
                assert_eq!(body["model"], *found.model, "another reader sees another model");
                assert_eq!(body["stream"] == true, found.stream, "another reader sees another kind of answer");
            }
            // JSON has no bounds for numbers, and half a surrogate pair is JSON: a reader that makes values of them has bounds.
            Err(error) => {
                let said = error.to_string();
                let bounds = ["number out of range", "lone leading surrogate", "unexpected end of hex escape"];
                assert!(bounds.iter().any(|bound| said.starts_with(bound)), "{error}");
            }
        }
        renamed(bytes, &found, |body| peek::json(body).expect("still JSON"));
    }
    let (boundary, form) = cut(bytes, b"\n");
    let boundary = String::from_utf8_lossy(boundary);
    let kind = format!("multipart/form-data; boundary=\"{}\"", boundary.replace('\\', "\\\\").replace('"', "\\\""));
    if let Ok(Some(read)) = multipart::boundary(kind.as_bytes()) {
        assert_eq!(read, boundary, "a quoted boundary is read as it is");
        if let Ok(found) = multipart::peek(form, &read) {
            renamed(form, &found, |body| multipart::peek(body, &read).expect("still a form"));
        }
    }
    drop(multipart::boundary(bytes));
}

/// With another name in its place the body asks for that model, and for the rest of what it did.
fn renamed(body: &[u8], found: &peek::Peek<'_>, peek: impl Fn(&[u8]) -> peek::Peek<'_>) {
    let other = "a \"name\"\\한";
    let mut changed = body[..found.span.start].to_vec();
    changed.extend_from_slice(found.spelling.write(other).as_bytes());
    changed.extend_from_slice(&body[found.span.end..]);
    let again = peek(&changed);
    assert_eq!((&*again.model, again.stream, again.span.start), (other, found.stream, found.span.start));
    assert_eq!(body.len() - found.span.end, changed.len() - again.span.end, "the rest stays");
}

/// The bytes as a stream's body, cut into chunks whose lengths its first 8 bytes give.
pub fn stream_boundary(bytes: &[u8]) {
    let Some((lengths, body)) = bytes.split_at_checked(8) else { return };
    let last_words = |ends: &mut dyn Iterator<Item = usize>| {
        let mut committed = committed();
        let mut rest = body;
        for length in ends {
            let (chunk, further) = rest.split_at(length.min(rest.len()));
            committed.passed(chunk);
            rest = further;
        }
        committed.passed(rest);
        assert_eq!(committed.last_words(EndOfBody::Complete), None);
        let words = committed.last_words(EndOfBody::UpstreamBroke).expect("an event stream has last words");
        assert_eq!(committed.ended(EndOfBody::UpstreamBroke).body_bytes, body.len() as u64);
        words
    };
    let words = last_words(&mut core::iter::empty());
    let chunks = lengths.iter().cycle().take(body.len() + 8).map(|length| usize::from(length % 7));
    assert_eq!(words, last_words(&mut chunks.into_iter()), "chunks do not matter");
    let alone = events(&words);
    assert_eq!(alone.len(), 1, "last words are one event: {words:?}");
    assert!(alone[0].contains("upstream_error"), "{alone:?}");
    let whole = events(&[body, &words].concat());
    assert_eq!(whole.last(), alone.last(), "a client reads the error as an event of its own");
    let before = events(&[body, b"\n\n"].concat());
    assert_eq!(whole[..whole.len() - 1], before, "what came before is what it was");
}

/// An event stream that has begun.
fn committed() -> Committed {
    let head =
        format!("POST /v1/chat/completions\nhost: h\nauthorization: Bearer {KEY}\ncontent-type: application/json");
    let parts = parts_of(head.as_bytes()).expect("a head");
    let admitted = admit(parts, 0, br#"{"model":"m","stream":true}"#).expect("let through");
    let (attempt, _) = first_attempt(admitted).expect("a replica");
    let reply = Response::builder().header(header::CONTENT_TYPE, "text/event-stream").body(()).expect("a head");
    match attempt.head(reply.into_parts().0, &mut RetryBudget::default(), WORLD.node()).expect("an answer") {
        Head::Commit(committed, _) => committed,
        Head::Again(_) | Head::Explain(_) => panic!("an answer of 200 is the last"),
    }
}

/// The data of every event, as the specification of server-sent events reads a stream: lines end with CRLF, LF or CR,
/// an empty line ends an event, and one without data is none.
fn events(stream: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(stream);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text).replace("\r\n", "\n").replace('\r', "\n");
    let (mut events, mut data) = (Vec::new(), Vec::new());
    let Some((whole_lines, _)) = text.rsplit_once('\n') else { return events };
    for line in whole_lines.split('\n') {
        if line.is_empty() {
            if !data.is_empty() {
                events.push(core::mem::take(&mut data).join("\n"));
            }
        } else if let Some(value) = line.strip_prefix("data:") {
            data.push(value.strip_prefix(' ').unwrap_or(value).to_owned());
        } else if line == "data" {
            data.push(String::new());
        }
    }
    events
}
