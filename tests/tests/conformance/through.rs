//! What goes through a circuit's host as it is, and the life of a wildcard worker (worker-protocol 4.1, 4.2; data-plane 3).

use std::time::Duration;

use appproxy_fixtures::coordinator::{Failure, Faults};
use appproxy_fixtures::replica::Behaviour;
use appproxy_fixtures::wire::Dialect;
use appproxy_tests::http::{Connection, Request};
use appproxy_tests::puppet::{Puppet, Visit};
use appproxy_tests::shell::Shell;
use appproxy_tests::wait::{self, PATIENCE};
use appproxy_tests::wildcard::{any_chat, host};
use appproxy_tests::world::{World, chat, endpoint};
use serde_json::{Value, json};

use super::ingress::{refused, two_circuits};

fn echo(world: &World, label: &str, request: Request) -> Value {
    let answer = world.at(label, request);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    serde_json::from_slice(&answer.body).unwrap_or_default()
}

fn header<'a>(echoed: &'a Value, name: &str) -> Vec<&'a str> {
    let headers = echoed["headers"].as_array().map(Vec::as_slice).unwrap_or_default();
    headers.iter().filter(|pair| pair[0] == name).filter_map(|pair| pair[1].as_str()).collect()
}

pub(crate) fn every_path_and_method_goes_through_untouched(shell: Shell) {
    let world = two_circuits(shell, "");
    for method in ["GET", "PUT", "PATCH", "DELETE", "POST", "PROPFIND"] {
        let request = Request::new(method, "/debug/echo?q=a%20b&c=%2F").header("X-Twice", "a").header("X-Twice", "b");
        let body = if method == "GET" { "" } else { "\u{0}any bytes\u{7f}" };
        let echoed = echo(&world, "foo", request.body(body));
        assert_eq!((&echoed["method"], &echoed["body"]), (&json!(method), &json!(body)));
        assert_eq!(echoed["path_and_query"], "/debug/echo?q=a%20b&c=%2F");
        assert_eq!(header(&echoed, "x-twice"), ["a", "b"]);
        assert_eq!(header(&echoed, "x-forwarded-host"), ["foo.models.test"]);
    }
    let missing = world.at("foo", Request::get("/no/such/page"));
    assert_eq!((missing.status(), missing.text().as_str()), (404, r#"{"detail":"Not Found"}"#), "the replica's own");
    // A credential that opened the circuit goes no further, unless the operator wants it to.
    let token = world.token(2);
    let shown = |world: &World| {
        let echoed = echo(world, "bar", Request::get("/debug/echo").bearer(&token));
        header(&echoed, "authorization").len()
    };
    assert_eq!(shown(&world), 0);
    let world = two_circuits(shell, "routing: {forward_credentials: true}\n");
    assert_eq!(shown(&world), 1);
}

pub(crate) fn s3_a_cut_answer_of_an_application_never_looks_finished(shell: Shell) {
    let mut world = shell.setup().legacy().sections("health_checks: {enabled: false}\n").prepare();
    let puppet = Puppet::start();
    world.wildcard(1, "app", &[puppet.port()], json!({"open_to_public": true}));
    world.start_worker();
    // The worker asks for the models now and then; nobody answers.
    let asked = || loop {
        let visit = puppet.visit();
        if visit.line().starts_with("POST /app/run") {
            break visit;
        }
    };
    let host = host("app");
    for (head, said) in [
        ("Content-Length: 100", "sixty bytes of a hundred"),
        ("Transfer-Encoding: chunked", "5\r\nhello\r\n"),
        // What an application's events look like nobody here knows: nothing is added to them.
        ("Content-Type: text/event-stream\r\nTransfer-Encoding: chunked", "9\r\ndata: 1\n\n\r\n"),
    ] {
        let request = Request::new("POST", "/app/run").header("Host", &host).body("{}");
        let mut client = request.open(world.data()).unwrap();
        let mut visit = asked();
        visit.say(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{said}"));
        assert_eq!(client.head().unwrap().status, 200);
        drop(visit);
        let cut = client.rest().unwrap_err();
        assert_eq!(cut.kind(), std::io::ErrorKind::UnexpectedEof, "{head}: {cut}");
    }
    wait::until("three answers to be counted as cut", PATIENCE, || {
        world.metric("appproxy_responses_cut_total{by=\"upstream_broke\"}") == 3.0
    });
    // Not yet answered: a real status. It may have acted: were it asked again, no answer would come.
    let mut client = Request::new("POST", "/app/run").header("Host", &host).body("{}").open(world.data()).unwrap();
    drop(asked());
    refused(&client.answer().unwrap(), 502, "upstream_error");
}

pub(crate) fn a_websocket_goes_through_and_no_other_upgrade_does(shell: Shell) {
    let mut world = shell.setup().legacy().sections("health_checks: {enabled: false}\n").prepare();
    let puppet = Puppet::start();
    world.wildcard(1, "app", &[puppet.port()], json!({"open_to_public": false}));
    world.start_worker();
    let token = world.token(1);
    // The worker asks for the models first; nobody answers.
    drop(puppet.visit());
    let ask = |more: &str| {
        let mut client = Connection::open(world.data(), PATIENCE).expect("the worker listens");
        let head = format!("GET /ws?a=b HTTP/1.1\r\nHost: {}\r\n{more}\r\n", host("app"));
        client.send_raw(head.as_bytes()).expect("it is taken");
        client
    };
    let upgrade = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let mut refused_first = ask(upgrade);
    assert_eq!(refused_first.answer().unwrap().status(), 401, "without a token nothing is upgraded");

    let mut client = ask(&format!("{upgrade}Authorization: Bearer {token}\r\n"));
    let mut visit = loop {
        let visit = puppet.visit();
        if visit.line().starts_with("GET /ws?a=b") {
            break visit;
        }
    };
    assert_eq!(visit.header("upgrade").as_deref(), Some("websocket"), "{}", visit.head());
    assert!(visit.header("sec-websocket-key").is_some() && visit.header("authorization").is_none(), "{}", visit.head());
    visit.say(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
    );
    let head = client.head().unwrap();
    assert_eq!(head.status, 101);
    assert_eq!(head.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_eq!(head.header("upgrade"), Some("websocket"));
    // Bytes go both ways, whatever they are.
    visit.say(b"\x81\x05hello");
    let mut heard = Vec::new();
    while heard.len() < 7 {
        heard.extend(client.raw().unwrap());
    }
    assert_eq!(heard, b"\x81\x05hello");
    client.send_raw(b"\x81\x85mask").unwrap();
    assert_eq!(visit.hear(6), b"\x81\x85mask");
    drop(client);
    visit.wait_closed(PATIENCE);

    // An upgrade to anything else is an ordinary request.
    let _client = ask(&format!("Connection: Upgrade\r\nUpgrade: h2c\r\nAuthorization: Bearer {token}\r\n"));
    let visit = loop {
        let visit = puppet.visit();
        if visit.line().starts_with("GET /ws?a=b") {
            break visit;
        }
    };
    assert_eq!((visit.header("upgrade"), visit.header("connection")), (None, None), "{}", visit.head());
}

/// What passes untouched goes on as it comes, and ends as it ends.
pub(crate) fn an_upload_goes_on_piece_by_piece(shell: Shell) {
    let mut world = shell.setup().legacy().sections("health_checks: {enabled: false}\n").prepare();
    let puppet = Puppet::start();
    world.wildcard(1, "app", &[puppet.port()], json!({}));
    world.start_worker();
    // The worker asks for the models first; nobody answers.
    drop(puppet.visit());
    let upload = |first: &[u8]| {
        let mut client = Connection::open(world.data(), PATIENCE).expect("the worker listens");
        let head = format!("POST /up HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n\r\n", host("app"));
        client.send_raw(&[head.as_bytes(), first].concat()).expect("it is taken");
        let visit = loop {
            let visit = puppet.visit();
            if visit.line().starts_with("POST /up") {
                break visit;
            }
        };
        (client, visit)
    };
    let (mut client, mut visit) = upload(b"5\r\nfirst\r\n");
    assert_eq!(visit.hear(10), b"5\r\nfirst\r\n", "before the client has sent the rest");
    client.send_raw(b"6\r\nsecond\r\n0\r\n\r\n").unwrap();
    assert_eq!(visit.hear(16), b"6\r\nsecond\r\n0\r\n\r\n");
    visit.say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    assert_eq!(client.answer().unwrap().text(), "ok");
    // A client that leaves in the middle of it leaves the replica too.
    let (client, mut visit) = upload(b"5\r\nfirst\r\n");
    assert_eq!(visit.hear(10), b"5\r\nfirst\r\n");
    drop(client);
    visit.wait_closed(PATIENCE);
}

/// A client that stops in the middle of its body is told so if it still hears; nothing of it stays, and its replica, which
/// did nothing wrong, goes on.
pub(crate) fn an_upload_that_breaks_off_leaves_nothing_and_harms_nobody(shell: Shell) {
    let mut world = shell.setup().legacy().sections("health_checks: {enabled: false}\n").prepare();
    let puppet = Puppet::start();
    world.wildcard(1, "app", &[puppet.port()], json!({}));
    world.start_worker();
    // The worker asks for the models first.
    puppet.visit().answer(r#"{"object": "list", "data": [{"id": "qwen", "object": "model"}]}"#);
    wait::until("the model is known", PATIENCE, || world.at_apex(Request::get("/v1/models")).text().contains("qwen"));
    let begin = |path: &str, rest: &str| {
        let mut client = Connection::open(world.data(), PATIENCE).expect("the worker listens");
        let head = format!("POST {path} HTTP/1.1\r\nHost: {}\r\n{rest}", host("app"));
        client.send_raw(head.as_bytes()).expect("it is taken");
        client
    };
    // A body that is read first, and one that goes on as it comes.
    let mut client = begin("/v1/chat/completions", "Content-Length: 100\r\n\r\n{\"model\":");
    client.close_writing().unwrap();
    assert_eq!(client.answer().unwrap().status(), 400);
    let upload = || {
        let client = begin("/up", "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
        let mut visit = puppet.visit();
        assert_eq!(visit.hear(9), b"4\r\nhalf\r\n");
        (client, visit)
    };
    let (mut client, mut visit) = upload();
    client.close_writing().unwrap();
    assert_eq!(client.answer().unwrap().status(), 400);
    visit.wait_closed(PATIENCE);
    let (client, mut visit) = upload();
    drop(client);
    visit.wait_closed(PATIENCE);
    // While the replica already answers.
    let (mut client, mut visit) = upload();
    visit.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nyes\r\n");
    client.head().unwrap();
    drop(client);
    visit.wait_closed(PATIENCE);
    wait::until("nothing is in flight", PATIENCE, || world.metric("appproxy_requests_in_flight") == 0.0);
    let log = world.worker().log().clone();
    let ends = || {
        let of = |line: &String| line.contains("path=\"/up\"") || line.contains("path=\"/v1/chat/completions\"");
        log.lines().into_iter().filter(of).collect::<Vec<String>>()
    };
    wait::until("all four are in the log", PATIENCE, || ends().len() == 4);
    assert!(ends().iter().all(|line| line.contains("end=\"client_gone\"")), "{:#?}", ends());
}

/// A replica that is gone is let go of at once: what waits for a next request to it is closed.
pub(crate) fn idle_connections_to_a_replica_go_with_it(shell: Shell) {
    let mut world = shell.setup().legacy().sections("health_checks: {enabled: false}\n").prepare();
    let (puppet, other) = (Puppet::start(), Puppet::start());
    world.wildcard(1, "app", &[puppet.port()], json!({}));
    world.start_worker();
    puppet.visit().answer(r#"{"object": "list", "data": [{"id": "qwen", "object": "model"}]}"#);
    wait::until("the model is known", PATIENCE, || world.at_apex(Request::get("/v1/models")).text().contains("qwen"));
    let mut client = Connection::open(world.data(), PATIENCE).expect("the worker listens");
    let mut kept: Option<Visit> = None;
    for _ in 0..2 {
        client.send_raw(format!("GET /kept HTTP/1.1\r\nHost: {}\r\n\r\n", host("app")).as_bytes()).unwrap();
        let mut visit = match kept.take() {
            Some(mut visit) => {
                visit.next_request().expect("the same connection serves again");
                visit
            }
            None => puppet.visit(),
        };
        assert!(visit.line().starts_with("GET /kept"), "{}", visit.head());
        visit.say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        assert_eq!(client.answer().unwrap().text(), "ok");
        kept = Some(visit);
    }
    world.done(
        "PUT",
        &format!("/dev/circuits/{}/routes", endpoint(1)),
        &json!({"routes": [{"kernel_host": "127.0.0.1", "kernel_port": other.port()}]}),
    );
    // Idling would close it after 4 s.
    kept.expect("a connection").wait_closed(Duration::from_secs(3));
}

/// 4.2: a circuit is held until its model is known; what needs none passes.
pub(crate) fn until_the_model_is_known_other_paths_pass(shell: Shell) {
    let mut world = shell.setup().legacy().prepare();
    let port = world.replica("r1", &["qwen"]);
    world.replicas[0].behave(Behaviour { warming_up: true, ..Behaviour::default() });
    world.wildcard(1, "foo", &[port], json!({}));
    world.start_worker();
    refused(&world.at("foo", any_chat()), 503, "model_not_ready");
    refused(&world.at("foo", chat("qwen")), 503, "model_not_ready");
    assert_eq!(echo(&world, "foo", Request::get("/debug/echo"))["served_by"], "r1");
    refused(&world.at_apex(chat("qwen")), 404, "model_not_found");
    world.replicas[0].behave(Behaviour::default());
    world.wait_model("foo", "");
    // Another replica may have another model: its circuit is asked anew.
    let other = world.replica("r2", &["llama"]);
    world.done(
        "PUT",
        &format!("/dev/circuits/{}/routes", endpoint(1)),
        &json!({"routes": [{"kernel_host": "127.0.0.1", "kernel_port": other}]}),
    );
    wait::until("the other model", PATIENCE, || {
        let answer = world.at("foo", any_chat());
        answer.status() == 200 && answer.text().contains("\"model\":\"llama\"")
    });
    // A name that the configuration gives is not asked for.
    let unprobed = shell.setup().legacy().sections("health_checks: {enabled: false}\n");
    let mut world = unprobed.router("model_names: {given: \"named\"}").prepare();
    let port = world.replica("r1", &[]);
    world.replicas[0].behave(Behaviour { warming_up: true, ..Behaviour::default() });
    world.wildcard(1, "given", &[port], json!({}));
    world.start_worker();
    let answer = world.at("given", any_chat());
    assert!(!answer.text().contains("model_not_ready"), "{}", answer.text());
}

/// 4.2: a replica that answers with anything but a list makes its circuit opaque.
pub(crate) fn what_lists_no_models_is_opaque(shell: Shell) {
    let mut world = shell.setup().legacy().sections("health_checks: {enabled: false}\n").prepare();
    let puppet = Puppet::start();
    world.wildcard(1, "app", &[puppet.port()], json!({}));
    world.start_worker();
    let mut visit = puppet.visit();
    assert_eq!(visit.line(), "GET /v1/models HTTP/1.1");
    visit.say("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    world.worker().log().wait_for("lists no models", PATIENCE);
    wait::until("requests to pass", PATIENCE, || {
        let mut client = Connection::open(world.data(), PATIENCE).expect("the worker listens");
        let request = Request::post_json("/v1/chat/completions", "no JSON at all").header("Host", &host("app"));
        client.send(&request).expect("it is taken");
        client.set_allowed(std::time::Duration::from_millis(300));
        // An answer that comes by itself is the refusal of a circuit still held.
        client.head().is_err()
    });
    let visit = loop {
        let visit = puppet.visit();
        if visit.line().starts_with("POST") {
            break visit;
        }
    };
    assert_eq!((visit.line().as_str(), visit.body()), ("POST /v1/chat/completions HTTP/1.1", &b"no JSON at all"[..]));
    refused(&world.at_apex(chat("app")), 404, "model_not_found");
}

/// Worker-protocol 9: until the first pull every circuit's host is 503.
pub(crate) fn until_the_first_pull_no_host_is_known_to_be_wrong(shell: Shell) {
    let mut world = shell.setup().legacy().prepare();
    let port = world.replica("r1", &["qwen"]);
    world.wildcard(1, "foo", &[port], json!({}));
    let failing = Failure { method: None, path: "circuits".into(), status: 500, body: None, times: None };
    world.coordinator.set_faults(Faults { failures: vec![failing], ..Faults::default() });
    world.launch_worker();
    for label in ["foo", "nobody"] {
        refused(&world.at(label, any_chat()), 503, "not_ready");
        refused(&world.at(label, Request::get("/debug/echo")), 503, "not_ready");
    }
    refused(&world.at_apex(chat("qwen")), 503, "not_ready");
    refused(&world.send(&chat("qwen").header("Host", "other.test")), 404, "endpoint_not_found");
    world.coordinator.set_faults(Faults::default());
    world.wait_model("foo", "");
    refused(&world.at("nobody", any_chat()), 404, "endpoint_not_found");
}

/// 4.1, in both dialects: registered as the stock worker is, acked within the wait, gone at the end.
pub(crate) fn a_wildcard_worker_registers_is_acked_and_leaves(shell: Shell) {
    for dialect in [Dialect::Args, Dialect::Payload] {
        let mut world = shell.setup().legacy().dialect(dialect).heartbeat("200ms").prepare();
        let port = world.replica("r1", &["qwen"]);
        world.start_worker();
        let row = world.state()["worker"].take();
        assert_eq!((&row["frontend_mode"], &row["wildcard_domain"]), (&json!("wildcard"), &json!(".models.test")));
        assert_eq!((&row["wildcard_traffic_port"], &row["nodes"]), (&json!(8080), &json!(1)));
        // The creation answers only when our ack came.
        let began = std::time::Instant::now();
        world.wildcard(1, "foo", &[port], json!({}));
        assert!(began.elapsed() < std::time::Duration::from_secs(10), "acked, not waited for");
        world.wait_model("foo", "");
        let beat = row["updated_at"].clone();
        wait::until("a heartbeat", PATIENCE, || world.state()["worker"]["updated_at"] != beat);
        assert!(world.worker().terminate(PATIENCE).success());
        assert_eq!(world.state()["worker"]["nodes"], 0);
    }
}
