//! What reaches the replica, what comes back, and who is asked next when nobody answers.

use std::collections::BTreeSet;

use appproxy_fixtures::replica::{Behaviour, Failing};
use appproxy_tests::http::{Connection, Request};
use appproxy_tests::puppet::{Puppet, Visit};
use appproxy_tests::shell::Shell;
use appproxy_tests::wait::{self, PATIENCE};
use appproxy_tests::world::{World, chat};
use serde_json::{Value, json};

/// Sends raw bytes to the worker and takes the request at the puppet.
fn forwarded(world: &World, puppet: &Puppet, raw: &[u8]) -> (Connection, Visit) {
    let mut client = Connection::open(world.data(), PATIENCE).expect("the worker listens");
    client.send_raw(raw).expect("it is taken");
    (client, puppet.visit())
}

const BODY: &str = r#"{ "messages": [], "model":"puppet" , "odd": [1e999, "\ud83e\udd80"] }"#;

fn head(extra: &str) -> Vec<u8> {
    let length = BODY.len();
    format!(
        "POST /v1/chat/completions?x=%20y HTTP/1.1\r\nHost: router.test:8443\r\nAuthorization: Bearer sk-all\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n{extra}\r\n{BODY}"
    )
    .into_bytes()
}

pub(crate) fn s7_headers_that_mean_one_connection_stop_here_and_no_credential_goes_further(shell: Shell) {
    let (world, puppet) = shell.setup().start_with_puppet();
    let extra = "Connection: close, X-Debug\r\nX-Debug: 1\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\nUpgrade: h2c\r\n\
                 Proxy-Authorization: Basic c2VjcmV0\r\nProxy-Connection: keep-alive\r\nX-Api-Key: sk-other\r\n\
                 X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.test\r\n\
                 X-Request-Id: my-id-1\r\nX-Twice: a\r\nX-Twice: b\r\nAccept-Encoding: gzip\r\n";
    let (mut client, mut visit) = forwarded(&world, &puppet, &head(extra));
    assert_eq!(visit.line(), "POST /v1/chat/completions?x=%20y HTTP/1.1");
    assert_eq!(visit.body(), BODY.as_bytes(), "byte for byte");
    for gone in [
        "x-debug",
        "keep-alive",
        "te",
        "upgrade",
        "proxy-authorization",
        "proxy-connection",
        "authorization",
        "x-api-key",
        "transfer-encoding",
    ] {
        assert_eq!(visit.headers(gone), Vec::<String>::new(), "{gone}");
    }
    assert!(!visit.head().contains("sk-"), "{}", visit.head());
    assert_eq!(visit.header("host").unwrap(), format!("127.0.0.1:{}", puppet.port()));
    assert_eq!(visit.headers("x-forwarded-for"), ["127.0.0.1"], "nobody trusted said otherwise");
    assert_eq!(visit.headers("x-forwarded-proto"), ["http"]);
    assert_eq!(visit.headers("x-forwarded-host"), ["router.test:8443"]);
    assert_eq!(visit.headers("x-request-id"), ["my-id-1"]);
    assert_eq!(visit.headers("x-twice"), ["a", "b"]);
    assert_eq!(visit.headers("content-length"), [BODY.len().to_string()]);

    visit.say(
        "HTTP/1.1 201 Made\r\nConnection: X-Private, close\r\nX-Private: 1\r\nKeep-Alive: timeout=5\r\n\
         Set-Cookie: a=1\r\nX-Between: x\r\nSet-Cookie: b=2\r\nX-Appproxy-Backend: forged\r\nContent-Length: 2\r\n\r\n{}",
    );
    let answer = client.answer().unwrap();
    assert_eq!((answer.status(), answer.text().as_str()), (201, "{}"));
    assert_eq!(answer.head.headers("set-cookie").collect::<Vec<_>>(), ["a=1", "b=2"]);
    for gone in ["x-private", "keep-alive"] {
        assert_eq!(answer.head.header(gone), None, "{gone}");
    }
    assert_eq!(answer.head.header("x-request-id"), Some("my-id-1"));
    assert_eq!(answer.head.header("x-appproxy-model"), Some("puppet"));
    let backends: Vec<&str> = answer.head.headers("x-appproxy-backend").collect();
    assert!(
        matches!(backends[..], [name] if name.starts_with("appproxy-00000000-0000-4000-8000-000000000009-r")),
        "{backends:?}"
    );

    // Behind a proxy of ours its word is taken, and the chain grows.
    let (world, puppet) = shell.setup().server("trusted_proxies: [\"127.0.0.1\"]").start_with_puppet();
    let extra =
        "X-Forwarded-For: 203.0.113.9, 198.51.100.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: front.test\r\n";
    let (_client, visit) = forwarded(&world, &puppet, &head(extra));
    assert_eq!(visit.headers("x-forwarded-for").join(", "), "203.0.113.9, 198.51.100.1, 127.0.0.1");
    assert_eq!(
        (visit.headers("x-forwarded-proto"), visit.headers("x-forwarded-host")),
        (vec!["https".to_owned()], vec!["front.test".to_owned()])
    );
    assert_eq!(visit.headers("x-request-id").len(), 1, "made when there is none");
}

