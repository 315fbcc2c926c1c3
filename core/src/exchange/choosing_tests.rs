use bytes::Bytes;
use http::Request;
use proptest::prelude::*;
use std::collections::BTreeMap;

use super::*;
use crate::exchange::testing::{World, chat, header, lines_of, request, said};
use crate::exchange::{Committed, EndOfBody, FailStage, Failure, Fallbacks, Head, Payload, ReplyHead};
use crate::serving::{Serving, ServingSettings, StaticBackend, StaticModel};

/// A world whose rules have these chains.
pub(crate) fn chained(chains: &[(&str, &[&str])]) -> World {
    let mut world = World::new();
    let names = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect();
    let chains: BTreeMap<Arc<str>, Vec<Arc<str>>> =
        chains.iter().map(|(model, chain)| (Arc::from(*model), names(chain))).collect();
    world.rules.fallbacks = Fallbacks::new(&chains);
    world
}

/// A world whose static model `many` stands on `n` vLLM servers, `stand-in` on one of its own.
pub(crate) fn many(n: usize) -> World {
    let mut world = World::new();
    let backend = |name: String, model: &str| StaticBackend {
        name: name.into(),
        kind: crate::desired::BackendKind::Vllm,
        tls: false,
        host: "replica".into(),
        port: 8000,
        base_path: "".into(),
        credential: None,
        weight: 1,
        models: vec![StaticModel { name: model.into(), aliases: Vec::new() }],
        probed: false,
    };
    let mut backends: Vec<_> = (0..n).map(|at| backend(format!("s{at}"), "many")).collect();
    backends.push(backend("other".to_owned(), "stand-in"));
    let settings = ServingSettings { backends, ..ServingSettings::default() };
    world.view = Serving::new(&settings).view().clone();
    world
}

pub(crate) fn committed(head: Result<Head, Box<Answer>>) -> (Committed, ReplyHead) {
    match head.unwrap() {
        Head::Commit(committed, head) => (committed, head),
        other => panic!("not passed on: {other:?}"),
    }
}

pub(crate) fn again(head: Result<Head, Box<Answer>>) -> Choosing {
    match head.unwrap() {
        Head::Again(choosing) => choosing,
        other => panic!("passed on: {other:?}"),
    }
}

pub(crate) fn body_of(request: Request<Payload>) -> String {
    String::from_utf8(request.into_body().into_frames().concat()).unwrap()
}

pub(crate) fn names(trail: &Trail) -> Vec<&str> {
    trail.attempted().iter().map(|attempt| &*attempt.ended.backend).collect()
}

#[test]
fn r1_a_stale_connection_is_followed_by_a_fresh_one_and_counts_for_nothing() {
    let mut world = World::new();
    world.rules.max_retries = 0;
    let (attempt, first) = world.first(chat("all"), "two").unwrap();
    assert!(!attempt.needs_fresh_connection());
    let name = attempt.backend().name.clone();
    let (attempt, second) = world.fail(attempt, FailStage::Stale, Failure::Broke).unwrap();
    assert_eq!((&attempt.backend().name, second.uri()), (&name, first.uri()));
    assert_eq!(body_of(second), body_of(first));
    assert!(attempt.needs_fresh_connection());
    let (committed, _) = committed(world.reply(attempt, 200));
    let outcome = committed.ended(EndOfBody::Complete);
    assert_eq!((outcome.trail.attempts(), outcome.trail.attempted()[0].ended.end), (1, AttemptEnd::Answered(200)));
    // A fresh connection that breaks is no stale one.
    let (attempt, _) = world.first(chat("all"), "two").unwrap();
    let (attempt, _) = world.fail(attempt, FailStage::Stale, Failure::Broke).unwrap();
    let answer = world.fail(attempt, FailStage::Stale, Failure::Broke).unwrap_err();
    assert_eq!(said(&answer), "502 upstream_error");
    assert_eq!(answer.outcome.trail.attempted()[0].ended.end, AttemptEnd::Broke);
}

