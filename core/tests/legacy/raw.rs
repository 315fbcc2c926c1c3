//! What passes untouched: every other path and method, WebSockets, everything of an opaque circuit (data-plane 3;
//! worker-protocol 4.2; traps S3, S7, R1).

use appproxy_core::exchange::{EndOfBody, FailStage, Head};

use crate::world::{World, at, bearer, chat, open, reached, replica, request, said};

const HOST: &str = "foo.models.example.com";

fn world() -> World {
    World::new(vec![at(1, "foo", 2)]).list(1, &["m"])
}

#[test]
fn every_other_path_and_method_goes_through_as_it_is() {
    let mut world = world();
    for (method, path, body) in [
        ("GET", "/", ""),
        ("GET", "/v1/models", ""),
        ("GET", "/v1/models/x%2Fy?q=a%20b", ""),
        ("GET", "/status", ""),
        ("PUT", "/v1/files/a", "not json"),
        ("DELETE", "/v1/x%2Fy?q=a%20b", ""),
        ("PATCH", "/ui/../x", r#"{"model":"other"}"#),
        ("POST", "/generate", r#"{"model":"other","model":"twice"}"#),
        ("HEAD", "/v1/chat/completions", ""),
        ("POST", "/v1/chat/completions/", r#"{"model":"other"}"#),
    ] {
        let reached = world.reach(request(method, HOST, path, &[&bearer(1), "x-custom: a", "x-custom: b"]), body);
        assert!(reached.uri.starts_with("http://10.0.0.1") && reached.uri.ends_with(path), "{}", reached.uri);
        assert_eq!((reached.method.as_str(), reached.body.as_str()), (method, body));
        assert_eq!(reached.headers.get_all("x-custom").iter().count(), 2);
        assert_eq!(reached.headers.get("content-length").is_some(), !matches!(method, "GET" | "HEAD"), "{method}");
        assert_eq!(world.verdict(request(method, HOST, path, &[]), body), "401 missing_token");
    }
}

#[test]
fn a_packed_body_stays_packed_and_a_form_is_not_read() {
    let mut world = world();
    let lines = [bearer(1), "content-encoding: gzip".to_owned(), "content-type: multipart/form-data".to_owned()];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let reached = world.reach(request("POST", HOST, "/upload", &lines), "whatever");
    assert_eq!((reached.body.as_str(), &reached.headers["content-encoding"]), ("whatever", &"gzip".parse().unwrap()));
}

#[test]
fn an_opaque_circuit_is_not_looked_into() {
    let mut world = World::new(vec![open(at(1, "foo", 1))]).opaque(1).chain("m", &["spare-model"]);
    for body in ["", "nonsense", r#"{"model":"m"}"#, "{}"] {
        let reached = world.reach(chat(HOST, &[]), body);
        assert_eq!((reached.backend, reached.body.as_str()), (replica(1, 0), body));
    }
    // No chain, and not on the aggregation surface.
    assert_eq!(world.all_fail(chat(HOST, &[]), r#"{"model":"m"}"#).1, "502 upstream_error");
    assert_eq!(world.verdict(chat("models.example.com", &[]), r#"{"model":"m"}"#), "404 model_not_found");
}

#[test]
fn an_answer_of_an_application_is_not_reworded() {
    let mut world = world();
    let (_, attempt) = world.try_reach(request("POST", HOST, "/app", &[&bearer(1)]), "x").unwrap();
    let Ok(Head::Commit(committed, head)) = world.reply(attempt, 500, &["content-type: text/html"]) else {
        panic!("not committed");
    };
    assert_eq!((head.status.as_u16(), &head.headers["content-type"]), (500, &"text/html".parse().unwrap()));
    assert!(!committed.is_upgrade());
    let (_, attempt) = world.try_reach(request("GET", HOST, "/events", &[&bearer(1)]), "").unwrap();
    let reply = world.reply(attempt, 200, &["content-type: text/event-stream"]);
    let Ok(Head::Commit(committed, _)) = reply else { panic!("not committed") };
    // Its events are its own: a broken one ends without a word of ours.
    assert!(committed.last_words(EndOfBody::UpstreamBroke).is_none());
}

#[test]
fn only_safe_methods_are_sent_again() {
    for (method, again) in
        [("GET", true), ("HEAD", true), ("OPTIONS", true), ("POST", false), ("PUT", false), ("DELETE", false)]
    {
        let mut world = world();
        let (_, attempt) = world.try_reach(request(method, HOST, "/app", &[&bearer(1)]), "").unwrap();
        assert_eq!(attempt.needs_fresh_connection(), !again, "{method}");
        let further = world.fail(attempt, FailStage::AwaitHead);
        assert_eq!(further.is_ok(), again, "{method}");
        let (_, attempt) = world.try_reach(request(method, HOST, "/app", &[&bearer(1)]), "").unwrap();
        let further = world.reply(attempt, 503, &["content-type: text/plain"]);
        assert_eq!(matches!(further, Ok(Head::Again(_))), again, "{method}");
        // What was not sent may be sent.
        let (_, attempt) = world.try_reach(request(method, HOST, "/app", &[&bearer(1)]), "").unwrap();
        assert!(world.fail(attempt, FailStage::Connect).is_ok(), "{method}");
    }
    // A call for a model is known to be one.
    let mut world = world();
    let (_, attempt) = world.try_reach(chat(HOST, &[&bearer(1)]), "{}").unwrap();
    assert!(world.fail(attempt, FailStage::AwaitHead).is_ok());
}

#[test]
fn without_a_replica_there_is_no_chain() {
    let mut world = World::new(vec![at(1, "foo", 0)]).list(1, &["m"]).chain("m", &["spare-model"]);
    assert_eq!(world.verdict(request("GET", HOST, "/docs", &[&bearer(1)]), ""), "503 model_unavailable");
    assert_eq!(world.verdict(chat(HOST, &[&bearer(1)]), "{}"), "spare");
}

const ASKED: [&str; 4] =
    ["connection: keep-alive, Upgrade", "upgrade: WebSocket", "sec-websocket-key: abc", "sec-websocket-version: 13"];

#[test]
fn a_websocket_is_asked_for_and_taken_up() {
    let mut world = world();
    let own = bearer(1);
    let lines = [&ASKED[..], &[own.as_str()]].concat();
    let choosing = world.admit(request("GET", HOST, "/ws?x=1", &lines), "").unwrap();
    let (attempt, request_out) = world.choose(choosing).unwrap();
    let seen = reached(&attempt, request_out);
    assert_eq!(
        (&seen.headers["connection"], &seen.headers["upgrade"]),
        (&"upgrade".parse().unwrap(), &"websocket".parse().unwrap())
    );
    assert_eq!(seen.headers["sec-websocket-key"], "abc");
    assert!(!seen.headers.contains_key("content-length"));
    let taken = ["connection: Upgrade", "upgrade: websocket", "sec-websocket-accept: xyz"];
    let Ok(Head::Commit(committed, head)) = world.reply(attempt, 101, &taken) else { panic!("not taken up") };
    assert!(committed.is_upgrade());
    assert_eq!((head.status.as_u16(), &head.headers["upgrade"]), (101, &"websocket".parse().unwrap()));
    assert_eq!(
        (&head.headers["connection"], &head.headers["sec-websocket-accept"]),
        (&"upgrade".parse().unwrap(), &"xyz".parse().unwrap())
    );
    // Refused by the replica: an answer like any other.
    let choosing = world.admit(request("GET", HOST, "/ws", &lines), "").unwrap();
    let (attempt, _) = world.choose(choosing).unwrap();
    let Ok(Head::Commit(committed, head)) = world.reply(attempt, 426, &taken) else { panic!("not passed on") };
    assert!(!committed.is_upgrade() && !head.headers.contains_key("upgrade"));
    // No token, no WebSocket.
    assert_eq!(said(&world.admit(request("GET", HOST, "/ws", &ASKED), "").unwrap_err()), "401 missing_token");
}

#[test]
fn no_other_upgrade_goes_through_and_none_that_nobody_asked_for() {
    let mut world = world();
    let own = bearer(1);
    for lines in [
        &["connection: upgrade", "upgrade: h2c"][..],
        &["upgrade: websocket"],
        &["connection: upgrade, x-debug", "x-debug: 1"],
    ] {
        let lines = [lines, &[own.as_str()]].concat();
        let seen = world.reach(request("GET", HOST, "/ws", &lines), "");
        for name in ["connection", "upgrade", "x-debug"] {
            assert!(!seen.headers.contains_key(name), "{lines:?}");
        }
        let (_, attempt) = world.try_reach(request("GET", HOST, "/ws", &lines), "").unwrap();
        let answer = world.reply(attempt, 101, &["connection: upgrade", "upgrade: websocket"]).unwrap_err();
        assert_eq!(said(&answer), "502 upstream_error");
    }
    // Nor one to something else than was asked for.
    let lines = [&ASKED[..], &[own.as_str()]].concat();
    let (_, attempt) = world.try_reach(request("GET", HOST, "/ws", &lines), "").unwrap();
    let answer = world.reply(attempt, 101, &["connection: upgrade", "upgrade: h2c"]).unwrap_err();
    assert_eq!(said(&answer), "502 upstream_error");
}

#[test]
fn the_configured_limit_is_the_only_one() {
    let mut world = world();
    world.rules.max_body_size = 8;
    let own = bearer(1);
    let with = |length: &'static str| request("POST", HOST, "/app", &[&own, length]);
    assert_eq!(world.verdict(with("content-length: 9"), ""), "413 body_too_large");
    assert!(world.try_reach(with("content-length: 8"), "12345678").is_ok());
}
