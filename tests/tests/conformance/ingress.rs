//! The way in to a legacy wildcard worker: hosts, addresses, one circuit and no other (worker-protocol 4.4).

use appproxy_tests::http::{Answer, Connection, Request};
use appproxy_tests::shell::Shell;
use appproxy_tests::wait::{self, PATIENCE};
use appproxy_tests::wildcard::{APEX, any_chat, host};
use appproxy_tests::world::{World, chat, endpoint};
use serde_json::{Value, json};

/// A public circuit `foo` (model `qwen`, replica `r1`) and a private one `bar` (model `llama`, replica `r2`); both models
/// are known.
pub(crate) fn two_circuits(shell: Shell, sections: &str) -> World {
    let setup = shell.setup().legacy().server("trusted_proxies: [\"127.0.0.0/8\"]").sections(sections);
    let mut world = setup.prepare();
    let (open, closed) = (world.replica("r1", &["qwen", "qwen-lora"]), world.replica("r2", &["llama"]));
    world.wildcard(1, "foo", &[open], json!({}));
    world.wildcard(2, "bar", &[closed], json!({"open_to_public": false}));
    world.start_worker();
    world.wait_model("foo", "");
    world.wait_model("bar", &world.token(2));
    world
}

fn code(answer: &Answer) -> String {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    body["error"]["code"].as_str().unwrap_or_default().to_owned()
}

#[track_caller]
pub(crate) fn refused(answer: &Answer, status: u16, expected: &str) {
    assert_eq!((answer.status(), code(answer).as_str()), (status, expected), "{}", answer.text());
    assert!(answer.head.header("x-request-id").is_some());
    for told in ["127.0.0.1", "10.0.0", "00000000-0000-4000", "eyJ"] {
        assert!(!answer.text().contains(told), "{}", answer.text());
    }
    if matches!(status, 429 | 503) {
        assert!(answer.head.header("retry-after").is_some(), "{}", answer.text());
    }
}

/// One raw request; lines are given without their ends.
fn raw(world: &World, line: &str, headers: &[&str]) -> Answer {
    let mut client = Connection::open(world.data(), PATIENCE).expect("the worker listens");
    client.send_raw(format!("{line}\r\n{}\r\n\r\n", headers.join("\r\n")).as_bytes()).expect("it is taken");
    client.answer().unwrap_or_else(|e| panic!("{line} {headers:?}: {e}"))
}

pub(crate) fn i1_every_spelling_of_a_host_reaches_its_circuit_and_nothing_else_does(shell: Shell) {
    let world = two_circuits(shell, "");
    let echo = |host: &str| world.send(&Request::get("/debug/echo").header("Host", host));
    for spelled in
        ["foo.models.test", "FOO.Models.TEST:8443", "foo.models.test.", "foo.models.test.:80", "foo.models.test:"]
    {
        let answer = echo(spelled);
        assert_eq!(answer.status(), 200, "{spelled}: {}", answer.text());
        assert!(answer.text().contains("\"served_by\":\"r1\""), "{spelled}: {}", answer.text());
    }
    for aggregated in [APEX, "MODELS.test:8080", "models.test.", "all.test", "ALL.test.:1"] {
        let answer = world.send(&Request::get("/v1/models").header("Host", aggregated));
        assert_eq!(answer.status(), 200, "{aggregated}: {}", answer.text());
        refused(&echo(aggregated), 404, "unknown_path");
    }
    for nothing in [
        "nobody.models.test",
        "x.foo.models.test",
        "foo.models.test.evil.test",
        "foo..models.test",
        ".models.test",
        "foomodels.test",
        "foo",
        "%66oo.models.test",
        "foo.models.test:80:80",
        "foo.models.test:99999",
        "[2001:db8::5]:8443",
        "192.0.2.7",
        "localhost",
        "router.test",
        "other.test",
    ] {
        refused(&echo(nothing), 404, "endpoint_not_found");
        refused(&world.send(&chat("qwen").header("Host", nothing)), 404, "endpoint_not_found");
    }
    refused(&raw(&world, "GET /debug/echo HTTP/1.1", &["Host:"]), 404, "endpoint_not_found");
    for bad in [&["X-A: b"][..], &["Host: foo.models.test", "Host: foo.models.test"]] {
        assert_eq!(raw(&world, "GET /debug/echo HTTP/1.1", bad).status(), 400, "{bad:?}");
    }
    // The target says the host before the Host line does.
    let absolute = raw(&world, "GET http://foo.models.test:80/debug/echo HTTP/1.1", &["Host: nobody.models.test"]);
    assert!(absolute.text().contains("\"served_by\":\"r1\""), "{}", absolute.text());
    let other = raw(&world, "GET http://nobody.models.test/debug/echo HTTP/1.1", &["Host: foo.models.test"]);
    refused(&other, 404, "endpoint_not_found");
}

