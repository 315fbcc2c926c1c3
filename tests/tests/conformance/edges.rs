//! What stands at the edge of a connection: heads that two readers may read differently, clients that close one side or
//! both, bodies that stand still, TLS.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use appproxy_fixtures::coordinator::Faults;
use appproxy_tests::http::{Connection, Request};
use appproxy_tests::repository;
use appproxy_tests::scratch::Scratch;
use appproxy_tests::shell::Shell;
use appproxy_tests::wait::{self, PATIENCE};
use appproxy_tests::world::{chat, streamed_chat};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};

pub(crate) fn heads_that_two_readers_may_read_differently_are_refused(shell: Shell) {
    let (mut world, puppet) = shell.setup().start_with_puppet();
    let lines = [
        ("Content-Length: 4\r\nTransfer-Encoding: chunked", 400),
        ("Transfer-Encoding: chunked\r\nContent-Length: 4", 400),
        ("Transfer-Encoding: gzip, chunked", 501),
        ("Transfer-Encoding: chunked, gzip", 400),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 400),
        ("Transfer-Encoding : chunked", 400),
        ("Transfer-Encoding:\x0bchunked", 400),
        ("X: y\r\n Transfer-Encoding: chunked", 400),
        ("X: y\nTransfer-Encoding: chunked", 400),
        ("Content-Length: 4, 4", 400),
        ("Content-Length: +4", 400),
        ("Content-Length: 4\r\nContent-Length: 5", 400),
    ];
    for (path, shape) in [("/v1/chat/completions", "\"code\":"), ("/v1/messages", "\"type\":\"error\"")] {
        for (lines, status) in lines {
            let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sk-all\r\n{lines}\r\n\r\n");
            let mut client = Connection::open(world.data(), PATIENCE).unwrap();
            client.send_raw(format!("{head}0\r\n\r\n").as_bytes()).unwrap();
            let answer = client.answer().unwrap_or_else(|e| panic!("{lines:?}: {e}"));
            assert_eq!(answer.status(), status, "{lines:?}: {}", answer.text());
            assert!(answer.text().contains(shape), "{lines:?}: {}", answer.text());
            assert!(answer.head.header("x-request-id").is_some());
            assert_eq!(client.raw().unwrap(), b"", "nothing more is read of it");
        }
    }
    assert!(!puppet.was_visited());
    assert_eq!(world.metric("appproxy_connections_cut_total{why=\"bad_head\"}"), 24.0);
    let line = world.worker().log().wait_for("path=\"/v1/messages\"", PATIENCE);
    assert!(line.contains("status=400") || line.contains("status=501"), "{line}");
}

