use super::*;
use crate::access::address::Peer;
use crate::exchange::testing::{ENDS, World, key, operator, request, said, standing};
use crate::exchange::{Connection, Control, OperatorKey, OperatorKeys};
use crate::time::{Moment, UnixMillis};
use crate::wire::key::ApiKey;
use core::time::Duration;

const M1: &str = "{\"model\":\"m1\"}";
const GPT: &str = "{\"model\":\"gpt\"}";

fn id(world: &mut World, path: &str, lines: &[&str]) -> String {
    match world.admit(request("POST", path, lines), M1) {
        Ok(admitted) => admitted.gone().trail.key_id().map_or_else(|| "anyone".to_owned(), ToString::to_string),
        Err(answer) => match answer.outcome.trail.key_id() {
            Some(id) => id.to_string(),
            None => said(&answer),
        },
    }
}

#[test]
fn the_first_place_that_holds_a_key_decides() {
    let mut world = World::new();
    for (lines, wanted) in [
        (&["authorization: Bearer all"][..], "id-of-all"),
        (&["authorization: bEaReR   all "], "id-of-all"),
        (&["authorization: Bearer all", "x-api-key: some"], "id-of-all"),
        (&["authorization: Bearer nope", "x-api-key: some"], "401 invalid_api_key"),
        (&["authorization: Basic all", "x-api-key: some"], "id-of-some"),
        (&["authorization: Bearer ", "x-api-key: some"], "id-of-some"),
        (&["authorization: Bearer", "x-api-key: some"], "id-of-some"),
        (&["authorization: Bearerall"], "401 missing_api_key"),
        (&["authorization: all"], "401 missing_api_key"),
        (&["x-api-key: some"], "id-of-some"),
        (&["x-api-key: SOME"], "401 invalid_api_key"),
        (&["x-goog-api-key: all"], "401 missing_api_key"),
        (&[], "401 missing_api_key"),
    ] {
        assert_eq!(id(&mut world, "/v1/messages?key=all", lines), wanted, "{lines:?}");
    }
    for (query, lines, wanted) in [
        ("", &["x-goog-api-key: all"][..], "id-of-all"),
        ("?key=all", &[], "id-of-all"),
        ("?alt=sse&k%65y=all&x=1", &[], "id-of-all"),
        ("?key=&key=all", &[], "id-of-all"),
        ("?key=all", &["x-goog-api-key: some"], "id-of-some"),
        ("?key=all", &["x-api-key: some", "x-goog-api-key: nope"], "id-of-some"),
        ("?key=nope", &["authorization: Bearer some"], "id-of-some"),
        ("?key=nope", &[], "401 invalid_api_key"),
        ("?keys=all&Key=all", &[], "401 missing_api_key"),
    ] {
        assert_eq!(
            id(&mut world, &format!("/v1beta/models/m1:countTokens{query}"), lines),
            wanted,
            "{query} {lines:?}"
        );
    }
}

/// A target once its key was looked for.
fn left_of(target: &str) -> String {
    let mut passage = Carried::new(request("POST", target, &[]), Connection::new(Peer::Unix, false));
    passage.trail.surface = Surface::of_path(passage.parts.uri.path());
    take(&mut passage).unwrap();
    passage.parts.uri.to_string()
}

#[test]
fn a_key_in_the_query_is_taken_out_of_it() {
    for (query, left) in [
        ("?key=secret", ""),
        ("?alt=sse&key=secret", "?alt=sse"),
        ("?key=secret&alt=sse&k%65y=secret2&key", "?alt=sse"),
        ("?alt=sse", "?alt=sse"),
        ("?", "?"),
    ] {
        let left = format!("/v1beta/models/m1:countTokens{left}");
        assert_eq!(left_of(&format!("/v1beta/models/m1:countTokens{query}")), left);
    }
    assert_eq!(left_of("/v1/completions?key=mine"), "/v1/completions?key=mine");
}

#[test]
fn expiry_is_exact_and_by_the_wall_clock() {
    let mut world = World::new();
    for (wall, wanted) in [(-1, "id-of-old"), (0, "401 expired_api_key"), (1, "401 expired_api_key")] {
        world.now.wall = UnixMillis(ENDS.0 + wall);
        assert_eq!(id(&mut world, "/v1/messages", &["x-api-key: old"]), wanted);
    }
}

