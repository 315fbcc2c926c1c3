//! Any request, from its head to its record.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response, Uri};
use proptest::prelude::*;

use super::testing::World;
use super::{Answer, EndOfBody, FailStage, Failure, Head, Outcome};
use crate::access::address::{Peer, TrustedProxies};

const NAMES: [&str; 24] = [
    "authorization",
    "x-api-key",
    "x-goog-api-key",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-request-id",
    "connection",
    "content-type",
    "content-length",
    "content-encoding",
    "transfer-encoding",
    "host",
    "origin",
    "access-control-request-method",
    "te",
    "upgrade",
    "expect",
    "retry-after",
    "set-cookie",
    "cookie",
    "x-appproxy-model",
    "forwarded",
    "x-other",
];

const VALUES: [&str; 18] = [
    "Bearer all",
    "Bearer three",
    "bearer some",
    "all",
    "some",
    "office",
    "root",
    "nope",
    "close, x-other",
    "gzip",
    "multipart/form-data; boundary=XX",
    "application/json",
    "text/event-stream",
    "text/html",
    "5",
    "10.1.1.1, 8.8.8.8",
    "https://a.example.com",
    "*",
];

const PATHS: [&str; 14] = [
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/audio/transcriptions",
    "/rerank",
    "/v1/models",
    "/v1/models/org%2Fc",
    "/v1beta/models/gemini:generateContent?key=root&alt=sse",
    "/v1beta/models/m1:countTokens?key=all",
    "/v1/files/x",
    "/status",
    "/health?x",
    "*",
    "http://a.example.com/v1/completions?x",
    "/%ff%",
];

const BODIES: [&str; 8] = [
    "{\"model\":\"m1\",\"stream\":true}",
    "{\"model\":\"two\"}",
    "{\"model\":\"g\"}",
    "{\"model\":\"empty\"}",
    "{}",
    "",
    "--XX\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\ntwo\r\n--XX--\r\n",
    "{\"model\":\"claude\"}",
];

fn text(fixed: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        9 => prop::sample::select(fixed).prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..30),
    ]
}

fn headers() -> impl Strategy<Value = Vec<(&'static str, Vec<u8>)>> {
    prop::collection::vec((prop::sample::select(&NAMES[..]), text(&VALUES)), 0..4)
}

