use super::*;
use crate::access::address::TrustedProxies;
use crate::exchange::Control;
use crate::exchange::testing::{ENDS, NAMES, World, chat, header, key, request, said, standing};
use crate::time::{Moment, UnixMillis};
use serde_json::Value;

const M1: &str = "{\"model\":\"m1\"}";

/// The ways to ask for a model, with the body that goes with each.
fn ways(model: &str, key: &str) -> Vec<(Parts, String)> {
    let auth = format!("authorization: Bearer {key}");
    let body = format!("{{\"model\":{}}}", Value::from(model));
    let escaped = surface::encode_segment(model);
    let post = |path: &str| (request("POST", path, &[&auth]), body.clone());
    let form = format!("--XX\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n{model}\r\n--XX--\r\n");
    let form_head =
        request("POST", "/v1/audio/transcriptions", &[&auth, "content-type: multipart/form-data; boundary=XX"]);
    vec![
        post("/v1/chat/completions"),
        post("/v1/embeddings"),
        post("/v1/messages"),
        post("/rerank"),
        (form_head, form),
        (request("GET", &format!("/v1/models/{escaped}"), &[&auth]), String::new()),
        (request("POST", &format!("/v1beta/models/{escaped}:generateContent"), &[&auth]), "{}".to_owned()),
    ]
}

#[test]
fn w3_bad_bodies_are_refused_after_the_key_and_reach_nobody() {
    let mut world = World::new();
    for (body, verdict) in [
        ("", "400 invalid_json"),
        ("[]", "400 invalid_json"),
        ("{}", "400 missing_model"),
        ("{\"model\":null}", "400 invalid_model"),
        ("{\"model\":42}", "400 invalid_model"),
        ("{\"model\":\"\"}", "400 invalid_model"),
        ("{\"model\":\"m1\",", "400 invalid_json"),
        ("{\"model\":\"m1\",\"model\":\"m1\"}", "400 invalid_json"),
        ("{\"model\":\"unknown\"}", "404 model_not_found"),
        (M1, "let through"),
    ] {
        assert_eq!(world.verdict(chat("all"), body), verdict, "{body}");
        assert_eq!(world.verdict(chat("nope"), body), "401 invalid_api_key", "{body}");
    }
    let answer = world.answer(chat("all"), "{}");
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(body["error"]["param"], "model");
}

#[test]
fn k2_one_decision_for_every_way_to_ask() {
    for hide in [false, true] {
        let mut world = World::new();
        world.rules.hide_forbidden_models = hide;
        let refused = if hide { "404 model_not_found" } else { "403 model_not_allowed" };
        for (model, verdict) in [
            ("two", refused),
            ("a1", refused),
            ("M1", "404 model_not_found"),
            (" m1", "404 model_not_found"),
            ("not-published", "404 model_not_found"),
            ("gpt", "404 model_not_found"),
        ] {
            for (parts, body) in ways(model, "some") {
                let path = parts.uri.path().to_owned();
                assert_eq!(world.verdict(parts, &body), verdict, "{path} {model}");
            }
        }
        for (parts, body) in ways("org/c", "some") {
            let path = parts.uri.path().to_owned();
            let verdict = world.verdict(parts, &body);
            let wanted = match path.as_str() {
                path if path.starts_with("/v1/models") => "200",
                path if path.starts_with("/v1beta") => "501 not_supported",
                _ => "let through",
            };
            assert_eq!(verdict, wanted, "{path}");
        }
        for (parts, body) in ways("m1", "") {
            assert_eq!(world.verdict(parts, &body), "401 missing_api_key");
        }
    }
}

#[test]
fn k2_what_is_listed_is_what_can_be_got_and_called() {
    let mut world = World::new();
    let everything: Vec<&str> = ["a1", "claude", "empty", "g", "gemini", "gpt", "m1", "org/c", "two"].into();
    for (key, wanted) in [("all", &NAMES[..]), ("some", &["m1", "org/c"]), ("root", &everything)] {
        let auth = format!("x-api-key: {key}");
        let answer = world.answer(request("GET", "/v1/models", &[&auth]), "");
        assert_eq!(answer.status, 200);
        let list: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(list["object"], "list");
        let ids: Vec<&str> =
            list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
        assert_eq!(ids, wanted);
        for id in &everything {
            let there = wanted.contains(id);
            for written in [(*id).to_owned(), id.replace('/', "%2F")] {
                let one = world.answer(request("GET", &format!("/v1/models/{written}"), &[&auth]), "");
                assert_eq!(one.status == 200, there, "{key} {written}");
                if there {
                    let one: Value = serde_json::from_slice(&one.body).unwrap();
                    assert!(list["data"].as_array().unwrap().contains(&one));
                }
            }
            let called = world.admit(chat(key), &format!("{{\"model\":\"{id}\"}}"));
            assert_eq!(called.is_ok(), there, "{key} {id}");
        }
    }
}

