//! Fallback of a circuit: after host, address and token, and no way around them (worker-protocol 4.4, 5; R3).

use appproxy_core::wire::circuit::Circuit;

use crate::world::{World, at, bearer, chat, open, replica, request};

const HOST: &str = "foo.models.example.com";

#[test]
fn the_chain_of_the_canonical_model_takes_over() {
    for (body, model) in [(r#"{"model":"lora"}"#, "lora"), (r#"{"model":"gpt"}"#, "base"), ("{}", "base")] {
        let mut world = World::new(vec![at(1, "foo", 1)]).list(1, &["base", "lora"]).chain("base", &["spare-model"]);
        let (mut tried, _) = world.all_fail(chat(HOST, &[&bearer(1)]), body);
        // The last one that is left is asked more than once.
        tried.dedup();
        assert_eq!(tried, [replica(1, 0), "spare".to_owned()], "{model}");
        let mut none = World::new(vec![at(1, "foo", 0)]).list(1, &["base", "lora"]).chain("base", &["spare-model"]);
        let reached = none.reach(chat(HOST, &[&bearer(1)]), body);
        assert_eq!((reached.backend.as_str(), reached.body.as_str()), ("spare", r#"{"model":"spare-model"}"#));
        // Not without the token.
        assert_eq!(none.all_fail(chat(HOST, &[]), body), (vec![], "401 missing_token".to_owned()));
    }
}

#[test]
fn without_a_chain_it_is_unavailable() {
    let mut world = World::new(vec![at(1, "foo", 0)]).list(1, &["m"]);
    assert_eq!(world.verdict(chat(HOST, &[&bearer(1)]), "{}"), "503 model_unavailable");
}

#[test]
fn a_stand_in_is_public_or_static_and_never_anothers() {
    let private = || at(2, "bar", 1);
    let elsewhere = || Circuit { allowed_client_ips: Some("10.0.0.0/8".to_owned()), ..open(private()) };
    for (second, wanted) in [(private(), None), (elsewhere(), None), (open(private()), Some(replica(2, 0)))] {
        let mut world = World::new(vec![at(1, "foo", 1), second]).list(1, &["m"]).list(2, &["n"]).chain("m", &["n"]);
        let (tried, verdict) = world.all_fail(chat(HOST, &[&bearer(1)]), "{}");
        let mut tried: Vec<_> = tried.into_iter().filter(|name| *name != replica(1, 0)).collect();
        tried.dedup();
        assert_eq!((tried, verdict.as_str()), (wanted.into_iter().collect(), "502 upstream_error"));
    }
}

#[test]
fn a_stand_in_must_speak_what_the_request_speaks() {
    let mut world = World::new(vec![at(1, "foo", 0)]).list(1, &["m"]).chain("m", &["spare-model"]);
    let gemini = request("POST", HOST, "/v1beta/models/m:generateContent", &[&bearer(1)]);
    assert_eq!(world.verdict(gemini, "{}"), "503 model_unavailable");
}
