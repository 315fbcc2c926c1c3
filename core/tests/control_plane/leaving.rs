//! Leaving (rule 9).

use appproxy_core::worker::{Event, Input, TransportFailure};
use serde_json::json;

use crate::stage::{Stage, WORKER, circuit, circuit_id, config, model, seconds, snapshot};

#[test]
fn work_goes_on_until_the_last_request_and_then_one_delete_with_the_node() {
    let mut stage = Stage::serving(json!([circuit(1)]), snapshot("1", vec![model("m", 1)], vec![]));
    stage.input(Input::Shutdown);
    assert!(!stage.worker.standing().ready(stage.now.moment));
    stage.pass(seconds(15));
    assert_eq!(stage.calls.len(), 3, "heartbeat and pull go on: {:?}", stage.paths());
    stage.event("circuit_removed", &json!({"circuits": [{"id": circuit_id(1)}]}));
    assert!(!stage.has_circuit(1), "events go on");
    stage.event("router_model_updated", &json!({"model": model("m", 2)}));
    assert!(stage.take_acks().is_empty(), "but no ack is sent from shutdown on");

    stage.input(Input::Drained);
    assert_eq!(stage.paths().len(), 1, "the DELETE waits for the PATCH in flight: {:?}", stage.paths());
    stage.answer_call(&format!("/api/worker/{WORKER}"), 200, &json!({}));
    let node = stage.worker.node_id();
    assert_eq!(stage.paths(), [format!("DELETE /api/worker/{WORKER}?node_id={node}")]);
    stage.pass(seconds(9));
    assert_eq!(stage.calls.len(), 1, "no heartbeat after the DELETE");
    stage.answer_call("node_id", 200, &json!({"success": true}));
    assert!(stage.stopped && stage.calls.is_empty());
    stage.pass(seconds(100));
    assert!(stage.calls.is_empty());
}

#[test]
fn a_patch_without_an_answer_holds_the_delete_up_to_its_deadline_only() {
    let mut stage = Stage::serving(json!([]), snapshot("1", vec![], vec![]));
    stage.pass(seconds(10));
    stage.input(Input::Drained);
    stage.pass(seconds(10));
    assert!(stage.paths()[0].starts_with("DELETE"));
}

#[test]
fn a_rejected_secret_is_named_on_the_delete_too() {
    let mut stage = Stage::serving(json!([]), snapshot("1", vec![], vec![]));
    stage.input(Input::Drained);
    stage.answer_call("node_id", 401, &json!({"title": "Credential/signature mismatch."}));
    assert!(stage.notices("deregister_failed")[0].contains("api_secret rejected by the coordinator"));
    assert!(stage.stopped);
}

#[test]
fn a_delete_is_repeated_only_when_its_connection_was_refused() {
    let mut stage = Stage::serving(json!([]), snapshot("1", vec![], vec![]));
    stage.input(Input::Drained);
    stage.fail_call("node_id", TransportFailure::Refused);
    assert!(!stage.stopped);
    stage.pass(seconds(1));
    stage.fail_call("node_id", TransportFailure::Reset);
    assert!(stage.stopped, "it may have counted");
    assert_eq!(stage.notices("deregister_failed").len(), 1);

    let mut stage = Stage::serving(json!([]), snapshot("1", vec![], vec![]));
    stage.input(Input::Drained);
    stage.pass(seconds(10));
    assert!(stage.stopped, "no answer: not asked twice");

    let mut stage = Stage::serving(json!([]), snapshot("1", vec![], vec![]));
    stage.input(Input::Drained);
    for _ in 0..3 {
        stage.fail_call("node_id", TransportFailure::Refused);
        stage.pass(seconds(5));
    }
    assert!(stage.stopped, "and not for ever");
}

#[test]
fn a_shutdown_during_a_put_waits_for_it_and_deletes_what_it_brought() {
    let mut stage = Stage::new(config());
    stage.input(Input::Started);
    stage.input(Input::BusUp);
    stage.input(Input::Shutdown);
    stage.input(Input::Drained);
    assert!(!stage.stopped);
    stage.answer_call("/api/worker", 200, &json!({"id": WORKER}));
    assert_eq!(stage.paths().len(), 1);
    stage.answer_call("node_id", 200, &json!({"success": true}));
    assert!(stage.stopped);
}

#[test]
fn a_put_that_never_answers_ends_at_its_deadline_and_is_said_to_may_have_counted() {
    let mut stage = Stage::new(config());
    stage.input(Input::Started);
    stage.input(Input::BusUp);
    stage.input(Input::Drained);
    stage.pass(seconds(10));
    assert!(stage.stopped);
    assert!(stage.notices("register_failed")[0].contains("may have counted"));
}

#[test]
fn nothing_registered_nothing_deleted() {
    for started in [false, true] {
        let mut stage = Stage::new(config());
        if started {
            stage.input(Input::Started);
        }
        stage.input(Input::Shutdown);
        stage.pass(seconds(60));
        assert!(stage.calls.is_empty(), "a worker that leaves does not register");
        stage.input(Input::Drained);
        assert!(stage.stopped);
    }
}

#[test]
fn a_worker_forgotten_while_leaving_neither_registers_nor_deletes() {
    let mut stage = Stage::serving(json!([]), snapshot("1", vec![], vec![]));
    stage.pass(seconds(10));
    stage.input(Input::Shutdown);
    stage.answer_call(&format!("/api/worker/{WORKER}"), 404, &json!({}));
    stage.pass(seconds(60));
    assert!(stage.calls.is_empty());
    stage.input(Input::Drained);
    assert!(stage.stopped && stage.calls.is_empty());
}

#[test]
fn acks_that_wait_at_the_shutdown_are_dropped_and_no_more_are_promised() {
    let mut stage = Stage::serving(json!([circuit(1)]), snapshot("1", vec![], vec![]));
    stage.confirm_applies = false;
    stage.event("router_model_updated", &json!({"model": model("m", 1)}));
    assert!(stage.acks.is_empty(), "its view is not in force yet");
    stage.input(Input::Shutdown);
    assert!(stage.events.contains(&Event::AckDropped { why: "leaving".into() }), "{:?}", stage.events);
    stage.event("router_model_updated", &json!({"model": model("n", 1)}));
    assert_eq!(stage.worker.held()[1], 0);
}

#[test]
fn while_the_delete_waits_for_a_heartbeat_nothing_is_pulled() {
    let mut stage = Stage::serving(json!([]), snapshot("1", vec![], vec![]));
    stage.pass(seconds(10));
    stage.input(Input::Drained);
    stage.event("router_key_updated", &json!({"key_id": "k"}));
    assert_eq!(stage.paths(), [format!("PATCH /api/worker/{WORKER}")]);
}

#[test]
fn one_that_has_left_hears_nothing_of_the_bus() {
    let mut stage = Stage::serving(json!([circuit(1)]), snapshot("1", vec![], vec![]));
    stage.input(Input::Drained);
    stage.answer_call("node_id", 200, &json!({"success": true}));
    assert!(stage.stopped);
    stage.events.clear();
    for input in [Input::BusLost("cut".into()), Input::BusUp] {
        stage.input(input);
        assert_eq!((stage.wait, &stage.events[..], stage.subscribes), (None, &[][..], 1));
    }
}
