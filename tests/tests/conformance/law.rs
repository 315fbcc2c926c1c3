//! A law: whatever the bytes are, and however they are cut up on the way, they arrive as they were sent, both ways.

use appproxy_tests::http::Connection;
use appproxy_tests::puppet::{Puppet, Visit};
use appproxy_tests::shell::Shell;
use appproxy_tests::wait::PATIENCE;
use appproxy_tests::world::World;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// How a body says where it ends.
#[derive(Debug, Clone, Copy)]
enum Framing {
    Length,
    Chunked,
    /// Answers only.
    Close,
}

/// A body and how it is sent: in chunks of these lengths, in writes of those, both over and over.
#[derive(Debug, Clone)]
struct Sent {
    kind: &'static str,
    body: Vec<u8>,
    framing: Framing,
    chunks: Vec<usize>,
    writes: Vec<usize>,
}

fn cuts(body: &[u8], lengths: &[usize]) -> Vec<Vec<u8>> {
    let mut rest = body;
    let mut pieces = Vec::new();
    for length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, more) = rest.split_at((*length).min(rest.len()));
        pieces.push(piece.to_vec());
        rest = more;
    }
    pieces
}

impl Sent {
    /// Head and body as one run of bytes, cut into writes.
    fn writes(&self, first: &str) -> Vec<Vec<u8>> {
        let mut bytes = format!("{first}\r\nContent-Type: {}\r\n", self.kind).into_bytes();
        match self.framing {
            Framing::Length => {
                bytes.extend(format!("Content-Length: {}\r\n\r\n", self.body.len()).into_bytes());
                bytes.extend(&self.body);
            }
            Framing::Close => {
                bytes.extend(b"\r\n");
                bytes.extend(&self.body);
            }
            Framing::Chunked => {
                bytes.extend(b"Transfer-Encoding: chunked\r\n\r\n");
                for chunk in cuts(&self.body, &self.chunks) {
                    bytes.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
                    bytes.extend(&chunk);
                    bytes.extend(b"\r\n");
                }
                bytes.extend(b"0\r\n\r\n");
            }
        }
        cuts(&bytes, &self.writes)
    }
}

fn lengths() -> impl Strategy<Value = Vec<usize>> {
    let length = prop_oneof![
        3 => 1..=40_usize, 3 => 41..=5_000_usize, 1 => Just(4_096_usize), 1 => Just(8_192_usize), 2 => 5_001..=70_000_usize
    ];
    proptest::collection::vec(length, 1..8)
}

/// Anything that is a request of the model `puppet`: JSON with odd spaces, escapes and characters, or a form with a file
/// of any bytes.
fn asked() -> impl Strategy<Value = Sent> {
    let space = "[ \t\r\n]{0,3}";
    let json = (space, space, "\\PC{0,60}", space, 0..40_000_usize).prop_map(|(a, b, text, c, more)| {
        let text = serde_json::to_string(&text).expect("a text");
        let body = format!(
            "{a}{{{b}\"t\"{c}:{text},\"model\"{a}:{b}\"puppet\"{c},\"\\u0078\":1e400,\"p\":\"{}\"}}{c}",
            "ü".repeat(more)
        );
        ("application/json", body.into_bytes())
    });
    let form = proptest::collection::vec(any::<u8>(), 0..60_000).prop_map(|file| {
        let mut body =
            b"--cut-here-8d1\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\npuppet\r\n--cut-here-8d1\r\n\
                        Content-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n"
                .to_vec();
        body.extend(file);
        body.extend(b"\r\n--cut-here-8d1--\r\n");
        ("multipart/form-data; boundary=cut-here-8d1", body)
    });
    let framing = prop_oneof![Just(Framing::Length), Just(Framing::Chunked)];
    (prop_oneof![json, form], framing, lengths(), lengths()).prop_map(|((kind, body), framing, chunks, writes)| Sent {
        kind,
        body,
        framing,
        chunks,
        writes,
    })
}

/// Events with comments, fields, and text of any language; or any bytes.
fn answered() -> impl Strategy<Value = Sent> {
    let line = prop_oneof![
        4 => "data: \\PC{0,80}\n", 1 => ":\\PC{0,20}\n", 1 => "event: [a-z]{1,9}\n", 2 => "\n", 1 => "\r\n\r\n", 1 => "id: [0-9]{1,5}\r"
    ];
    let events = proptest::collection::vec(line, 0..400)
        .prop_map(|lines| ("text/event-stream; charset=utf-8", lines.concat().into_bytes()));
    let bytes = proptest::collection::vec(any::<u8>(), 0..150_000).prop_map(|body| ("application/octet-stream", body));
    let framing = prop_oneof![Just(Framing::Length), Just(Framing::Chunked), Just(Framing::Close)];
    (prop_oneof![events, bytes], framing, lengths(), lengths())
        .prop_map(|((kind, body), framing, chunks, writes)| Sent { kind, body, framing, chunks, writes })
}

fn ask(world: &World, puppet: &Puppet, request: &Sent) -> (Connection, Visit) {
    let path = if request.kind.starts_with("multipart") { "/v1/audio/transcriptions" } else { "/v1/chat/completions" };
    let mut client = Connection::open(world.data(), PATIENCE).expect("the worker listens");
    let first = format!("POST {path} HTTP/1.1\r\nHost: w\r\nAuthorization: Bearer sk-all");
    for write in request.writes(&first) {
        client.send_raw(&write).expect("the worker takes it");
    }
    (client, puppet.visit())
}

pub(crate) fn bytes_arrive_as_they_were_sent_both_ways(shell: Shell) {
    let (world, puppet) = shell.setup().start_with_puppet();
    let mut runner = TestRunner::new(Config { cases: 96, failure_persistence: None, ..Config::default() });
    let law = runner.run(&(asked(), answered()), |(request, answer)| {
        let (mut client, mut visit) = ask(&world, &puppet, &request);
        prop_assert!(
            visit.body() == request.body,
            "{} bytes reached the replica of {}",
            visit.body().len(),
            request.body.len()
        );
        for write in answer.writes("HTTP/1.1 200 OK\r\nConnection: close") {
            visit.say(write);
        }
        // The end of a body without a length is the end of the connection.
        drop(visit);
        let got = client.answer().map_err(|e| TestCaseError::fail(format!("{:?} broke: {e}", answer.framing)))?;
        prop_assert_eq!(got.status(), 200, "{}", got.text());
        prop_assert!(got.body == answer.body, "{} bytes came of {}", got.body.len(), answer.body.len());
        prop_assert_eq!(got.head.header("content-type"), Some(answer.kind));
        Ok(())
    });
    if let Err(e) = law {
        // The bytes themselves would fill the screen.
        let text = e.to_string();
        panic!("{}", text.chars().take(600).collect::<String>());
    }
    assert!(!puppet.was_visited(), "each request went out once");
}
