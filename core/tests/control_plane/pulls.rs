//! Pulls that fail, overlap or are half malformed (rule 2, sections 1 and 2).

use appproxy_core::config::worker::{Mode, RouterMode, WorkerConfig};
use appproxy_core::limits;
use appproxy_core::wire::event::{BusEvent, EventKind};
use appproxy_core::worker::{Event, Input, TransportFailure};
use serde_json::json;

use crate::stage::{Stage, circuit, circuit_id, config, key, millis, model, seconds, snapshot};

fn start() -> Stage {
    Stage::serving(json!([circuit(1), circuit(2)]), snapshot("1", vec![model("m", 1), model("n", 2)], vec![key("k")]))
}

fn outcomes(stage: &Stage) -> Vec<(String, String)> {
    let pulls = stage.events.iter().filter_map(|event| match event {
        Event::Pull { scope, outcome } => Some((scope.to_string(), outcome.to_string())),
        _ => None,
    });
    pulls.collect()
}

#[test]
fn pulls_never_overlap_and_a_waiting_full_one_swallows_partial_ones() {
    let mut stage = start();
    stage.event("router_key_updated", &json!({"key_id": "k"}));
    stage.event("router_key_updated", &json!({"key_id": "l"}));
    stage.input(Input::BusLost("cut".into()));
    stage.input(Input::BusUp);
    stage.pass(seconds(1));
    assert_eq!(stage.paths().len(), 1, "{:?}", stage.paths());
    stage.answer_call("/router-config", 200, &snapshot("2", vec![model("m", 1)], vec![key("k")]));
    assert_eq!(stage.paths().len(), 2, "one full pull follows: {:?}", stage.paths());
    stage.answer_call("/circuits", 200, &json!({"circuits": [circuit(1)]}));
    stage.answer_call("/router-config", 200, &snapshot("2", vec![model("m", 1)], vec![key("k")]));
    assert!(stage.calls.is_empty(), "and no other");
}

#[test]
fn half_an_answer_is_never_kept_and_the_data_plane_goes_on() {
    let mut stage = start();
    stage.pass(seconds(15));
    stage.answer_call("/router-config", 200, &snapshot("2", vec![model("other", 1)], vec![]));
    stage.fail_call("/circuits", TransportFailure::Reset);
    assert!(stage.serves("m") && stage.has_key("k") && !stage.serves("other"));
    assert!(stage.worker.standing().ready(stage.now.moment));
    stage.pass(millis(500));
    assert!(stage.paths().iter().any(|path| path.ends_with("/circuits")), "{:?}", stage.paths());
    let config = stage.paths().into_iter().find(|path| path.contains("router-config")).unwrap();
    assert!(config.ends_with("known_revision=1"), "everything anew: {config}");
    // One leg failing abandons the other.
    stage.fail_call("router-config", TransportFailure::Refused);
    assert!(!stage.paths().iter().any(|path| path.contains("circuits")));
    assert_eq!(stage.abandoned.len(), 1);
}

#[test]
fn every_get_has_thirty_seconds() {
    let mut stage = start();
    stage.pass(seconds(15));
    stage.calls.retain(|call| call.request().method == "GET");
    let late = stage.take("/circuits");
    stage.answer_call("router-config", 304, &json!(null));
    stage.pass(seconds(30));
    assert_eq!(outcomes(&stage).last().unwrap(), &("full".to_owned(), "failed".to_owned()));
    stage.events.clear();
    stage.answer(late, 200, &json!({"circuits": []}));
    assert!(stage.has_circuit(1), "an answer past the deadline is nobody's");
    assert!(stage.events.iter().any(|event| matches!(event, Event::CallEnded { outcome, .. } if outcome == "late")));
}

#[test]
fn a_body_that_is_not_what_it_should_be_is_a_failed_pull() {
    for (path, body) in [
        ("/circuits", json!({"circuits": 3})),
        ("/circuits", json!([])),
        ("/router-config", json!({"models": [], "api_keys": []})),
        ("/router-config", json!({"revision": "2", "api_keys": []})),
        ("/router-config", json!({"revision": "2", "models": []})),
        ("/router-config", json!("text")),
    ] {
        let mut stage = start();
        stage.pass(seconds(15));
        stage.answer_call(path, 200, &body);
        assert_eq!(outcomes(&stage), [("full".to_owned(), "failed".to_owned())], "{path} {body}");
        assert!(stage.serves("m") && stage.has_key("k"));
        assert_eq!(stage.notices("pull_failed").len(), 1);
    }
}

