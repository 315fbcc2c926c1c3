//! A circuit whose model is not known yet (worker-protocol 4.2).

use crate::world::{World, at, bearer, chat, open, replica, request};

const HOST: &str = "foo.models.example.com";

#[test]
fn model_aware_requests_wait_and_all_others_pass() {
    let mut world = World::new(vec![at(1, "foo", 1)]).chain("m", &["spare-model"]);
    assert_eq!(world.serving.view().backends().count(), 0, "tracked, no backends");
    let own = bearer(1);
    for parts in [
        chat(HOST, &[&own]),
        request("POST", HOST, "/v1/messages", &[&own]),
        request("POST", HOST, "/rerank", &[&own]),
        request("POST", HOST, "/v1beta/models/m:countTokens", &[&own]),
    ] {
        assert_eq!(world.verdict(parts, r#"{"model":"m"}"#), "503 model_not_ready");
    }
    let answer = world.admit(chat(HOST, &[&own]), "").unwrap_err();
    assert!(answer.headers.contains_key("retry-after"));
    // It does not say to a stranger that there is something.
    assert_eq!(world.verdict(chat(HOST, &[]), "{}"), "401 missing_token");
    for path in ["/", "/v1/models", "/health", "/metrics"] {
        assert_eq!(world.verdict(request("GET", HOST, path, &[&own]), ""), replica(1, 0), "{path}");
        assert_eq!(world.verdict(request("GET", HOST, path, &[]), ""), "401 missing_token", "{path}");
    }
    assert_eq!(world.verdict(chat("models.example.com", &[&own]), r#"{"model":"m"}"#), "404 model_not_found");
}

#[test]
fn a_request_between_two_states_follows_the_new_one() {
    let mut world = World::new(vec![open(at(1, "foo", 1))]);
    let (_, attempt) = world.try_reach(request("GET", HOST, "/", &[]), "").unwrap();
    drop(attempt);
    let choosing = world.admit(request("GET", HOST, "/", &[]), "").unwrap();
    world = world.list(1, &["m"]);
    let (attempt, _) = world.choose(choosing).unwrap();
    assert_eq!(attempt.backend().name.to_string(), replica(1, 0));
}

#[test]
fn routes_that_cannot_be_reached_do_not_matter_to_a_held_circuit() {
    let mut world = World::new(vec![open(at(1, "foo", 0))]);
    assert_eq!(world.verdict(request("GET", HOST, "/", &[]), ""), "503 model_unavailable");
}