fn put(map: &mut http::HeaderMap, lines: &[(&'static str, Vec<u8>)]) {
    for (name, value) in lines {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            map.append(HeaderName::from_static(name), value);
        }
    }
}

#[derive(Debug, Clone)]
struct Asked {
    method: Method,
    path: Vec<u8>,
    lines: Vec<(&'static str, Vec<u8>)>,
    body: Vec<u8>,
    peer: Peer,
    failures: u8,
    stage: u8,
    status: u16,
    reply: Vec<(&'static str, Vec<u8>)>,
    chunks: Vec<Vec<u8>>,
}

fn asked() -> impl Strategy<Value = Asked> {
    let peers = vec![Peer::Unix, Peer::Ip([10, 0, 0, 1].into()), Peer::Ip([192, 0, 2, 1].into())];
    let methods = [vec![Method::POST; 9], vec![Method::GET, Method::OPTIONS, Method::HEAD]].concat();
    let head = (prop::sample::select(methods), text(&PATHS), headers(), text(&BODIES), prop::sample::select(peers));
    let failures = prop_oneof![3 => Just(0u8), 1 => 1u8..4];
    let fate = (failures, 0u8..8, 200u16..600, headers(), prop::collection::vec(text(&["data: x\n\n", "da"]), 0..3));
    (head, fate).prop_map(|((method, path, lines, body, peer), (failures, stage, status, reply, chunks))| Asked {
        method,
        path,
        lines,
        body,
        peer,
        failures,
        stage,
        status,
        reply,
        chunks,
    })
}

/// The whole way; `None` when no such request can be written down.
fn go(world: &mut World, asked: &Asked) -> Option<Result<Outcome, Box<Answer>>> {
    let mut parts = Request::new(()).into_parts().0;
    parts.method = asked.method.clone();
    parts.uri = Uri::try_from(asked.path.clone()).ok()?;
    put(&mut parts.headers, &asked.lines);
    parts.headers.entry("host").or_insert(HeaderValue::from_static("a.example.com"));
    world.peer = asked.peer;
    Some(world.pass(parts).and_then(|gated| {
        let admitted = gated.route(Bytes::from(asked.body.clone()), world.node())?;
        let (mut attempt, mut request) = world.begin(admitted)?;
        let stages = [FailStage::Connect, FailStage::Stale, FailStage::SendHead, FailStage::AwaitHead];
        let stage = stages[usize::from(asked.stage / 2)];
        let failure = if asked.stage.is_multiple_of(2) { Failure::Broke } else { Failure::TimedOut };
        for _ in 0..asked.failures {
            (attempt, request) = world.fail(attempt, stage, failure)?;
        }
        assert_eq!(request.headers()["content-length"], request.body().len().to_string());
        for name in ["x-goog-api-key", "connection", "te", "upgrade", "transfer-encoding"] {
            assert!(!request.headers().contains_key(name) || attempt.backend().credential.is_some(), "{name}");
        }
        assert!(!request.uri().to_string().contains("key="));
        let mut reply = Response::new(()).into_parts().0;
        reply.status = http::StatusCode::from_u16(asked.status).unwrap();
        put(&mut reply.headers, &asked.reply);
        let mut budget = core::mem::take(&mut world.budget);
        let (mut committed, head) = match attempt.head(reply, &mut budget, world.node())? {
            Head::Commit(committed, head) => (committed, head),
            Head::Explain(explained) => {
                let answer = explained.body(None);
                assert!(!matches!(asked.status, 429 | 503) || answer.headers.contains_key("retry-after"));
                return Err(answer);
            }
            Head::Again(choosing) => {
                assert!(matches!(asked.status, 502..=504));
                return Ok(choosing.gone());
            }
        };
        assert!(!head.headers.contains_key("connection"));
        assert!(head.headers.contains_key("x-request-id") && head.headers.contains_key("x-appproxy-backend"));
        assert!(!matches!(asked.status, 429 | 503) || head.headers.contains_key("retry-after"));
        for chunk in &asked.chunks {
            committed.passed(chunk);
        }
        let _ = committed.last_words(EndOfBody::UpstreamBroke);
        Ok(committed.ended(EndOfBody::Complete))
    }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Nothing panics, every answer of our own is whole, and the same requests get the same answers.
    #[test]
    fn any_request_ends_in_one_record(open in any::<bool>(), all in prop::collection::vec(asked(), 1..6)) {
        let worlds = [World::new(), World::new()].map(|mut world| {
            world.rules.trusted_proxies = TrustedProxies::parse(["10.0.0.0/8", "unix"]).unwrap();
            if open {
                world.rules.key_gate = super::KeyGate::Open;
            }
            world.rules.allowed_origins = super::AllowedOrigins::new(["*"]);
            world
        });
        let [mut one, mut two] = worlds;
        for asked in &all {
            let Some(ended) = go(&mut one, asked) else { continue };
            if let Err(answer) = &ended {
                prop_assert!(answer.headers.contains_key("x-request-id"));
                let waits = matches!(answer.status.as_u16(), 429 | 503);
                prop_assert!(!waits || answer.headers.contains_key("retry-after"), "{answer:?}");
                prop_assert_eq!(answer.outcome.status, answer.status);
                let json = serde_json::from_slice::<serde_json::Value>(&answer.body).is_ok();
                prop_assert!(json || answer.status == 204);
            }
            prop_assert_eq!(go(&mut two, asked), Some(ended));
        }
    }
}