#[test]
fn a_304_to_an_unconditional_request_is_no_answer() {
    let mut stage = start();
    stage.event("router_key_updated", &json!({"key_id": "k"}));
    stage.answer_call("/router-config", 304, &json!(null));
    assert_eq!(outcomes(&stage), [("config".to_owned(), "failed".to_owned())]);
    assert!(stage.take_acks().is_empty());
}

#[test]
fn a_new_trigger_cuts_a_wait_short_once() {
    let mut stage = start();
    stage.event("router_key_updated", &json!({"key_id": "a"}));
    for _ in 0..5 {
        stage.fail_call("/router-config", TransportFailure::Refused);
        stage.event("router_key_updated", &json!({"key_id": "b"}));
        if stage.calls.is_empty() {
            break;
        }
    }
    assert!(stage.calls.is_empty(), "a storm of notices must not undo the back-off");
    stage.pass(seconds(2));
    assert!(!stage.calls.is_empty());
    let pulls = outcomes(&stage).len();
    assert_eq!(pulls, 2, "the first failure's wait was cut, the second's was not");
}

#[test]
fn a_401_on_a_pull_is_loud_and_waits_longest() {
    let mut stage = start();
    stage.pass(seconds(15));
    stage.calls.retain(|call| call.request().method == "GET");
    stage.answer_call("/circuits", 401, &json!({"msg": "Unauthorized access"}));
    assert!(stage.notices("pull_failed")[0].contains("api_secret rejected by the coordinator"));
    stage.pass(seconds(7));
    assert!(!stage.paths().iter().any(|path| path.contains("circuits")));
}

#[test]
fn malformed_elements_cost_only_themselves_and_known_ones_keep_their_last_good_version() {
    let mut stage = start();
    let mut broken = circuit(1);
    broken["open_to_public"] = json!("perhaps");
    broken["route_info"] = json!("none");
    let broken_model = json!({"model": "m", "mappings": 7});
    let broken_key = json!({"key_id": "k", "token_hash": "zz"});
    stage.pass(seconds(15));
    stage.answer_call("/circuits", 200, &json!({"circuits": [broken, circuit(3)]}));
    stage.answer_call(
        "/router-config",
        200,
        &snapshot("2", vec![broken_model, model("o", 3)], vec![broken_key, key("l")]),
    );
    assert!(stage.has_circuit(1) && stage.has_circuit(3) && !stage.has_circuit(2));
    assert!(stage.serves("m") && stage.serves("o") && !stage.serves("n"));
    assert!(!stage.has_key("k") && stage.has_key("l"), "a known key that is malformed is refused");
    let malformed = stage.events.iter().filter(|event| matches!(event, Event::Malformed(_))).count();
    assert_eq!(malformed, 3, "{:?}", stage.events);

    // An element whose id cannot be read removes no circuits and no publications.
    stage.pass(seconds(15));
    stage.answer_call("/circuits", 200, &json!({"circuits": [{"id": "x"}]}));
    stage.answer_call("/router-config", 200, &snapshot("3", vec![json!(5)], vec![json!({"key_id": 5})]));
    assert!(stage.has_circuit(1) && stage.has_circuit(3) && stage.serves("m") && stage.serves("o"));
    assert!(!stage.has_key("l"), "keys: it does");
}

#[test]
fn the_first_pull_keeps_what_was_heard_since_the_start() {
    let mut stage = Stage::new(config());
    stage.input(Input::Started);
    stage.input(Input::BusUp);
    // A circuit may be announced the moment we are registered, and the pull may not show it yet.
    stage.event("circuit_created", &json!({"circuits": [circuit(5)]}));
    assert!(stage.take_acks().is_empty());
    stage.register();
    stage.answer_call("/circuits", 200, &json!({"circuits": []}));
    stage.answer_call("/router-config", 200, &snapshot("1", vec![], vec![]));
    assert!(stage.has_circuit(5));
    assert_eq!(stage.take_acks(), [format!("1 circuit(s), first {}", circuit_id(5))]);
    assert_eq!(stage.paths().len(), 2, "one more says what is true by now: {:?}", stage.paths());
}

#[test]
fn one_more_pull_follows_a_first_one_that_older_events_may_have_overruled() {
    let mut stage = Stage::new(config());
    stage.input(Input::Started);
    stage.input(Input::BusUp);
    // This is heard, and the removal that follows is not.
    stage.event("router_model_updated", &json!({"model": model("gone", 1)}));
    stage.register();
    stage.answer_call("/circuits", 200, &json!({"circuits": []}));
    stage.answer_call("/router-config", 200, &snapshot("1", vec![], vec![]));
    assert!(stage.serves("gone"));
    stage.answer_call("/circuits", 200, &json!({"circuits": []}));
    stage.answer_call("/router-config", 200, &snapshot("1", vec![], vec![]));
    assert!(!stage.serves("gone"), "without waiting for the periodic pull");
    assert!(stage.calls.is_empty(), "one more is enough: {:?}", stage.paths());
}