#[test]
fn r1_a_large_body_is_sent_once_and_meets_no_stale_connection() {
    let mut world = World::new();
    world.rules.retry_buffer = 10;
    let (attempt, _) = world.first(chat("all"), "two").unwrap();
    assert!(attempt.needs_fresh_connection());
    // Nothing was sent: another replica may have it.
    let (attempt, _) = world.fail(attempt, FailStage::Connect, Failure::Broke).unwrap();
    let answer = world.fail(attempt, FailStage::AwaitHead, Failure::Broke).unwrap_err();
    assert_eq!((said(&answer).as_str(), answer.outcome.trail.attempts()), ("502 upstream_error", 2));
    let (attempt, _) = world.first(chat("all"), "two").unwrap();
    assert_eq!(committed(world.reply(attempt, 503)).1.status, 503);
}

#[test]
fn r2_a_callers_mistake_is_passed_on_and_says_nothing_of_the_replica() {
    for status in [400, 401, 403, 404, 408, 413, 422, 429, 500, 501] {
        let mut world = chained(&[("two", &["m1"])]);
        let (attempt, _) = world.first(chat("all"), "two").unwrap();
        let (committed, head) = committed(world.reply(attempt, status));
        assert_eq!((head.status.as_u16(), header(&head.headers, "x-appproxy-fallback")), (status, ""));
        let outcome = committed.ended(EndOfBody::Complete);
        assert_eq!(outcome.trail.attempted()[0].ended.end, AttemptEnd::Answered(status));
    }
}

#[test]
fn an_attempt_says_how_its_replica_did() {
    for (end, told) in [
        (EndOfBody::Complete, AttemptEnd::Answered(200)),
        (EndOfBody::DownstreamGone, AttemptEnd::Abandoned),
        (EndOfBody::NodeStopped, AttemptEnd::Abandoned),
        (EndOfBody::UpstreamBroke, AttemptEnd::BrokeOff),
        (EndOfBody::UpstreamIdle, AttemptEnd::FellSilent),
    ] {
        let mut world = World::new();
        let (attempt, _) = world.first(chat("all"), "two").unwrap();
        let began = world.now.moment;
        world.now.moment = began.after(Duration::from_millis(40));
        let (committed, _) = committed(world.reply(attempt, 200));
        let outcome = committed.ended(end);
        let record = &outcome.trail.attempted()[0];
        assert_eq!((record.ended.end, record.first_byte), (told, Some(Duration::from_millis(40))), "{end:?}");
        assert_eq!((&*record.ended.backend, record.ended.began), (&**outcome.trail.backend().unwrap(), began));
    }
}

#[test]
fn r4_a_failing_replica_is_followed_by_another_and_the_last_answer_passes() {
    for status in [502, 503, 504] {
        let mut world = World::new();
        let (attempt, _) = world.first(chat("all"), "two").unwrap();
        let choosing = again(world.reply(attempt, status));
        assert_eq!(choosing.not_before(), None);
        let (attempt, _) = world.send(choosing).unwrap();
        let (committed, head) = committed(world.reply(attempt, status));
        assert_eq!(head.status, status);
        let outcome = committed.ended(EndOfBody::Complete);
        let trail = outcome.trail;
        assert_ne!(names(&trail)[0], names(&trail)[1]);
        assert!(trail.attempted().iter().all(|attempt| attempt.ended.end == AttemptEnd::Answered(status)));
    }
}

