//! A request on a circuit's host is that circuit's, under its canonical model (worker-protocol 4.4, 4; 9, Legacy).

use crate::states::circuit_id;
use crate::world::{World, at, bearer, chat, open, replica, request, said};

const HOST: &str = "foo.models.example.com";

fn world() -> World {
    World::new(vec![open(at(1, "foo", 1)), open(at(2, "bar", 1))]).list(1, &["org/base", "lora"]).list(2, &["other"])
}

#[track_caller]
fn body_at_replica(body: &str, wanted: &str) {
    let reached = world().reach(chat(HOST, &[]), body);
    assert_eq!((reached.backend, reached.body.as_str()), (replica(1, 0), wanted));
    assert_eq!(reached.headers["content-length"], wanted.len().to_string());
}

#[test]
fn listed_names_stay_and_all_others_become_the_canonical_one() {
    body_at_replica(r#"{"model":"org/base","x":1}"#, r#"{"model":"org/base","x":1}"#);
    body_at_replica(r#"{"model":"lora","x":1}"#, r#"{"model":"lora","x":1}"#);
    body_at_replica(r#"{"model":"other"}"#, r#"{"model":"org/base"}"#);
    body_at_replica(r#"{"a":[{"model":"x"}],"model" : "gpt-4o" }"#, r#"{"a":[{"model":"x"}],"model" : "org/base" }"#);
    body_at_replica(r#"{"model":""}"#, r#"{"model":"org/base"}"#);
    body_at_replica(r#"{"model":null}"#, r#"{"model":"org/base"}"#);
}

#[test]
fn a_missing_model_is_put_in() {
    body_at_replica("{}", r#"{"model":"org/base"}"#);
    body_at_replica(" { } ", r#" {"model":"org/base" } "#);
    body_at_replica(r#"{"messages":[]}"#, r#"{"model":"org/base","messages":[]}"#);
}

#[test]
fn what_cannot_be_read_is_400() {
    let mut world = world();
    for (body, verdict) in [
        ("", "400 invalid_json"),
        ("[]", "400 invalid_json"),
        (r#"{"model":"a","model":"b"}"#, "400 invalid_json"),
        (r#"{"model":"a","stream":true,"stream":false}"#, "400 invalid_json"),
        (r#"{"model":"a""#, "400 invalid_json"),
        (r#"{"model":42}"#, "400 invalid_model"),
        (r#"{"model":["a"]}"#, "400 invalid_model"),
    ] {
        assert_eq!(world.verdict(chat(HOST, &[]), body), verdict, "{body}");
    }
}

#[test]
fn a_form_gets_its_model_part() {
    let kind = "content-type: multipart/form-data; boundary=xyz";
    let audio = "--xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nabc\r\n--xyz--\r\n";
    let named =
        |name: &str| format!("--xyz\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n{name}\r\n{audio}");
    for (body, wanted) in [
        (named("lora"), named("lora")),
        (named("whisper-1"), named("org/base")),
        (named(""), named("org/base")),
        (audio.to_owned(), named("org/base")),
        (format!("preamble\r\n{audio}"), format!("preamble\r\n{}", named("org/base"))),
    ] {
        let parts = request("POST", HOST, "/v1/audio/transcriptions", &[kind]);
        assert_eq!(world().reach(parts, &body).body, wanted);
    }
}

#[test]
fn a_gemini_path_gets_the_canonical_model_and_reaches_the_circuits_own_replicas() {
    for (asked, there) in [("gemini-pro", "org%2Fbase"), ("lora", "lora"), ("org%2Fbase", "org%2Fbase")] {
        let path = format!("/v1beta/models/{asked}:generateContent?alt=sse");
        let reached = world().reach(request("POST", HOST, &path, &[]), "{}");
        let wanted = format!("http://10.0.0.10:8000/v1beta/models/{there}:generateContent?alt=sse");
        assert_eq!((reached.uri, reached.body), (wanted, "{}".to_owned()));
    }
}

#[test]
fn the_answer_names_the_model_that_served() {
    let mut world = world();
    let (_, attempt) = world.try_reach(chat(HOST, &[]), r#"{"model":"gpt-4o"}"#).unwrap();
    let Ok(appproxy_core::exchange::Head::Commit(committed, head)) =
        world.reply(attempt, 200, &["content-type: application/json"])
    else {
        panic!("not committed");
    };
    assert_eq!(head.headers["x-appproxy-model"], "org/base");
    assert_eq!(committed.trail().known_model().map(|name| &**name), Some("org/base"));
}

#[test]
fn only_the_circuits_own_replicas_are_candidates() {
    // Both circuits serve the same model, and even the same endpoint.
    let mut second = open(at(2, "bar", 1));
    second.endpoint_id = at(1, "", 0).endpoint_id;
    let mut world = World::new(vec![open(at(1, "foo", 2)), second]).list(1, &["m"]);
    let (mut tried, verdict) = world.all_fail(chat(HOST, &[]), r#"{"model":"m"}"#);
    tried.sort();
    tried.dedup();
    assert_eq!((tried, verdict.as_str()), (vec![replica(1, 0), replica(1, 1)], "502 upstream_error"));
}

#[test]
fn replicas_are_weighed_by_their_traffic_ratio() {
    let mut circuit = open(at(1, "foo", 3));
    for (route, ratio) in circuit.routes.iter_mut().zip([3.0, 1.0, 0.0]) {
        route.traffic_ratio.0 = ratio;
    }
    let mut world = World::new(vec![circuit]).list(1, &["m"]);
    let mut counts = [0; 3];
    for _ in 0..400 {
        let backend = world.reach(chat(HOST, &[]), r#"{"model":"m"}"#).backend;
        let at = (0..3).find(|at| replica(1, *at) == backend).unwrap();
        counts[usize::try_from(at).unwrap()] += 1;
    }
    assert!((298..=302).contains(&counts[0]) && counts[2] == 0, "{counts:?}");
}

#[test]
fn credentials_go_no_further_unless_they_are_to() {
    let circuit = || vec![at(1, "foo", 1)];
    let mut world = World::new(circuit()).list(1, &["m"]);
    assert!(!world.reach(chat(HOST, &[&bearer(1)]), "{}").headers.contains_key("authorization"));
    world.rules.forward_credentials = true;
    assert!(world.reach(chat(HOST, &[&bearer(1)]), "{}").headers.contains_key("authorization"));
    // What opens this circuit is nobody else's.
    let mut world = World::new(circuit()).list(1, &["m"]).chain("m", &["spare-model"]);
    world.rules.forward_credentials = true;
    let choosing = world.admit(chat(HOST, &[&bearer(1)]), "{}").unwrap();
    let (attempt, _) = world.choose(choosing).unwrap();
    let choosing = world.fail(attempt, appproxy_core::exchange::FailStage::Connect).unwrap();
    let (attempt, request) = world.choose(choosing).unwrap();
    assert_eq!(&*attempt.backend().name, "spare");
    assert!(!request.headers().contains_key("authorization"));
}

#[test]
fn a_circuit_that_closes_meanwhile_gets_no_further_attempt() {
    let mut world = World::new(vec![open(at(1, "foo", 2))]).list(1, &["m"]);
    let choosing = world.admit(chat(HOST, &[]), "{}").unwrap();
    world.desired.upsert_circuit(at(1, "foo", 2));
    world.show();
    assert_eq!(said(&world.choose(choosing).unwrap_err()), "503 model_unavailable");
    world.desired.remove_circuit(circuit_id(1));
    world.show();
    assert_eq!(world.verdict(chat(HOST, &[]), "{}"), "404 endpoint_not_found");
}