#[test]
fn a_tick_in_time_or_late_or_early_never_doubles_a_pull() {
    let mut stage = start();
    stage.pass(seconds(14));
    stage.input(Input::Tick);
    assert!(!stage.paths().iter().any(|path| path.contains("circuits")));
    stage.now.moment = stage.now.moment.after(seconds(100));
    stage.input(Input::Tick);
    stage.input(Input::Tick);
    assert_eq!(stage.paths().iter().filter(|path| path.ends_with("/circuits")).count(), 1);
}

#[test]
fn what_is_remembered_during_a_pull_is_bounded_and_beyond_it_the_pull_is_asked_anew() {
    let mut stage = start();
    stage.pass(seconds(15));
    stage.events.clear();
    bounded(stage);
    let mut stage = Stage::new(config());
    stage.input(Input::Started);
    stage.input(Input::BusUp);
    stage.register();
    bounded(stage);
}

/// A full pull is under way.
fn bounded(mut stage: Stage) {
    let removed = |ids: core::ops::Range<usize>| {
        let ids = ids.map(|n| format!("d0000000-0000-4000-8000-{n:012}").parse().unwrap()).collect();
        Input::Bus(BusEvent { request_id: None, kind: EventKind::CircuitsRemoved(ids), malformed: Vec::new() })
    };
    stage.input(removed(0..limits::HEARD));
    assert!(outcomes(&stage).is_empty(), "at the bound");
    stage.input(removed(limits::HEARD..limits::HEARD + 1));
    assert_eq!(outcomes(&stage), [("full".to_owned(), "failed".to_owned())], "and one past it");
    stage.pass(millis(500));
    assert!(stage.paths().iter().any(|path| path.ends_with("/circuits")), "{:?}", stage.paths());
}

#[test]
fn the_waits_of_failed_pulls_start_over_once_one_is_applied() {
    let mut stage = start();
    stage.event("router_key_updated", &json!({"key_id": "a"}));
    for _ in 0..4 {
        stage.fail_call("/router-config", TransportFailure::Refused);
        while stage.calls.is_empty() {
            let at = stage.wait.expect("a deadline").at;
            stage.pass(at.since(stage.now.moment));
        }
    }
    stage.answer_call("/router-config", 200, &snapshot("2", vec![model("m", 1), model("n", 2)], vec![]));
    stage.event("router_key_updated", &json!({"key_id": "b"}));
    stage.fail_call("/router-config", TransportFailure::Refused);
    stage.pass(millis(500));
    assert!(stage.paths().iter().any(|path| path.ends_with("/router-config")), "{:?}", stage.paths());
}

#[test]
fn a_periodic_pull_does_not_wait_for_the_retry_of_a_partial_one() {
    let mut stage = start();
    stage.pass(seconds(10));
    stage.event("router_key_updated", &json!({"key_id": "k"}));
    // The longest wait: seven and a half seconds at least.
    stage.answer_call("/router-config", 401, &json!({}));
    stage.pass(seconds(4));
    assert!(!stage.paths().iter().any(|path| path.contains("circuits")));
    stage.pass(seconds(1));
    assert!(stage.paths().iter().any(|path| path.ends_with("/circuits")), "{:?}", stage.paths());
}

#[test]
fn keys_are_fresh_for_their_own_bound_after_a_full_pull() {
    let router = RouterMode { max_key_staleness: Some(seconds(60)), ..RouterMode::default() };
    let mut stage = Stage::new(WorkerConfig { mode: Mode::Router(router), ..config() });
    assert!(!stage.worker.standing().keys_fresh(stage.now.moment), "before the first pull");
    stage.join(json!([]), snapshot("1", vec![], vec![key("k")]));
    let pulled = stage.now.moment;
    let standing = stage.worker.standing();
    assert!(standing.keys_fresh(pulled.after(seconds(60))) && !standing.keys_fresh(pulled.after(millis(60_001))));
    assert!(standing.ready(pulled.after(millis(60_001))), "the rest is served all the same");
    assert!(start().worker.standing().keys_fresh(pulled.after(seconds(1_000_000))), "without one: for ever");
}
