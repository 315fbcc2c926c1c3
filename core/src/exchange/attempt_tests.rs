use super::*;
use crate::exchange::EndOfBody;
use crate::exchange::testing::{Sent, World, chat, header, request, said};
use crate::wire::ids::CircuitId;
use bytes::Bytes;
use uuid::Uuid;

fn first(world: &mut World, parts: http::request::Parts, model: &str) -> Sent {
    world.first(parts, model)
}

fn fail(world: &mut World, tried: Sent, stage: FailStage, failure: Failure) -> Sent {
    world.fail(tried.unwrap().0, stage, failure)
}

#[test]
fn after_a_failed_connection_the_other_replica_is_asked_the_same() {
    for failure in [Failure::Broke, Failure::TimedOut] {
        let mut world = World::new();
        let one = first(&mut world, chat("all"), "two");
        let (attempt, request) = one.as_ref().unwrap();
        let (name, uri, headers) = (attempt.backend().name.clone(), request.uri().clone(), request.headers().clone());
        let two = fail(&mut world, one, FailStage::Connect, failure);
        let (attempt, request) = two.as_ref().unwrap();
        assert_ne!(attempt.backend().name, name);
        assert_ne!(*request.uri(), uri);
        assert_eq!(request.body().clone().into_frames().concat(), b"{\"model\":\"two\"}");
        for (other, value) in &headers {
            assert!(other == "host" || request.headers().get(other) == Some(value), "{other}");
        }
        let last = attempt.backend().name.clone();
        let answer = fail(&mut world, two, FailStage::Connect, failure).unwrap_err();
        assert_eq!(said(&answer), "502 upstream_error");
        assert_eq!((answer.outcome.trail.attempts(), answer.outcome.trail.backend()), (2, Some(&last)));
        assert_eq!(header(&answer.headers, "x-appproxy-backend"), &*last);
        assert_eq!(header(&answer.headers, "x-appproxy-model"), "two");
    }
}

#[test]
fn r6_no_address_reaches_the_client() {
    let mut world = World::new();
    world.rules.max_retries = 0;
    let one = first(&mut world, chat("all"), "m1");
    let answer = fail(&mut world, one, FailStage::Connect, Failure::Broke).unwrap_err();
    assert_eq!(said(&answer), "502 upstream_error");
    let text = format!("{:?} {:?}", answer.body, answer.headers);
    assert!(!text.contains("10.9.9.9") && !text.contains("9000"), "{text}");
}

#[test]
fn a_silent_replica_is_not_followed_by_another() {
    for stage in [FailStage::SendHead, FailStage::AwaitHead, FailStage::Stale] {
        let mut world = World::new();
        let one = first(&mut world, chat("all"), "two");
        let answer = fail(&mut world, one, stage, Failure::TimedOut).unwrap_err();
        assert_eq!(said(&answer), "504 upstream_timeout");
        assert_eq!(answer.outcome.trail.attempted()[0].ended.end, AttemptEnd::Silent);
    }
}

#[test]
fn candidates_are_bounded_by_the_rules() {
    let mut world = World::new();
    world.rules.max_retries = 0;
    let one = first(&mut world, chat("all"), "two");
    let answer = fail(&mut world, one, FailStage::Connect, Failure::Broke).unwrap_err();
    assert_eq!((said(&answer).as_str(), answer.outcome.trail.attempts()), ("502 upstream_error", 1));
}

#[test]
fn a_model_without_replicas_is_unavailable_for_now() {
    let mut world = World::new();
    let answer = first(&mut world, chat("all"), "empty").unwrap_err();
    assert_eq!(said(&answer), "503 model_unavailable");
    assert!(!header(&answer.headers, "retry-after").is_empty());
    assert_eq!(answer.headers.get("x-appproxy-backend"), None);
    assert_eq!(answer.outcome.trail.known_model().map(|name| &**name), Some("empty"));
}