#[test]
fn every_end_is_told_once_and_a_failure_at_once() {
    let mut world = World::new();
    let (attempt, _) = world.first(chat("all"), "two").unwrap();
    // A stale connection is no end.
    let node =
        Node { rules: &world.rules, view: &world.view, control: &world.control, now: world.now, file_refused: false };
    let mut choosing = attempt.failed(FailStage::Stale, Failure::Broke, &mut world.budget, node).unwrap();
    assert_eq!(choosing.take_ended(), None);
    let (attempt, _) = world.send(choosing).unwrap();
    let mut choosing = again(world.reply(attempt, 503));
    let ended = choosing.take_ended().unwrap();
    assert_eq!((ended.end, choosing.take_ended()), (AttemptEnd::Answered(503), None));
    let (attempt, _) = world.send(choosing).unwrap();
    let outcome = committed(world.reply(attempt, 200)).0.ended(EndOfBody::UpstreamBroke);
    let ends: Vec<_> = outcome.ends().map(|ended| (&*ended.backend, ended.end)).collect();
    assert_eq!(ends, [(&**outcome.trail.backend().unwrap(), AttemptEnd::BrokeOff)]);
    assert_ne!(ended.backend, *outcome.trail.backend().unwrap());
}

#[test]
fn r4_every_target_fails_and_the_client_gets_a_real_status() {
    let mut world = many(3);
    world.rules.key_gate = crate::exchange::KeyGate::Open;
    let (attempt, _) = world.first(chat("all"), "many").unwrap();
    let choosing = again(world.reply(attempt, 503));
    let (attempt, _) = world.send(choosing).unwrap();
    let (attempt, _) = world.fail(attempt, FailStage::Connect, Failure::Broke).unwrap();
    let answer = world.fail(attempt, FailStage::AwaitHead, Failure::Broke).unwrap_err();
    assert_eq!((said(&answer).as_str(), answer.outcome.trail.attempts()), ("502 upstream_error", 3));
}

#[test]
fn the_only_replica_is_asked_again_after_a_wait() {
    let mut world = World::new();
    let (attempt, _) = world.first(chat("all"), "m1").unwrap();
    let choosing = again(world.reply(attempt, 503));
    let wait = choosing.not_before().unwrap().since(world.now.moment);
    assert!(wait >= Duration::from_millis(50) && wait <= Duration::from_millis(100), "{wait:?}");
    let (attempt, _) = world.send(choosing).unwrap();
    let node =
        Node { rules: &world.rules, view: &world.view, control: &world.control, now: world.now, file_refused: false };
    let choosing = attempt.failed(FailStage::Connect, Failure::Broke, &mut world.budget, node).unwrap();
    let wait = choosing.not_before().unwrap().since(world.now.moment);
    assert!(wait >= Duration::from_millis(100) && wait <= Duration::from_millis(200), "{wait:?}");
    let (attempt, _) = world.send(choosing).unwrap();
    let (committed, _) = committed(world.reply(attempt, 503));
    assert_eq!(committed.trail().attempts(), 3);
    // Who asks for a long wait is believed.
    let (attempt, _) = world.first(chat("all"), "m1").unwrap();
    let mut reply = http::Response::new(()).into_parts().0;
    reply.status = http::StatusCode::SERVICE_UNAVAILABLE;
    reply.headers = lines_of(&["content-type: text/plain", "retry-after: 30"]);
    let mut budget = core::mem::take(&mut world.budget);
    let head = attempt.head(reply, &mut budget, world.node());
    assert_eq!(header(&self::committed(head).1.headers, "retry-after"), "30");
}

#[test]
fn s4_a_client_that_goes_while_a_retry_waits_ends_it() {
    let mut world = World::new();
    let (attempt, _) = world.first(chat("all"), "m1").unwrap();
    let outcome = again(world.reply(attempt, 503)).gone();
    assert_eq!((outcome.end, outcome.trail.attempts()), (EndOfBody::DownstreamGone, 1));
}

