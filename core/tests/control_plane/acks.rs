//! Acks: promises that the change is in force (rule 5, section 3.2).

use appproxy_core::worker::{Event, Input, TransportFailure};
use serde_json::{Value, json};

use crate::stage::{Stage, circuit, circuit_id, key, millis, model, seconds, snapshot};

fn start() -> Stage {
    Stage::serving(json!([circuit(1)]), snapshot("1", vec![model("m", 1)], vec![key("k")]))
}

fn first(n: u32) -> String {
    format!("1 circuit(s), first {}", circuit_id(n))
}

#[test]
fn an_ack_goes_only_after_the_apply_and_echoes_the_circuit_as_it_came() {
    let mut stage = start();
    stage.confirm_applies = false;
    let mut new = circuit(2);
    new["unknown_field"] = json!({"kept": [1, 2.50, "ä"]});
    stage.event("circuit_created", &json!({"circuits": [new]}));
    assert!(stage.acks.is_empty(), "not in force yet");
    let generation = stage.view.as_ref().unwrap().generation;
    stage.input(Input::Applied(generation));
    let message: Value = serde_json::from_slice(&stage.acks[0].message).unwrap();
    assert_eq!(message["name"], "appproxy_worker_circuit_added_event");
    let payload: Value = serde_json::from_str(message["payload"].as_str().unwrap()).unwrap();
    assert_eq!(payload["circuits"][0], new);
}

#[test]
fn e2_the_same_event_again_changes_nothing_and_is_acked_all_the_same() {
    let mut stage = start();
    for _ in 0..3 {
        stage.event("circuit_created", &json!({"circuits": [circuit(2)]}));
        assert_eq!(stage.take_acks(), [first(2)]);
    }
    assert_eq!(stage.applies, 2);
    stage.event("circuit_created", &json!({"circuits": [circuit(1)]}));
    assert_eq!(stage.take_acks(), [first(1)], "known from a pull");
    stage.event("router_model_removed", &json!({"model_name": "unknown"}));
    stage.event("router_key_removed", &json!({"key_id": "unknown"}));
    assert_eq!(stage.take_acks(), ["model unknown", "key unknown"], "removing the unknown is acked");
}

#[test]
fn route_updates_and_removals_are_not_acked_and_interactive_circuits_neither() {
    let mut stage = start();
    stage.event("circuit_route_updated", &json!({"circuit": circuit(1), "routes": []}));
    stage.event("circuit_removed", &json!({"circuits": [circuit(1)]}));
    let mut interactive = circuit(3);
    interactive["app_mode"] = json!("interactive");
    stage.event("circuit_created", &json!({"circuits": [interactive.clone()]}));
    assert!(stage.take_acks().is_empty());
    assert_eq!(stage.notices("circuit_not_served").len(), 1);
    stage.event("circuit_created", &json!({"circuits": [interactive, circuit(4)]}));
    assert_eq!(stage.take_acks(), [first(4)]);
}

#[test]
fn e6_malformed_circuits_of_an_event_are_not_acked_and_the_others_are() {
    let mut stage = start();
    let mut port_zero = circuit(2);
    port_zero["route_info"][0]["kernel_port"] = json!(0);
    let mut no_id = circuit(3);
    no_id["id"] = json!("x");
    stage.event("circuit_created", &json!({"circuits": [port_zero, no_id]}));
    assert_eq!(stage.take_acks(), [first(2)], "a bad route costs only itself");
    assert_eq!(stage.worker.desired().circuits().len(), 2);
}

#[test]
fn a_circuit_removed_again_before_its_ack_is_not_acked() {
    let mut stage = start();
    stage.confirm_applies = false;
    stage.event("circuit_created", &json!({"circuits": [circuit(2)]}));
    stage.event("circuit_removed", &json!({"circuits": [circuit(2)]}));
    let generation = stage.view.as_ref().unwrap().generation;
    stage.input(Input::Applied(generation));
    assert!(stage.take_acks().is_empty());
}

#[test]
fn the_ack_of_a_circuit_that_went_does_not_come_back_with_the_circuit() {
    let mut stage = start();
    stage.confirm_applies = false;
    stage.event("circuit_created", &json!({"circuits": [circuit(2)]}));
    stage.event("circuit_removed", &json!({"circuits": [circuit(2)]}));
    let without = stage.view.as_ref().unwrap().generation;
    stage.event("circuit_created", &json!({"circuits": [circuit(2)]}));
    let with_again = stage.view.as_ref().unwrap().generation;
    stage.input(Input::Applied(without));
    assert!(stage.take_acks().is_empty(), "requests do not see it yet");
    stage.input(Input::Applied(with_again));
    assert_eq!(stage.take_acks(), [first(2)], "once, for the second event");
}