pub(crate) fn a_bad_head_behind_a_good_request_does_not_cost_its_answer(shell: Shell) {
    let (world, puppet) = shell.setup().start_with_puppet();
    let body = json!({"model": "puppet", "messages": []}).to_string();
    let good = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sk-all\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let bad = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n";
    let mut client = Connection::open(world.data(), PATIENCE).unwrap();
    client.send_raw(format!("{good}{bad}").as_bytes()).unwrap();
    let visit = puppet.visit();
    assert_eq!(visit.body(), body.as_bytes());
    visit.answer(r#"{"good":true}"#);
    let answer = client.answer().unwrap();
    assert_eq!((answer.status(), answer.text().as_str()), (200, r#"{"good":true}"#));
    assert_eq!(client.answer().unwrap().status(), 400);
    assert_eq!(client.raw().unwrap(), b"");
    // What a body holds is no head, however much it looks like one.
    let body = json!({"model": "puppet", "messages": [bad]}).to_string();
    let mut client = Request::post_json("/v1/chat/completions", &body).bearer("sk-all").open(world.data()).unwrap();
    puppet.visit().answer("{}");
    assert_eq!(client.answer().unwrap().status(), 200);
}

pub(crate) fn a_client_that_closes_its_side_gets_its_answer(shell: Shell) {
    let (world, puppet) = shell.setup().start_with_puppet();
    let mut client = chat("puppet").bearer("sk-all").open(world.data()).unwrap();
    client.close_writing().unwrap();
    puppet.visit().answer(r#"{"here":1}"#);
    assert_eq!(client.answer().unwrap().text(), r#"{"here":1}"#);
    let mut client = streamed_chat("puppet").bearer("sk-all").open(world.data()).unwrap();
    let mut visit = puppet.visit();
    visit.begin_events();
    assert_eq!(client.head().unwrap().status, 200);
    client.close_writing().unwrap();
    for number in 0..10 {
        std::thread::sleep(Duration::from_millis(100));
        visit.chunk(format!("data: {number}\n\n"));
        assert_eq!(client.event().unwrap().unwrap().data, number.to_string());
    }
    // One that takes nothing any more is gone, and its request with it.
    drop(client);
    visit.wait_closed(PATIENCE);
}

pub(crate) fn a_body_that_stands_still_is_408_and_a_client_that_leaves_in_it_is_no_ones_mistake(shell: Shell) {
    let (mut world, puppet) = shell.setup().server("idle_timeout: \"700ms\"").start_with_puppet();
    let half = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sk-all\r\nContent-Length: 90\r\n\r\n{\"model\":";
    // Well before 20 s: then the rule of slow bodies ends it, whatever the setting is.
    let mut client = Connection::open(world.data(), PATIENCE / 2).unwrap();
    client.send_raw(half).unwrap();
    let answer = client.answer().unwrap();
    assert_eq!(answer.status(), 408, "{}", answer.text());
    assert!(answer.text().contains("\"type\":\"error\""), "{}", answer.text());
    world.worker().log().wait_for("status=408", PATIENCE);
    let mark = world.worker().log().mark();
    let mut client = Connection::open(world.data(), PATIENCE).unwrap();
    client.send_raw(half).unwrap();
    wait::until("it to be in flight", PATIENCE, || world.metric("appproxy_requests_in_flight") == 1.0);
    drop(client);
    let line = world.worker().log().wait_from(mark, "path=\"/v1/messages\"", PATIENCE);
    assert!(line.contains("status=499") && line.contains("end=\"client_gone\""), "{line}");
    // Chunks that are none are the client's mistake.
    let mut client = Connection::open(world.data(), PATIENCE).unwrap();
    client
        .send_raw(b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sk-all\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
        .unwrap();
    assert_eq!(client.answer().unwrap().status(), 400);
    assert!(!puppet.was_visited());
}

pub(crate) fn times_are_fine_and_paths_are_cut_in_the_access_line(shell: Shell) {
    let mut world = shell.setup().start();
    let long = format!("/{}", "x".repeat(5000));
    assert_eq!(world.send(&Request::get(&long)).status(), 404);
    let line = world.worker().log().wait_for("path=\"/xxx", PATIENCE);
    assert!(line.len() < 1500, "{line}");
    let took = line.split("duration_ms=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let took: f64 = took.parse().unwrap();
    assert!(took > 0.0 && took.fract() != 0.0, "{line}");
}

fn pem(name: &str) -> String {
    std::fs::read_to_string(repository::root().join("tests/data/tls").join(name)).expect("a test certificate")
}

/// Asks over TLS, trusting only the certificate of this name.
fn over_tls(address: &str, certificate: &str, path: &str) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem(certificate).as_bytes()).expect("a certificate")).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let session = ClientConnection::new(Arc::new(config), "localhost".try_into().expect("a name")).expect("a session");
    let socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut stream = StreamOwned::new(session, socket);
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

pub(crate) fn a_tls_listener_serves_cuts_the_slow_and_takes_a_new_certificate(shell: Shell) {
    let scratch = Scratch::new("tls").unwrap();
    let place = |kind: &str| scratch.path().join(kind).display().to_string();
    let put = |name: &str| {
        for kind in ["cert", "key"] {
            scratch.write(&format!("{kind}.new"), &pem(&format!("{name}.{kind}.pem"))).unwrap();
            std::fs::rename(place(&format!("{kind}.new")), place(kind)).unwrap();
        }
    };
    put("first");
    let tls = format!("tls: {{cert_file: \"{}\", key_file: \"{}\"}}", place("cert"), place("key"));
    let mut world = shell.setup().server(&tls).server("header_timeout: \"500ms\"").prepare();
    world.coordinator.set_faults(Faults::default());
    world.launch_worker();
    let data = world.data().to_owned();
    wait::until("the worker to be ready", PATIENCE, || world.metric("appproxy_ready") == 1.0);
    let answer = over_tls(&data, "first.cert.pem", "/readyz").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // Who speaks no TLS, and who says nothing, is cut.
    assert!(Request::get("/readyz").send(&data).is_err());
    let mut silent = Connection::open(&data, PATIENCE).unwrap();
    assert_eq!(silent.raw().unwrap_or_default(), b"");
    // Counted a moment after its socket is gone: the handshake owns that to its end.
    for why in ["tls", "slow"] {
        let series = format!("appproxy_connections_cut_total{{why=\"{why}\"}}");
        wait::until(&format!("a connection cut for {why} to be counted"), PATIENCE, || world.metric(&series) >= 1.0);
    }
    // The certificate is renewed beneath the worker.
    put("second");
    wait::until("the new certificate to be shown", PATIENCE, || over_tls(&data, "second.cert.pem", "/livez").is_ok());
    assert!(over_tls(&data, "first.cert.pem", "/livez").is_err());
    // One that does not go with its key changes nothing.
    scratch.write("cert", &pem("first.cert.pem")).unwrap();
    world.worker().log().wait_for("do not go together", PATIENCE);
    assert!(over_tls(&data, "second.cert.pem", "/livez").is_ok());
    assert_eq!(world.metric("appproxy_config_accepted"), 0.0);
}

pub(crate) fn a_replicas_errors_are_said_in_the_callers_shape_and_its_address_stays_here(shell: Shell) {
    let (world, puppet) = shell.setup().start_with_puppet();
    let answered = |path: &str, head: &str, body: &str| {
        let sent = json!({"model": "puppet", "messages": []}).to_string();
        let mut client = Request::post_json(path, &sent).bearer("sk-all").open(world.data()).unwrap();
        let mut visit = puppet.visit();
        let head = head.replace("HERE", &format!("http://127.0.0.1:{}", puppet.port()));
        visit.say(format!("HTTP/1.1 {head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
        client.answer().unwrap()
    };
    const JSON: &str = "\r\nContent-Type: application/json";
    let answer = answered("/v1/messages", &format!("422 No{JSON}"), r#"{"detail":"too long"}"#);
    let told: Value = serde_json::from_str(&answer.text()).unwrap();
    assert_eq!((answer.status(), &told["type"], &told["error"]["message"]), (422, &json!("error"), &json!("too long")));
    // On an OpenAI path a 4xx passes as it is.
    let answer = answered("/v1/chat/completions", &format!("422 No{JSON}"), r#"{"detail":"too long"}"#);
    assert_eq!((answer.status(), answer.text().as_str()), (422, r#"{"detail":"too long"}"#));
    let answer = answered("/v1/chat/completions", &format!("500 No{JSON}"), r#"{"detail":"out of memory"}"#);
    assert!(answer.text().contains(r#""message":"out of memory""#), "{}", answer.text());
    let answer = answered("/v1/chat/completions", "307 Elsewhere\r\nLocation: HERE/v1/chat/?x=1\r\nVia: 1.1 gpu-7", "");
    assert_eq!((answer.head.header("location"), answer.head.header("via")), (Some("/v1/chat/?x=1"), None));
}