#[test]
fn the_order_is_key_address_rate_model() {
    let mut world = World::with_keys(vec![crate::wire::key::ApiKey {
        allowed_client_ips: Some(vec!["10.0.0.0/8".to_owned()]),
        allowed_models: vec!["m1".into()],
        rate_limit: Some(1),
        expires_at: Some(ENDS),
        ..key("k")
    }]);
    let two = "{\"model\":\"two\"}";
    world.now.wall = ENDS;
    assert_eq!(world.verdict(chat("k"), two), "401 expired_api_key");
    world.now.wall = UnixMillis(ENDS.0 - 1);
    assert_eq!(world.verdict(chat("k"), two), "403 ip_not_allowed");
    world.peer = Peer::Ip([10, 0, 0, 1].into());
    assert_eq!(world.verdict(chat("k"), two), "403 model_not_allowed");
    // The refused model counted, refusals do not.
    for _ in 0..3 {
        assert_eq!(world.verdict(chat("k"), two), "429 rate_limit_exceeded");
    }
    world.peer = Peer::Unix;
    let answer = world.answer(chat("k"), two);
    assert_eq!(said(&answer), "403 ip_not_allowed");
    // The figures stand on every answer to a limited key.
    assert_eq!(header(&answer.headers, "x-ratelimit-remaining-requests"), "0");
}

#[test]
fn i2_addresses_are_compared_in_their_plain_form() {
    let mut world = World::new();
    for (peer, lets) in
        [("::ffff:10.1.2.3", true), ("10.1.2.3", true), ("::ffff:192.0.2.1", false), ("2001:db8::1", false)]
    {
        world.peer = Peer::Ip(peer.parse().unwrap());
        assert_eq!(world.admit(chat("office"), M1).is_ok(), lets, "{peer}");
    }
    world.rules.trusted_proxies = TrustedProxies::parse(["192.0.2.0/24"]).unwrap();
    world.peer = Peer::Ip("::ffff:192.0.2.7".parse().unwrap());
    for (forwarded, lets) in [("10.1.2.3", true), ("10.1.2.3, junk", false), ("10.1.2.3, 8.8.8.8, 192.0.2.9", false)] {
        let line = format!("x-forwarded-for: {forwarded}");
        let parts = request("POST", "/v1/completions", &["x-api-key: office", &line]);
        assert_eq!(world.admit(parts, M1).is_ok(), lets, "{forwarded}");
    }
}

#[test]
fn k3_a_used_up_limit_says_when_to_come_back() {
    let mut world = World::new();
    for remaining in ["2", "1", "0"] {
        let gated = world.pass(chat("three")).unwrap();
        assert_eq!(gated.trail().rate.unwrap().remaining.to_string(), remaining);
    }
    world.now.moment = Moment::from_millis(15_000);
    let answer = world.answer(chat("three"), M1);
    assert_eq!(said(&answer), "429 rate_limit_exceeded");
    for (name, value) in [
        ("retry-after", "50"),
        ("x-ratelimit-limit-requests", "3"),
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "50"),
    ] {
        assert_eq!(header(&answer.headers, name), value, "{name}");
    }
    // Listing is not counted, and says the same.
    let list = world.answer(request("GET", "/v1/models", &["x-api-key: three"]), "");
    assert_eq!((list.status.as_u16(), header(&list.headers, "x-ratelimit-remaining-requests")), (200, "0"));
    // A wall clock set back changes nothing.
    world.now.wall = UnixMillis(0);
    world.now.moment = Moment::from_millis(66_000);
    assert_eq!(world.verdict(chat("three"), M1), "let through");
    assert_eq!(world.verdict(chat("zero"), M1), "429 rate_limit_exceeded");
    let unlimited = world.answer(chat("all"), "{}");
    assert!(!unlimited.headers.contains_key("x-ratelimit-limit-requests"));
}

#[test]
fn a_limited_request_without_its_ledger_is_not_let_through() {
    let mut world = World::new();
    let connection = Connection::new(world.peer, false);
    let gate = Gate::open(chat("three"), connection, world.node(), &mut Draws::new(crate::seed::Seed::from_number(2)));
    assert_eq!(said(&gate.unwrap().pass(None, world.node()).unwrap_err()), "503 overloaded");
    assert_eq!(world.verdict(chat("three"), M1), "let through");
}

#[test]
fn k4_refusals_hold_no_key_no_hash_and_no_other_model() {
    let mut world = World::new();
    for path in ["/v1/chat/completions", "/v1/messages", "/v1beta/models/two:generateContent"] {
        for (key, status) in [("sk-nope-7f3a", 401), ("old", 401), ("some", 403)] {
            world.now.wall = if key == "old" { ENDS } else { UnixMillis(0) };
            let answer = world.answer(request("POST", path, &[&format!("x-api-key: {key}")]), "{\"model\":\"two\"}");
            assert_eq!(answer.status, status, "{path} {key}");
            let text = format!("{:?} {:?} {:?}", answer.body, answer.headers, answer.outcome);
            for secret in ["sk-nope", "7f3a", "m1", "org/c", "SHA", "hash", "redis", "10.9.9.9"] {
                assert!(!text.contains(secret), "{path} {key} {secret}: {text}");
            }
        }
    }
}