/// A circuit's list, and clients with whether they are inside.
type Listed = (Value, &'static [(&'static str, bool)]);

/// One circuit for each list, since a creation is acked when it is in force.
fn judge_lists(shell: Shell, rows: impl IntoIterator<Item = Listed>) -> World {
    let mut world = shell.setup().legacy().server("trusted_proxies: [\"127.0.0.0/8\"]").prepare();
    let port = world.replica("r1", &["qwen"]);
    world.start_worker();
    for (number, (list, clients)) in (1..).zip(rows) {
        let label = format!("list-{number}");
        world.wildcard(number, &label, &[port], json!({ "allowed_client_ips": list }));
        for (client, inside) in clients {
            let ask = |request: Request| world.at(&label, request.header("X-Forwarded-For", client));
            let answer = ask(Request::get("/debug/echo"));
            assert_eq!(answer.status(), if *inside { 200 } else { 403 }, "{list} {client}: {}", answer.text());
            let preflight = Request::new("OPTIONS", "/x").header("Origin", "https://page.test");
            let preflight = ask(preflight.header("Access-Control-Request-Method", "POST"));
            assert_eq!(preflight.status(), if *inside { 204 } else { 403 }, "{list} {client}");
            if !inside {
                refused(&answer, 403, "ip_not_allowed");
            }
        }
    }
    world
}

pub(crate) fn i2_ipv4_and_ipv4_in_ipv6_are_the_same_address_to_a_circuit(shell: Shell) {
    let rows: [Listed; 5] = [
        (json!("192.0.2.0/24"), &[("192.0.2.7", true), ("::ffff:192.0.2.7", true), ("::ffff:198.51.100.7", false)]),
        (json!("::ffff:192.0.2.0/120"), &[("192.0.2.200", true), ("192.0.3.1", false)]),
        (json!("2001:db8::/32"), &[("2001:db8::9", true), ("192.0.2.7", false)]),
        (json!("192.0.2.9/24"), &[("192.0.2.200", true)]),
        (json!("127.0.0.0/8"), &[("unreadable", false), ("127.0.0.1", true)]),
    ];
    let _world = judge_lists(shell, rows);
}

pub(crate) fn i3_a_broken_address_list_of_a_circuit_closes_its_door(shell: Shell) {
    let rows: [Listed; 6] = [
        (json!(null), &[("203.0.113.5", true)]),
        (json!(""), &[("203.0.113.5", true)]),
        (json!("  "), &[("203.0.113.5", true)]),
        (json!("10.0.0.0/33, office"), &[("10.0.0.1", false), ("203.0.113.5", false)]),
        (json!("192.0.2.1, bad"), &[("192.0.2.1", true), ("192.0.2.2", false)]),
        (json!("192.0.2.1,,"), &[("192.0.2.1", true), ("192.0.2.2", false)]),
    ];
    let mut world = judge_lists(shell, rows);
    // The address is judged before the credential, and a good credential does not help.
    let port = world.replicas[0].address().port();
    world.wildcard(20, "both", &[port], json!({"allowed_client_ips": "192.0.2.1", "open_to_public": false}));
    let from = |client: &str, request: Request| world.at("both", request.header("X-Forwarded-For", client));
    let token = world.token(20);
    refused(&from("192.0.2.2", Request::get("/debug/echo")), 403, "ip_not_allowed");
    refused(&from("192.0.2.2", Request::get("/debug/echo").bearer(&token)), 403, "ip_not_allowed");
    refused(&from("192.0.2.1", Request::get("/debug/echo")), 401, "missing_token");
    assert_eq!(from("192.0.2.1", Request::get("/debug/echo").bearer(&token)).status(), 200);
    // A list of which nothing, or not everything, can be read is said.
    world.worker().log().wait_for("office", PATIENCE);
}