#[test]
fn the_next_attempt_chooses_from_the_view_of_its_own_moment() {
    let mut world = World::new();
    let one = first(&mut world, chat("all"), "two");
    let mut desired = crate::exchange::testing::desired();
    desired.remove_circuit(CircuitId(Uuid::from_u128(20)));
    world.show(&mut desired);
    let answer = fail(&mut world, one, FailStage::Connect, Failure::Broke).unwrap_err();
    assert_eq!((said(&answer).as_str(), answer.outcome.trail.attempts()), ("502 upstream_error", 1));
}

#[test]
fn a_backend_that_does_not_speak_the_surface_is_not_asked() {
    let mut world = World::new();
    let asked = |path: &str| request("POST", path, &["x-api-key: root"]);
    for (path, model, speaks) in [
        ("/v1/messages", "m1", true),
        ("/rerank", "m1", true),
        ("/v1/messages", "gpt", false),
        ("/rerank", "gpt", false),
        ("/v1/chat/completions", "g", true),
        ("/v1/chat/completions", "claude", false),
        ("/v1/messages", "claude", true),
    ] {
        let tried = first(&mut world, asked(path), model);
        match tried {
            Ok(_) => assert!(speaks, "{path} {model}"),
            Err(answer) => {
                assert_eq!((said(&answer).as_str(), speaks), ("501 not_supported", false), "{path} {model}");
                assert_eq!((answer.outcome.trail.backend(), answer.outcome.trail.attempts()), (None, 0));
            }
        }
    }
    // With the model in the path, before the body is read.
    let gemini = |model: &str| asked(&format!("/v1beta/models/{model}:generateContent"));
    for (model, wanted) in [("m1", Some("501 not_supported")), ("gemini", None), ("empty", None)] {
        let passed = world.pass(gemini(model)).map(|_| ()).map_err(|answer| said(&answer));
        assert_eq!(passed.err().as_deref(), wanted, "{model}");
    }
}

#[test]
fn an_alias_of_a_static_backend_becomes_its_own_name() {
    let mut world = World::new();
    let (_, request) = first(&mut world, chat("root"), "g").unwrap();
    assert_eq!(request.uri(), "https://openai.example.com:443/v1/chat/completions");
    assert_eq!(header(request.headers(), "authorization"), "Bearer backend-secret");
    assert_eq!(request.into_body().into_frames().concat(), b"{\"model\":\"gpt\"}");
}

#[test]
fn a_client_that_goes_ends_the_attempt() {
    let mut world = World::new();
    let (attempt, _) = first(&mut world, chat("all"), "m1").unwrap();
    let outcome = attempt.gone();
    assert_eq!((outcome.status.as_u16(), outcome.end), (499, EndOfBody::DownstreamGone));
    assert_eq!(outcome.trail.attempts(), 1);
}

#[test]
fn k4_no_state_shows_a_key_or_a_body() {
    let mut world = World::new();
    let secret = |parts: &http::request::Parts| {
        let mut parts = parts.clone();
        parts.headers.insert("x-goog-api-key", "marked-other".parse().unwrap());
        parts
    };
    world.rules.key_gate = crate::exchange::KeyGate::Open;
    let parts = secret(&request("POST", "/v1/completions?key=marked-query", &["authorization: Bearer marked-key"]));
    let gated = world.pass(parts).unwrap();
    let mut seen = format!("{gated:?}");
    let body = Bytes::from_static(b"{\"model\":\"m1\",\"prompt\":\"marked-body\"}");
    let admitted = gated.route(body, world.node()).unwrap();
    seen += &format!("{admitted:?}");
    let (attempt, request) = world.begin(admitted).unwrap();
    seen += &format!("{attempt:?} {:?} {:?}", request.headers(), request.body());
    seen += &format!("{:?}", attempt.gone());
    assert!(seen.contains("m1") && !seen.contains("marked"), "{seen}");
}