pub(crate) fn w4_bytes_beyond_ascii_in_headers_hurt_nobody(shell: Shell) {
    let (world, puppet) = shell.setup().start_with_puppet();
    let mut raw = head("X-Plain: 1\r\nX-Title: caf\r\n");
    let at = raw.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    for title in ["é".as_bytes(), &[0xe9]] {
        let mut bytes = raw[..at].to_vec();
        bytes.extend_from_slice(title);
        bytes.extend_from_slice(b"\r\nX-Two: a\r\nX-Two: \xe9");
        bytes.extend_from_slice(&raw[at..]);
        let (mut client, mut visit) = forwarded(&world, &puppet, &bytes);
        let latin: String = title.iter().map(|byte| char::from(*byte)).collect();
        assert_eq!(visit.headers("x-title"), [format!("caf{latin}")]);
        assert_eq!(visit.headers("x-two"), ["a", "\u{e9}"]);
        visit.say(
            b"HTTP/1.1 200 OK\r\nX-Answer: caf\xe9\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}".as_slice(),
        );
        let head = client.raw_to_end_after_head();
        assert!(head.windows(4).any(|w| w == b"caf\xe9"), "{}", String::from_utf8_lossy(&head));
    }
    // In a credential such bytes are simply no key.
    raw = b"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xe9\xff\r\n\r\n".to_vec();
    let mut client = Connection::open(world.data(), PATIENCE).unwrap();
    client.send_raw(&raw).unwrap();
    assert_eq!(client.answer().unwrap().status(), 401);
    assert_eq!(world.chat("sk-all", "chat").status(), 200);
}

/// Reads until the two-byte body has come; the connection may stay open.
trait RawAnswer {
    fn raw_to_end_after_head(&mut self) -> Vec<u8>;
}

impl RawAnswer for Connection {
    fn raw_to_end_after_head(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        while !all.ends_with(b"\r\n\r\n{}") {
            let piece = self.raw().expect("bytes");
            assert!(!piece.is_empty(), "closed after {}", String::from_utf8_lossy(&all));
            all.extend(piece);
        }
        all
    }
}