/// 4.4(1): an unknown label is 404, whatever chain its request could have.
pub(crate) fn an_unknown_label_has_no_fallback(shell: Shell) {
    let (beside, world) = with_chain(shell);
    refused(&world.at("nobody", chat("qwen")), 404, "endpoint_not_found");
    refused(&world.at("nobody", chat("backup")), 404, "endpoint_not_found");
    assert_eq!(beside.replicas[0].requests(), 0, "nothing got there");
}

/// The two circuits, with a chain from either's model to a static backend, whose replica lives in a world of its own: it
/// must be there before the configuration is written.
fn with_chain(shell: Shell) -> (World, World) {
    let mut beside = shell.setup().without_bus().prepare();
    let spare = beside.replica("spare", &["backup"]);
    let world = two_circuits(shell, &with_spare(spare));
    (beside, world)
}

fn with_spare(port: u16) -> String {
    format!(
        "backends:\n  - name: spare\n    type: generic\n    url: \"http://127.0.0.1:{port}\"\n    models: [\"backup\"]\n\
         fallback:\n  fallback_chains:\n    qwen: [\"backup\"]\n    llama: [\"backup\"]\n"
    )
}

/// 4.4(5): the chain comes after address and token, and is no way around them.
pub(crate) fn fallback_comes_after_authentication(shell: Shell) {
    let (beside, mut world) = with_chain(shell);
    let token = world.token(2);
    world.kill_replica(1);
    let served = world.at("bar", chat("llama").bearer(&token));
    assert_eq!(served.status(), 200, "{}", served.text());
    assert_eq!(served.head.header("x-appproxy-fallback"), Some("backup"));
    assert!(served.text().contains("Hello from spare"), "{}", served.text());
    let refuses = |world: &World| {
        let before = beside.replicas[0].requests();
        refused(&world.at("bar", chat("llama")), 401, "missing_token");
        refused(&world.at("bar", chat("llama").bearer(&world.token(1))), 401, "token_mismatch");
        refused(&world.at("bar", chat("backup")), 401, "missing_token");
        assert_eq!(beside.replicas[0].requests(), before, "nothing refused got there");
    };
    refuses(&world);
    // The same with no replica left to try.
    world.set_routes(2, &[]);
    world.worker().log().wait_for("removed=1", PATIENCE);
    refuses(&world);
    let before = beside.replicas[0].requests();
    refused(&world.at_apex(chat("llama")), 401, "missing_token");
    // The static model itself is for operators' keys only.
    refused(&world.at_apex(chat("backup")), 404, "model_not_found");
    refused(&world.at_apex(chat("backup").bearer(&token)), 404, "model_not_found");
    assert_eq!(beside.replicas[0].requests(), before, "nothing refused got there");
    // Without a chain: 503.
    let mut world = two_circuits(shell, "");
    world.kill_replica(0);
    wait::until("the replica to be known as gone", PATIENCE, || {
        let answer = world.at("foo", any_chat());
        matches!((answer.status(), code(&answer).as_str()), (503, "model_unavailable") | (502, "upstream_error"))
    });
    // With no route at all there is nobody to try.
    world.set_routes(1, &[]);
    wait::until("the circuit to be empty", PATIENCE, || {
        let answer = world.at("foo", any_chat());
        answer.status() == 503 && code(&answer) == "model_unavailable"
    });
}