#[test]
fn t1_refusals_before_routing_are_in_the_callers_shape() {
    let mut world = World::new();
    let mut shape = |method: &str, path: &str| {
        let answer = world.answer(request(method, path, &[]), "");
        assert!(!header(&answer.headers, "x-request-id").is_empty());
        assert_eq!(header(&answer.headers, "content-type"), "application/json");
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        (answer.status.as_u16(), body)
    };
    for (path, status) in [("/v1/messages/batches", 404), ("/v1/messages", 401)] {
        let (found, body) = shape("POST", path);
        assert_eq!((found, &body["type"]), (status, &"error".into()), "{path}");
        assert!(body["error"]["type"].is_string());
    }
    assert_eq!(shape("GET", "/v1/messages").1["type"], "error");
    for (path, status) in [("/v1beta/models/m1:fly", 404), ("/v1beta/models/m1:countTokens", 401)] {
        let (found, body) = shape("POST", path);
        assert_eq!((found, &body["error"]["code"]), (status, &status.into()), "{path}");
    }
    assert_eq!(shape("POST", "/v1/nothing").1["error"]["code"], "unknown_path");
    assert_eq!(shape("POST", "/admin/").1["error"]["code"], "unknown_path");
    let answer = world.answer(request("GET", "/v1/completions", &[]), "");
    assert_eq!((said(&answer).as_str(), header(&answer.headers, "allow")), ("405 method_not_allowed", "POST"));
    let files = request("POST", "/v1/files", &["x-api-key: all"]);
    assert_eq!(world.verdict(files, ""), "501 not_supported");
    assert_eq!(world.verdict(request("POST", "/v1/files", &[]), ""), "401 missing_api_key");
}

#[test]
fn s7_heads_that_two_readers_could_take_differently_are_refused() {
    let mut world = World::new();
    let length = ["content-length: 5", "transfer-encoding: chunked"];
    assert_eq!(world.verdict(request("POST", "/v1/completions", &length), M1), "400 invalid_request");
    let hosts = ["host: a.example.com", "host: b.example.com"];
    assert_eq!(world.verdict(request("GET", "/health", &hosts), ""), "400 invalid_request");
    let lengths = ["content-length: 5", "content-length: 6"];
    assert_eq!(world.verdict(request("POST", "/v1/completions", &lengths), M1), "400 invalid_request");
    let mut hostless = chat("all");
    hostless.headers.remove("host");
    assert_eq!(world.verdict(hostless, M1), "400 invalid_request");
}

#[test]
fn w4_bytes_beyond_ascii_in_a_head_do_no_harm() {
    let mut world = World::new();
    for bytes in [&b"caf\xc3\xa9"[..], b"caf\xe9"] {
        let odd = http::HeaderValue::from_bytes(bytes).unwrap();
        for name in ["x-title", "x-request-id", "x-forwarded-for", "content-length", "accept"] {
            let mut parts = chat("all");
            parts.headers.append(http::HeaderName::from_static(name), odd.clone());
            assert!(world.admit(parts, M1).is_ok(), "{name}");
        }
        for name in ["authorization", "x-api-key", "content-type", "content-encoding", "host", "connection"] {
            let mut parts = chat("all");
            parts.headers.insert(http::HeaderName::from_static(name), odd.clone());
            let _ = world.admit(parts, M1);
        }
    }
}

#[test]
fn bodies_that_need_not_be_read_to_be_refused_are_not() {
    let mut world = World::new();
    world.rules.max_body_size = 10;
    let with = |line: &str| request("POST", "/v1/messages", &["x-api-key: all", line]);
    let head = |world: &mut World, line: &str| world.pass(with(line)).map(|_| ()).map_err(|answer| said(&answer));
    assert_eq!(head(&mut world, "content-length: 11"), Err("413 body_too_large".to_owned()));
    assert_eq!(head(&mut world, "content-length: 10"), Ok(()));
    assert_eq!(head(&mut world, "content-encoding: lzma"), Err("415 unsupported_encoding".to_owned()));
    assert_eq!(head(&mut world, "content-encoding: Identity"), Ok(()));
    let gated = world.pass(with("accept: */*")).unwrap();
    let answer = gated.refuse(&Denial::body_too_large(10));
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!((answer.status.as_u16(), &body["error"]["type"]), (413, &"request_too_large".into()));
}

#[test]
fn a_request_whose_client_goes_leaves_a_record() {
    let mut world = World::new();
    let outcome = world.pass(chat("all")).unwrap().gone();
    assert_eq!((outcome.status.as_u16(), outcome.end), (499, crate::exchange::EndOfBody::DownstreamGone));
    assert_eq!(outcome.trail.key_id().unwrap().as_str(), "id-of-all");
    let control = Control::Worker { authority: "here".into(), standing: standing() };
    assert!(control.ready(Moment::START));
}