#[test]
fn a_key_notice_is_acked_by_a_200_of_a_request_sent_after_it() {
    let mut stage = start();
    stage.pass(seconds(15));
    // This pull was sent before the notice.
    stage.event("router_key_updated", &json!({"key_id": "new"}));
    stage.answer_call("/circuits", 200, &json!({"circuits": [circuit(1)]}));
    stage.answer_call("/router-config", 304, &json!(null));
    assert!(stage.take_acks().is_empty());
    assert!(stage.paths().last().unwrap().ends_with("/router-config"), "asked again at once, unconditionally");
    stage.answer_call("/router-config", 200, &snapshot("2", vec![model("m", 1)], vec![key("k"), key("new")]));
    assert!(stage.has_key("new"));
    assert_eq!(stage.take_acks(), ["key new"]);
}

#[test]
fn a_removal_applied_again_on_the_answer_makes_the_notice_wait_for_the_next() {
    let mut stage = start();
    stage.event("router_key_updated", &json!({"key_id": "k"}));
    stage.event("router_key_removed", &json!({"key_id": "k"}));
    assert_eq!(stage.take_acks(), ["key k"], "the removal's own ack");
    stage.answer_call("/router-config", 200, &snapshot("2", vec![model("m", 1)], vec![key("k")]));
    assert!(!stage.has_key("k") && stage.take_acks().is_empty());
    stage.answer_call("/router-config", 200, &snapshot("3", vec![model("m", 1)], vec![]));
    assert_eq!(stage.take_acks(), ["key k"], "an absent key is acked");
}

#[test]
fn malformed_keys_and_publications_are_not_acked() {
    let mut stage = start();
    stage.event("router_model_updated", &json!({"model": {"model": "m", "mappings": 1}}));
    stage.event("router_key_updated", &json!({"key_id": "k"}));
    let broken = json!({"key_id": "k", "token_hash": "short"});
    stage.answer_call("/router-config", 200, &snapshot("2", vec![model("m", 1)], vec![broken]));
    assert!(stage.take_acks().is_empty() && !stage.has_key("k"));
    assert!(stage.calls.is_empty(), "and nothing is asked again for it");
    // An unreadable element may be the key in question.
    stage.event("router_key_updated", &json!({"key_id": "other"}));
    stage.answer_call("/router-config", 200, &snapshot("3", vec![model("m", 1)], vec![json!([])]));
    assert!(stage.take_acks().is_empty());
}

#[test]
fn a_notice_outlives_failed_pulls_but_its_ack_not_fifteen_seconds() {
    let mut stage = start();
    stage.event("router_key_updated", &json!({"key_id": "a"}));
    stage.fail_call("/router-config", TransportFailure::Refused);
    stage.pass(millis(500));
    stage.answer_call("/router-config", 200, &snapshot("2", vec![model("m", 1)], vec![key("a")]));
    assert_eq!(stage.take_acks(), ["key a"]);

    stage.event("router_key_updated", &json!({"key_id": "b"}));
    let slow = stage.take("/router-config");
    stage.pass(millis(15_001));
    stage.answer(slow, 200, &snapshot("3", vec![model("m", 1)], vec![key("b")]));
    assert!(stage.has_key("b") && stage.take_acks().is_empty());
    assert!(stage.events.contains(&Event::AckDropped { why: "expired".into() }));
}

#[test]
fn acks_not_out_when_the_bus_drops_go_with_the_full_pull_after_the_next_subscription() {
    let mut stage = start();
    stage.event("circuit_created", &json!({"circuits": [circuit(2)]}));
    assert_eq!(stage.acks.len(), 1, "handed out, and not known to be out");
    stage.acks.clear();
    stage.input(Input::BusLost("cut".into()));
    stage.input(Input::BusUp);
    assert!(stage.acks.is_empty());
    stage.pass(seconds(1));
    stage.answer_call("/circuits", 200, &json!({"circuits": [circuit(1), circuit(2)]}));
    stage.answer_call("/router-config", 304, &json!(null));
    assert_eq!(stage.take_acks(), [first(2)]);
}

#[test]
fn a_pull_sent_before_the_subscription_does_not_release_them() {
    let mut stage = start();
    stage.pass(seconds(15));
    stage.event("circuit_created", &json!({"circuits": [circuit(2)]}));
    stage.acks.clear();
    stage.input(Input::BusLost("cut".into()));
    stage.input(Input::BusUp);
    stage.answer_call("/circuits", 200, &json!({"circuits": [circuit(1)]}));
    stage.answer_call("/router-config", 304, &json!(null));
    assert!(stage.acks.is_empty());
}

#[test]
fn an_ack_that_could_not_be_published_is_tried_again_after_a_pause() {
    let mut stage = start();
    stage.event("router_model_updated", &json!({"model": model("new", 1)}));
    let ack = stage.acks.remove(0);
    stage.input(Input::AckFailed(ack.id));
    assert!(stage.acks.is_empty());
    stage.pass(millis(500));
    assert_eq!(stage.take_acks(), ["model new"]);
    stage.pass(seconds(5));
    assert!(stage.take_acks().is_empty(), "once");
}

#[test]
fn while_re_registering_acks_go_on() {
    let mut stage = start();
    stage.pass(seconds(10));
    stage.answer_call("/api/worker/", 404, &json!({}));
    stage.event("router_model_updated", &json!({"model": model("new", 1)}));
    assert_eq!(stage.take_acks(), ["model new"]);
}