/// 4.4: per-circuit judgement on the aggregation surface.
pub(crate) fn the_apex_judges_circuit_by_circuit(shell: Shell) {
    let mut world = two_circuits(shell, "");
    let listed = |request: Request| -> Vec<String> {
        let answer = world.at_apex(request);
        assert_eq!(answer.status(), 200, "{}", answer.text());
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let data = body["data"].as_array().cloned().unwrap_or_default();
        data.iter().filter_map(|model| model["id"].as_str()).map(str::to_owned).collect()
    };
    let list = || Request::get("/v1/models");
    assert_eq!(listed(list()), ["qwen", "qwen-lora"], "what is public");
    assert_eq!(listed(list().bearer(&world.token(2))), ["llama", "qwen", "qwen-lora"]);
    assert_eq!(listed(list().bearer("nonsense")), ["qwen", "qwen-lora"]);

    let by = |answer: &Answer, replica: &str| answer.text().contains(&format!("Hello from {replica}"));
    assert!(by(&world.at_apex(chat("qwen")), "r1"));
    assert!(by(&world.at_apex(chat("qwen").bearer("nonsense")), "r1"), "public: the token is not looked at");
    assert!(by(&world.at_apex(chat("llama").bearer(&world.token(2))), "r2"));
    refused(&world.at_apex(chat("llama")), 401, "missing_token");
    refused(&world.at_apex(chat("llama").bearer("nonsense")), 401, "invalid_token");
    refused(&world.at_apex(chat("llama").bearer(&world.token(1))), 401, "token_mismatch");
    refused(&world.at_apex(chat("nobody")), 404, "model_not_found");
    refused(&world.at_apex(chat("nobody").bearer(&world.token(2))), 404, "model_not_found");
    refused(&world.at_apex(any_chat()), 400, "missing_model");

    // A second, private circuit of the same model serves only those with its token.
    let third = world.replica("r3", &["qwen"]);
    world.wildcard(3, "baz", &[third], json!({"open_to_public": false}));
    world.wait_model("baz", &world.token(3));
    let known = world.replicas[2].requests();
    for _ in 0..8 {
        assert!(by(&world.at_apex(chat("qwen").bearer(&world.token(2))), "r1"));
    }
    assert_eq!(world.replicas[2].requests(), known, "without its token nobody gets there");
    let token = world.token(3);
    wait::until("both circuits to serve", PATIENCE, || by(&world.at_apex(chat("qwen").bearer(&token)), "r3"));
    // A circuit whose list excludes the client is no candidate, and says so when that alone leaves none.
    let fourth = world.replica("r4", &["mistral"]);
    world.wildcard(4, "far", &[fourth], json!({"allowed_client_ips": "192.0.2.1"}));
    wait::until("the model to be known", PATIENCE, || {
        world.at_apex(chat("mistral").header("X-Forwarded-For", "192.0.2.1")).status() == 200
    });
    refused(&world.at_apex(chat("mistral").header("X-Forwarded-For", "192.0.2.2")), 403, "ip_not_allowed");
}

/// 4.4(4): the circuit's own names stay, anything else becomes its first one.
pub(crate) fn a_circuit_answers_to_its_own_model_whatever_is_asked(shell: Shell) {
    let world = two_circuits(shell, "");
    let model = |request: Request| {
        let answer = world.at("foo", request);
        assert_eq!(answer.status(), 200, "{}", answer.text());
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        assert!(answer.text().contains("Hello from r1"), "{}", answer.text());
        let model = body["model"].as_str().unwrap_or_default();
        // The worker says the same: once probes know what the replica lists, a name that is none of it is rewritten anyway.
        assert_eq!(answer.head.header("x-appproxy-model"), Some(model), "{}", answer.text());
        model.to_owned()
    };
    assert_eq!(model(chat("qwen")), "qwen");
    assert_eq!(model(chat("qwen-lora")), "qwen-lora", "the replica lists it");
    assert_eq!(model(chat("gpt-4o")), "qwen");
    assert_eq!(model(chat("llama")), "qwen", "another circuit's model is nothing here");
    assert_eq!(model(any_chat()), "qwen", "a missing one is inserted");
    for bad in [r#"{"model":"a","model":"b"}"#, r#"{"messages":["#, "[]", ""] {
        refused(&world.at("foo", Request::post_json("/v1/chat/completions", bad)), 400, "invalid_json");
    }
    // The list of a circuit's host is its replica's own.
    let list = world.at("foo", Request::get("/v1/models"));
    assert!(list.text().contains("qwen-lora") && !list.text().contains("llama"), "{}", list.text());
}