#[test]
fn two_ids_of_one_key_are_judged_by_the_first_that_is_valid_now() {
    let hash = key("shared").token_hash;
    let first = ApiKey { token_hash: hash, expires_at: Some(ENDS), ..key("1") };
    let mut world = World::with_keys(vec![ApiKey { token_hash: hash, ..key("2") }, first]);
    assert_eq!(id(&mut world, "/v1/messages", &["x-api-key: shared"]), "id-of-1");
    world.now.wall = ENDS;
    assert_eq!(id(&mut world, "/v1/messages", &["x-api-key: shared"]), "id-of-2");
}

#[test]
fn k1_without_a_key_set_or_with_one_too_old_only_operators_get_in() {
    let mut world = World::new();
    let verdict = |world: &mut World, lines: &[&str]| world.verdict(request("POST", "/v1/messages", lines), M1);
    let mut stale = standing();
    stale.max_key_staleness = Some(Duration::from_secs(60));
    world.control = Control::Worker { authority: "here".into(), standing: stale };
    world.now.moment = Moment::from_millis(60_000);
    assert_eq!(verdict(&mut world, &["x-api-key: all"]), "let through");
    world.now.moment = Moment::from_millis(60_001);
    assert_eq!(verdict(&mut world, &["x-api-key: all"]), "503 not_ready");
    assert_eq!(verdict(&mut world, &["x-api-key: nope"]), "503 not_ready");
    assert_eq!(verdict(&mut world, &["x-api-key: root"]), "let through");
    assert_eq!(verdict(&mut world, &[]), "401 missing_api_key");

    let mut unloaded = World::new();
    let mut desired = crate::exchange::testing::desired();
    unloaded.show(&mut desired);
    assert!(!unloaded.view.keys_loaded());
    let answer = unloaded.answer(request("POST", "/v1/messages", &["x-api-key: all"]), M1);
    assert_eq!(said(&answer), "503 not_ready");
    assert!(answer.headers.contains_key("retry-after"));
    assert_eq!(verdict(&mut unloaded, &[]), "401 missing_api_key");
    assert_eq!(verdict(&mut unloaded, &["x-api-key: root"]), "let through");
    unloaded.control = Control::Unknown;
    assert_eq!(verdict(&mut unloaded, &["x-api-key: all"]), "503 not_ready");
}

#[test]
fn operator_keys_follow_the_same_rules_and_see_static_models() {
    let mut world = World::new();
    world.rules.operator_keys = OperatorKeys::new([
        operator("root"),
        OperatorKey { allowed_models: vec!["gpt".into()], ..operator("narrow") },
        OperatorKey { rate_limit: Some(1), ..operator("once") },
        OperatorKey { expires_at: Some(ENDS), ..operator("brief") },
        OperatorKey { allowed_client_ips: Some(vec!["10.0.0.0/8".to_owned()]), ..operator("inside") },
    ]);
    let mut verdict = |key: &str, body: &str| {
        world.verdict(request("POST", "/v1/completions", &[&format!("x-api-key: {key}")]), body)
    };
    assert_eq!(verdict("root", M1), "let through");
    assert_eq!(verdict("root", GPT), "let through");
    assert_eq!(verdict("all", GPT), "404 model_not_found");
    assert_eq!(verdict("narrow", GPT), "let through");
    assert_eq!(verdict("narrow", M1), "403 model_not_allowed");
    assert_eq!(verdict("once", M1), "let through");
    assert_eq!(verdict("once", M1), "429 rate_limit_exceeded");
    assert_eq!(verdict("brief", M1), "let through");
    assert_eq!(verdict("inside", M1), "403 ip_not_allowed");
    world.now.wall = ENDS;
    assert_eq!(world.verdict(request("POST", "/v1/completions", &["x-api-key: brief"]), M1), "401 expired_api_key");
}

#[test]
fn each_gate_wants_its_keys() {
    let mut world = World::new();
    for (gate, none, wrong, model_key, root) in [
        (KeyGate::Open, "let through", "let through", "let through", "let through"),
        (KeyGate::Permissive, "let through", "401 invalid_api_key", "401 invalid_api_key", "let through"),
        (KeyGate::Blocking, "401 missing_api_key", "401 invalid_api_key", "401 invalid_api_key", "let through"),
        (KeyGate::Published, "401 missing_api_key", "401 invalid_api_key", "let through", "let through"),
    ] {
        world.rules.key_gate = gate;
        let mut verdict = |lines: &[&str]| world.verdict(request("POST", "/v1/completions", lines), M1);
        assert_eq!(verdict(&[]), none, "{gate:?}");
        assert_eq!(verdict(&["x-api-key: nope"]), wrong, "{gate:?}");
        assert_eq!(verdict(&["x-api-key: all"]), model_key, "{gate:?}");
        assert_eq!(verdict(&["x-api-key: root"]), root, "{gate:?}");
    }
}