#[test]
fn r4_retries_end_with_their_budget() {
    let mut world = World::new();
    let mut retried = 0;
    for _ in 0..40 {
        let (attempt, _) = world.first(chat("all"), "two").unwrap();
        match world.reply(attempt, 503).unwrap() {
            Head::Again(_) => retried += 1,
            Head::Commit(..) | Head::Explain(_) => {}
        }
    }
    assert_eq!(retried, 10);
    // The chain is no retry: it is there whatever the budget says, behind one more replica of the model itself.
    let budget = core::mem::take(&mut world.budget);
    let mut world = World { budget, ..chained(&[("two", &["m1"])]) };
    let (attempt, _) = world.first(chat("all"), "two").unwrap();
    let choosing = again(world.reply(attempt, 503));
    let (attempt, _) = world.send(choosing).unwrap();
    assert_eq!(attempt.stands_in(), None);
    let choosing = again(world.reply(attempt, 503));
    let (attempt, _) = world.send(choosing).unwrap();
    assert_eq!(committed(world.reply(attempt, 200)).0.trail().fallback().map(|name| &**name), Some("m1"));
}

#[test]
fn h3_tickets_come_back_by_every_way_out() {
    let mut world = World::new();
    let in_flight = |world: &World| -> u32 {
        let backends = world.view.backends().chain(world.view.static_backends());
        backends.filter_map(|backend| world.selection.loads().look(&backend.name)).map(|load| load.in_flight()).sum()
    };
    let (one, _) = world.first(chat("all"), "two").unwrap();
    let (two, _) = world.first(chat("all"), "two").unwrap();
    let (three, _) = world.first(chat("all"), "two").unwrap();
    assert_eq!(in_flight(&world), 3);
    let _ = one.gone();
    drop(two);
    assert_eq!(in_flight(&world), 1);
    let (committed, _) = committed(world.reply(three, 200));
    assert_eq!(in_flight(&world), 1);
    let _ = committed.ended(EndOfBody::Complete);
    assert_eq!(in_flight(&world), 0);
    let (attempt, _) = world.first(chat("all"), "two").unwrap();
    let (attempt, _) = world.fail(attempt, FailStage::Stale, Failure::Broke).unwrap();
    assert_eq!(in_flight(&world), 1);
    let _ = again(world.reply(attempt, 503));
    assert_eq!(in_flight(&world), 0);
}

#[test]
fn w1_a_packed_body_reaches_the_replica_plain() {
    use std::io::Write as _;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(b"{\"model\":\"m1\",\"n\":1}").unwrap();
    let packed = Bytes::from(gzip.finish().unwrap());
    let mut world = World::new();
    let parts = request("POST", "/v1/messages", &["x-api-key: all", "content-encoding: GZIP", "content-length: 40"]);
    let gated = world.pass(parts.clone()).unwrap();
    assert!(gated.is_packed());
    let admitted = gated.route(packed.clone(), world.node()).unwrap();
    let (_, sent) = world.begin(admitted).unwrap();
    assert_eq!((header(sent.headers(), "content-encoding"), header(sent.headers(), "content-length")), ("", "20"));
    assert_eq!(body_of(sent), "{\"model\":\"m1\",\"n\":1}");
    for (body, most, wanted) in [
        (packed.slice(..20), 1000, "400 invalid_request"),
        (packed.clone(), 19, "413 body_too_large"),
        (packed, 20, "20 bytes"),
    ] {
        world.rules.max_body_size = most;
        let mut parts = parts.clone();
        parts.headers.remove("content-length");
        let routed = world.pass(parts).unwrap().route(body, world.node());
        let got = routed.map_or_else(|answer| said(&answer), |admitted| format!("{} bytes", admitted.body_len()));
        assert_eq!(got, wanted);
    }
    for coding in ["compress", "gzip, br", "gzip, compress"] {
        let parts = request("POST", "/v1/messages", &["x-api-key: all", &format!("content-encoding: {coding}")]);
        let answer = world.pass(parts).map(|_| ()).unwrap_err();
        assert_eq!(said(&answer), "415 unsupported_encoding", "{coding}");
        assert!(answer.body.starts_with(b"{\"error\"") || answer.body.starts_with(b"{\"type\":\"error\""));
    }
}

