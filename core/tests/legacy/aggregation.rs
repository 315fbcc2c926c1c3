//! All circuits by model name, each judged by itself (worker-protocol 4.4; 9, Legacy).

use std::collections::BTreeSet;

use appproxy_core::wire::circuit::Circuit;

use crate::world::{World, at, bearer, chat, open, replica, request, said, token_until};

const HOSTS: [&str; 3] = ["models.example.com", "ALL.example.com:443", "models.example.com."];

/// `m` on a private circuit and on two public ones, `p` on a private one, `far` on a public one for others' addresses.
fn world() -> World {
    let far = Circuit { allowed_client_ips: Some("10.0.0.0/8".to_owned()), ..open(at(5, "five", 1)) };
    let circuits = vec![at(1, "one", 1), open(at(2, "two", 1)), open(at(3, "three", 1)), at(4, "four", 1), far];
    World::new(circuits).list(1, &["m", "lora"]).list(2, &["m"]).list(3, &["m"]).list(4, &["p"]).list(5, &["far"])
}

fn ask(model: &str) -> String {
    format!(r#"{{"model":"{model}"}}"#)
}

/// The circuits (by their only replica) that requests for a model reach.
fn spread(world: &mut World, lines: &[&str], model: &str) -> BTreeSet<String> {
    (0..60).map(|_| world.verdict(chat(HOSTS[0], lines), &ask(model))).collect()
}

#[test]
fn candidates_are_public_circuits_and_the_tokens_own() {
    let mut world = world();
    let public = BTreeSet::from([replica(2, 0), replica(3, 0)]);
    assert_eq!(spread(&mut world, &[], "m"), public);
    assert_eq!(spread(&mut world, &["authorization: Bearer nonsense"], "m"), public);
    assert_eq!(spread(&mut world, &[&bearer(4)], "m"), public);
    let with_own = public.into_iter().chain([replica(1, 0)]).collect();
    assert_eq!(spread(&mut world, &[&bearer(1)], "m"), with_own);
    for host in HOSTS {
        assert_eq!(world.verdict(chat(host, &[&bearer(4)]), &ask("p")), replica(4, 0), "{host}");
    }
    assert_eq!(world.verdict(chat(HOSTS[0], &[&bearer(1)]), &ask("lora")), replica(1, 0));
}

#[test]
fn with_no_candidate_left_the_credential_or_the_address_is_named() {
    let mut world = world().chain("p", &["spare-model"]);
    let expired = format!("authorization: Bearer {}", token_until(4, -600));
    for (lines, model, verdict) in [
        (&[][..], "p", "401 missing_token"),
        (&["authorization: Bearer x.y.z"], "p", "401 invalid_token"),
        (&[expired.as_str()], "p", "401 expired_token"),
        (&[bearer(1).as_str()], "p", "401 token_mismatch"),
        (&[], "lora", "401 missing_token"),
        (&[], "far", "403 ip_not_allowed"),
        (&[bearer(1).as_str()], "unknown", "404 model_not_found"),
        (&[], "spare-model", "404 model_not_found"),
    ] {
        assert_eq!(world.all_fail(chat(HOSTS[0], lines), &ask(model)), (vec![], verdict.to_owned()), "{model}");
        let get = request("GET", HOSTS[0], &format!("/v1/models/{model}"), lines);
        assert_eq!(world.verdict(get, ""), verdict, "{model}");
    }
}

#[test]
fn the_listing_is_what_the_caller_may_use() {
    let mut world = world();
    let mut listed = |lines: &[&str]| {
        let answer = world.admit(request("GET", "all.example.com", "/v1/models", lines), "").unwrap_err();
        assert_eq!(said(&answer), "200");
        let list: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        let ids = list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(listed(&[]), ["m"]);
    assert_eq!(listed(&[&bearer(1)]), ["lora", "m"]);
    assert_eq!(listed(&[&bearer(4)]), ["m", "p"]);
    assert_eq!(listed(&["authorization: Bearer sk-root"]), ["m", "spare-model"]);
}

#[test]
fn models_are_needed_here() {
    let mut world = world();
    for (body, verdict) in
        [("{}", "400 missing_model"), (r#"{"model":null}"#, "400 invalid_model"), ("", "400 invalid_json")]
    {
        assert_eq!(world.verdict(chat(HOSTS[0], &[]), body), verdict);
    }
    assert_eq!(world.verdict(request("GET", HOSTS[0], "/docs", &[]), ""), "404 unknown_path");
    assert_eq!(world.verdict(request("GET", HOSTS[0], "/v1/chat/completions", &[]), ""), "405 method_not_allowed");
}

#[test]
fn static_models_are_for_operator_keys() {
    let mut world = world();
    let root = ["authorization: Bearer sk-root"];
    assert_eq!(world.verdict(chat(HOSTS[0], &root), &ask("spare-model")), "spare");
    assert_eq!(world.verdict(chat(HOSTS[0], &["x-api-key: sk-root"]), &ask("m")).len(), replica(2, 0).len());
    // Its limit counts: two a minute.
    assert_eq!(world.verdict(chat(HOSTS[0], &root), &ask("m")), "429 rate_limit_exceeded");
    // It opens no circuit.
    world.now.moment = world.now.moment.after(std::time::Duration::from_secs(120));
    assert_eq!(world.verdict(chat(HOSTS[0], &root), &ask("p")), "401 invalid_token");
    assert_eq!(world.verdict(chat("four.models.example.com", &root), &ask("p")), "401 invalid_token");
}

#[test]
fn a_circuit_without_replicas_leaves_its_part_to_the_others() {
    let mut world = World::new(vec![open(at(1, "one", 0)), open(at(2, "two", 1))]).list(1, &["m"]).list(2, &["m"]);
    assert_eq!(spread(&mut world, &[], "m"), BTreeSet::from([replica(2, 0)]));
    let mut world = World::new(vec![open(at(1, "one", 1)), open(at(2, "two", 1)), at(3, "three", 1)])
        .list(1, &["m"])
        .list(2, &["m"])
        .list(3, &["m"])
        .chain("m", &["spare-model"]);
    // One after the other, then the chain; never the one that is private.
    for _ in 0..10 {
        let (tried, verdict) = world.all_fail(chat(HOSTS[0], &[]), &ask("m"));
        assert_eq!(tried.iter().collect::<BTreeSet<_>>().len(), 3, "{tried:?}");
        assert!(!tried.contains(&replica(3, 0)) && tried.last().is_some_and(|last| last == "spare"), "{tried:?}");
        assert_eq!(verdict, "502 upstream_error");
    }
}