/// Pages about the node (worker-protocol 9, Legacy).
pub(crate) fn pages_answer_at_the_nodes_own_names_and_belong_to_the_replica_elsewhere(shell: Shell) {
    let world = two_circuits(shell, "");
    for own in ["127.0.0.1:8080", "[::1]", "localhost:1", "router.test", "Router.Test.", APEX, "all.test"] {
        for (path, said) in [("/health", "status"), ("/livez", ""), ("/readyz", ""), ("/status", "api_version")] {
            let answer = world.send(&Request::get(path).header("Host", own));
            assert_eq!(answer.status(), 200, "{own} {path}");
            assert!(answer.text().contains(said), "{own} {path}: {}", answer.text());
        }
    }
    let health = world.at("foo", Request::get("/health"));
    assert_eq!((health.status(), health.text().as_str()), (200, r#"{"status":"ok"}"#), "the replica's own");
    assert_eq!(world.at("foo", Request::get("/readyz")).status(), 404, "the replica has no such page");
    refused(&world.at("bar", Request::get("/health")), 401, "missing_token");
    refused(&world.at("nobody", Request::get("/health")), 404, "endpoint_not_found");
}

/// Worker-protocol 9: pre-flight is answered here, any other OPTIONS needs the credential.
pub(crate) fn a_browsers_question_needs_no_token_and_any_other_options_does(shell: Shell) {
    let world = two_circuits(shell, "");
    let question = || {
        Request::new("OPTIONS", "/v1/chat/completions")
            .header("Origin", "https://page.test")
            .header("Access-Control-Request-Method", "POST")
            .header("Access-Control-Request-Headers", "authorization, content-type")
    };
    for label in ["foo", "bar"] {
        let answer = world.at(label, question());
        assert_eq!(answer.status(), 204, "{}", answer.text());
        assert_eq!(answer.head.header("access-control-allow-origin"), Some("*"));
        let headers = answer.head.header("access-control-allow-headers").unwrap_or_default();
        assert!(headers.contains("authorization"), "{headers}");
        assert!(answer.head.header("access-control-allow-methods").is_some_and(|methods| methods.contains("POST")));
    }
    assert_eq!(world.at_apex(question()).status(), 204);
    refused(&world.at("nobody", question()), 404, "endpoint_not_found");
    let plain = || Request::new("OPTIONS", "/debug/echo").header("Origin", "https://page.test");
    refused(&world.at("bar", plain()), 401, "missing_token");
    let passed = world.at("bar", plain().bearer(&world.token(2)));
    assert!(passed.text().contains("\"method\":\"OPTIONS\""), "{}", passed.text());
    // Refusals can be read by the page as well.
    let refusal = world.at("bar", any_chat().header("Origin", "https://page.test"));
    assert_eq!((refusal.status(), refusal.head.header("access-control-allow-origin")), (401, Some("*")));
}

/// Worker-protocol 9, Legacy: the last one by event has the name, and the other gets it back.
pub(crate) fn two_circuits_of_one_label_and_a_removal(shell: Shell) {
    let mut world = two_circuits(shell, "");
    let served_by = |world: &World| -> String {
        let answer = world.at("foo", Request::get("/debug/echo"));
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        body["served_by"].as_str().unwrap_or_default().to_owned()
    };
    let other = world.replica("r9", &["other"]);
    world.wildcard(9, "FOO", &[other], json!({}));
    assert_eq!(served_by(&world), "r9", "labels are compared in lower case, and the creation was acked");
    world.done("DELETE", &format!("/dev/circuits/{}", endpoint(9)), &Value::Null);
    wait::until("the first one to be back", PATIENCE, || served_by(&world) == "r1");
    world.done("DELETE", &format!("/dev/circuits/{}", endpoint(1)), &Value::Null);
    wait::until("the label to be gone", PATIENCE, || {
        world.send(&any_chat().header("Host", &host("foo"))).status() == 404
    });
    // An old token opens nothing any more, also when the name comes back.
    world.wildcard(11, "foo", &[other], json!({"open_to_public": false}));
    let old = appproxy_fixtures::wire::token::mint(
        appproxy_tests::wildcard::JWT_SECRET,
        &appproxy_tests::wildcard::claims(1),
    );
    refused(&world.at("foo", Request::get("/debug/echo").bearer(&old)), 401, "token_mismatch");
    assert_eq!(world.at("foo", Request::get("/debug/echo").bearer(&world.token(11))).status(), 200);
}