#[test]
fn a_model_that_starts_is_not_ready_and_one_that_is_down_not_available() {
    for (health, wanted) in
        [(Health::WarmingUp, "503 model_not_ready"), (Health::Down, "503 model_unavailable"), (Health::Ready, "sent")]
    {
        let mut world = World::new();
        let pool = world.view.model("m1").unwrap();
        let mut selection = Selection::new();
        let mut endpoints = pool.endpoints.to_vec();
        let endpoint = Arc::make_mut(&mut endpoints[0].endpoint);
        endpoint.groups[0].candidates[0].health = health;
        let pool = ModelPool { endpoints: endpoints.into(), ..(**pool).clone() };
        let choice = selection.choose(&pool, &Ask::default());
        assert_eq!(matches!(choice, Choice::Picked(..)), wanted == "sent");
        let admitted = world.admit(chat("all"), "{\"model\":\"m1\"}").unwrap();
        if wanted != "sent" {
            assert_eq!(said(&Tries::begun(admitted).exhausted(false, Some(&pool))), wanted);
        }
    }
}

/// What happens to an attempt.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Fails(FailStage, Failure),
    Answers(u16),
}

fn fate() -> impl Strategy<Value = Fate> {
    let stages = [FailStage::Connect, FailStage::Stale, FailStage::SendHead, FailStage::AwaitHead];
    prop_oneof![
        6 => prop::sample::select(stages.to_vec()).prop_map(|stage| Fate::Fails(stage, Failure::Broke)),
        1 => Just(Fate::Fails(FailStage::Connect, Failure::TimedOut)),
        6 => prop::sample::select(vec![502, 503, 504]).prop_map(Fate::Answers),
        1 => Just(Fate::Answers(200)),
    ]
}

proptest! {
    /// Whatever fails: no replica is tried twice by one request, no model is given more than its tries, and every
    /// ticket comes back.
    #[test]
    fn r3_never_twice(
        replicas in 2..6_usize,
        max_retries in 0..5_u32,
        fates in prop::collection::vec(fate(), 1..12),
        strategy in prop::sample::select(vec![
            crate::config::routing::Strategy::Weighted,
            crate::config::routing::Strategy::RoundRobin,
            crate::config::routing::Strategy::Random,
            crate::config::routing::Strategy::LeastLatency,
            crate::config::routing::Strategy::LeastLoaded,
            crate::config::routing::Strategy::ConsistentHash,
            crate::config::routing::Strategy::PrefixAware,
        ]),
    ) {
        let mut world = many(replicas);
        world.rules.key_gate = crate::exchange::KeyGate::Open;
        (world.rules.max_retries, world.rules.strategy) = (max_retries, strategy);
        let mut sent = world.first(chat("x"), "many").map_err(|answer| answer.outcome);
        for fate in fates {
            let Ok((attempt, _)) = sent else { break };
            sent = match fate {
                Fate::Fails(stage, failure) => world.fail(attempt, stage, failure).map_err(|answer| answer.outcome),
                Fate::Answers(status) => match world.reply(attempt, status) {
                    Ok(Head::Again(choosing)) => world.send(choosing).map_err(|answer| answer.outcome),
                    Ok(Head::Commit(committed, _)) => Err(committed.ended(EndOfBody::Complete)),
                    Ok(Head::Explain(explained)) => Err(explained.body(None).outcome),
                    Err(answer) => Err(answer.outcome),
                },
            };
        }
        let trail = sent.map_or_else(|outcome| outcome.trail, |(attempt, _)| attempt.gone().trail);
        let mut tried = names(&trail);
        prop_assert!(tried.len() <= replicas.min(1 + max_retries as usize));
        prop_assert!(trail.backend().is_some());
        tried.sort_unstable();
        tried.dedup();
        prop_assert_eq!(tried.len(), trail.attempted().len());
        for at in 0..replicas {
            let load = world.selection.loads().look(&format!("s{at}"));
            prop_assert_eq!(load.map_or(0, |load| load.in_flight()), 0);
        }
    }
}