pub(crate) fn w3_odd_heads_and_bodies_are_refused_before_any_replica_sees_them(shell: Shell) {
    let (world, puppet) = shell.setup().start_with_puppet();
    let raw = |text: &str| {
        let mut client = Connection::open(world.data(), PATIENCE).unwrap();
        client.send_raw(text.as_bytes()).unwrap();
        let answer = client.answer().unwrap();
        (answer.status(), answer.text())
    };
    let both = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sk-all\r\nContent-Length: 4\r\n\
                Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_eq!(raw(both).0, 400, "both lengths at once");
    assert_eq!(raw("POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 0\r\n\r\n").0, 400);
    assert_eq!(raw("POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 0\r\n\r\n").0, 400, "no Host");

    let post = |body: &[u8]| {
        let request = Request::post_json("/v1/chat/completions", "").bearer("sk-all").body(body);
        let answer = world.send(&request);
        (answer.status(), answer.text())
    };
    for (body, code) in [
        (&b""[..], "invalid_json"),
        (b"[]", "invalid_json"),
        (b"{}", "missing_model"),
        (br#"{"model":null}"#, "invalid_model"),
        (br#"{"model":42}"#, "invalid_model"),
        (br#"{"model":["puppet"]}"#, "invalid_model"),
        (br#"{"model":""}"#, "invalid_model"),
        (br#"{"model":"puppet","#, "invalid_json"),
        (br#"{"model":"puppet","model":"chat"}"#, "invalid_json"),
        (br#"{"model":"puppet","stream":true,"stream":false}"#, "invalid_json"),
        (b"{\"model\":\"puppet\",\"x\":\"\xff\"}", "invalid_json"),
    ] {
        let (status, text) = post(body);
        assert_eq!(status, 400, "{}: {text}", String::from_utf8_lossy(body));
        assert!(text.contains(code), "{}: {text}", String::from_utf8_lossy(body));
    }
    let (status, text) = raw(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sk-all\r\nContent-Encoding: zz\r\n\
         Content-Length: 2\r\n\r\n{}",
    );
    assert!(status == 415 && text.contains("unsupported_encoding"), "{status} {text}");

    // A well-formed model that nobody knows, and one that is known and has nobody to serve it.
    assert_eq!(post(br#"{"model":"nowhere"}"#).0, 404);
    world.publish("idle", &[], &[]);
    let idle = world.chat("sk-all", "idle");
    assert_eq!((idle.status(), idle.head.header("retry-after").is_some()), (503, true), "{}", idle.text());

    for (method, path, status, code) in [
        ("GET", "/nowhere", 404, "unknown_path"),
        ("GET", "/metrics", 404, "unknown_path"),
        ("GET", "/admin/", 404, "unknown_path"),
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
        ("DELETE", "/v1/models", 405, "method_not_allowed"),
    ] {
        let answer = world.send(&Request::new(method, path).bearer("sk-all"));
        assert_eq!(answer.status(), status, "{method} {path}: {}", answer.text());
        assert!(answer.text().contains(code), "{method} {path}: {}", answer.text());
        assert_eq!(answer.head.header("allow").is_some(), status == 405, "{method} {path}");
    }

    assert!(!puppet.was_visited(), "nothing of this is a replica's business");
}

pub(crate) fn the_model_of_a_multipart_body_is_its_model_part_and_files_are_not_here_yet(shell: Shell) {
    let (world, puppet) = shell.setup().start_with_puppet();
    let part = |name: &str, more: &str, value: &[u8]| {
        let mut part = format!("--B\r\nContent-Disposition: form-data; name=\"{name}\"{more}\r\n\r\n").into_bytes();
        part.extend_from_slice(value);
        part.extend_from_slice(b"\r\n");
        part
    };
    let file = part("file", "; filename=\"model\"", b"\x00\xff\r\n-- name=\"model\"\r\n\r\nchat");
    let body = [file, part("model", "", b"puppet"), b"--B--\r\n".to_vec()].concat();
    let request = Request::new("POST", "/v1/audio/transcriptions").bearer("sk-all");
    let request = request.header("Content-Type", "multipart/form-data; boundary=B");
    let mut client = request.clone().body(body.clone()).open(world.data()).unwrap();
    let visit = puppet.visit();
    assert!(visit.body() == body, "byte for byte");
    visit.answer("{}");
    assert_eq!(client.answer().unwrap().status(), 200);
    // Two of them: a check and a replica could read different ones.
    let twice = [part("model", "", b"chat"), part("model", "", b"puppet"), b"--B--\r\n".to_vec()].concat();
    let refused = world.send(&request.body(twice));
    assert!(refused.status() == 400 && refused.text().contains("two `model` parts"), "{}", refused.text());
    assert!(!puppet.was_visited());

    let files = world.send(&Request::post_json("/v1/files", "{}").bearer("sk-all"));
    assert!(files.status() == 501 && files.text().contains("not_supported"), "{}", files.text());
}

pub(crate) fn a_replica_that_refuses_the_connection_is_passed_over(shell: Shell) {
    let mut world = shell.setup().start();
    let ports = [world.replica("one", &[]), world.replica("two", &[])];
    world.circuit(2, &ports);
    world.publish("two", &[], &[(2, 1.0)]);
    world.kill_replica(1);
    for _ in 0..10 {
        let answer = world.chat("sk-all", "two");
        assert_eq!(answer.status(), 200, "{}", answer.text());
        assert!(answer.text().contains("\"served_by\":\"two\""), "{}", answer.text());
    }
    assert!(world.metric("appproxy_retries_total") >= 3.0, "some met the dead one first, until it was left alone");
    world.kill_replica(2);
    for surface in ["/v1/chat/completions", "/v1/messages"] {
        let body = r#"{"model":"two","max_tokens":1,"messages":[]}"#;
        let answer = world.send(&Request::post_json(surface, body).bearer("sk-all"));
        assert_eq!(answer.status(), 502, "{}", answer.text());
        assert!(!answer.text().contains("127.0.0.1"), "no address for the client: {}", answer.text());
        assert!(answer.head.header("x-appproxy-backend").is_some(), "one was tried");
    }
    // Nobody to begin with.
    world.set_routes(2, &[]);
    wait::until("the empty list", PATIENCE, || world.chat("sk-all", "two").status() == 503);
    let answer = world.chat("sk-all", "two");
    assert!(
        answer.text().contains("model_unavailable") && answer.head.header("retry-after").is_some(),
        "{}",
        answer.text()
    );
    assert_eq!(answer.head.header("x-appproxy-backend"), None);
    world.revive_replica(1);
    world.set_routes(2, &ports[..1]);
    world.wait_chat("sk-all", "two", 200, PATIENCE);
}

pub(crate) fn r6_a_replicas_own_answers_keep_their_meaning(shell: Shell) {
    // A probe in between would take the replica out for what it is made to answer here.
    let world = shell.setup().sections("health_checks: {enabled: false}\n").start();
    let behave = |status, body: Option<&str>, content_type: Option<&str>, retry_after| {
        let fail = Failing {
            status,
            body: body.map(str::to_owned),
            content_type: content_type.map(str::to_owned),
            retry_after,
        };
        world.replicas[0].behave(Behaviour { fail: Some(fail), ..Behaviour::default() });
        world.chat("sk-all", "chat")
    };
    for status in [400, 401, 404, 422] {
        let answer = behave(status, None, None, None);
        assert_eq!(answer.status(), status);
        assert!(answer.text().contains("failing on purpose"), "{}", answer.text());
    }
    let answer = behave(429, None, None, Some(7));
    assert_eq!((answer.status(), answer.head.header("retry-after")), (429, Some("7")));
    let answer = behave(500, Some(r#"{"error":{"message":"the cause"}}"#), None, None);
    assert_eq!(answer.status(), 500);
    assert!(answer.text().contains("the cause"), "{}", answer.text());
    let answer = behave(503, Some("<html>10.0.0.5</html>"), Some("text/html"), Some(9));
    assert_eq!((answer.status(), answer.head.header("retry-after")), (503, Some("9")));
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    assert!(body["error"]["message"].is_string() && !answer.text().contains("10.0.0.5"), "{}", answer.text());
    world.replicas[0].behave(Behaviour { warming_up: true, ..Behaviour::default() });
    let answer = world.chat("sk-all", "chat");
    assert_eq!((answer.status(), answer.head.header("retry-after")), (503, Some("1")));
    // None of it is held against the replica.
    world.replicas[0].behave(Behaviour::default());
    assert_eq!(world.chat("sk-all", "chat").status(), 200);
}

pub(crate) fn several_listeners_and_a_unix_socket_are_one_worker(shell: Shell) {
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    let scratch = appproxy_tests::scratch::Scratch::new("socket").unwrap();
    let path = scratch.path().join("worker.sock");
    // A stale socket is in the way.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let setup =
        shell.setup().bind(&format!("unix:{}", path.display())).bind("127.0.0.1:0").server("socket_mode: \"0660\"");
    let mut world = setup.start();
    world.key("here", "sk-here", json!({"allowed_client_ips": ["0.0.0.0/0", "::/0"]}));
    let tcp: BTreeSet<String> =
        world.all_data().iter().filter(|address| !address.starts_with("unix:")).cloned().collect();
    assert_eq!((world.all_data().len(), tcp.len()), (3, 2), "{:?}", world.all_data());
    for address in &tcp {
        assert_eq!(chat("chat").bearer("sk-here").send(address).unwrap().status(), 200);
    }
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    let ask = |key: &str| {
        let mut socket = UnixStream::connect(&path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(&chat("chat").bearer(key).header("Connection", "close").bytes("router.test")).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(ask("sk-all").starts_with("HTTP/1.1 200 "), "{}", ask("sk-all"));
    // A peer without an address is outside of every list.
    assert!(ask("sk-here").starts_with("HTTP/1.1 403 "), "{}", ask("sk-here"));
    assert_eq!(world.worker().terminate(PATIENCE).code(), Some(0));
    assert!(!path.exists(), "its own socket is removed");
}

pub(crate) fn slow_heads_and_bodies_left_half_are_cut(shell: Shell) {
    let (world, puppet) =
        shell.setup().server("header_timeout: \"300ms\"").server("idle_timeout: \"600ms\"").start_with_puppet();
    let mut slow = Connection::open(world.data(), PATIENCE).unwrap();
    slow.send_raw(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n").unwrap();
    let _ = slow.raw_to_end().unwrap();
    let mut idle = Connection::open(world.data(), PATIENCE).unwrap();
    idle.send(&Request::get("/livez")).unwrap();
    assert_eq!(idle.answer().unwrap().status(), 200);
    let _ = idle.raw_to_end().unwrap();
    let mut half = Connection::open(world.data(), PATIENCE).unwrap();
    half.send_raw(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sk-all\r\nContent-Length: 90\r\n\r\n{\"model\":\"puppet\"").unwrap();
    let answer = half.answer().unwrap();
    assert_eq!(answer.status(), 408, "{}", answer.text());
    assert!(!puppet.was_visited());
    assert_eq!(world.chat("sk-all", "chat").status(), 200);
}
