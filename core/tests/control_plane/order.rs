//! Events against pulls: overlap, guards, revisions, dirt (rules 1, 3, 6, 7).

use serde_json::json;

use crate::stage::{Stage, circuit, circuit_id, endpoint_id, key, millis, model, seconds, snapshot};

fn start() -> Stage {
    Stage::serving(json!([circuit(1), circuit(2)]), snapshot("1", vec![model("m", 1), model("n", 2)], vec![key("k")]))
}

/// Sends the periodic pull and answers the heartbeat before it.
fn periodic(stage: &mut Stage) {
    stage.pass(seconds(15));
    let beat = stage.calls.iter().position(|call| call.request().method == "PATCH").expect("a heartbeat");
    let beat = stage.calls.remove(beat);
    stage.answer(beat, 200, &json!({}));
}

#[test]
fn e4_a_key_removed_while_a_pull_is_on_its_way_stays_removed() {
    let mut stage = start();
    periodic(&mut stage);
    stage.answer_call("/circuits", 200, &json!({"circuits": [circuit(1), circuit(2)]}));
    stage.event("router_key_removed", &json!({"key_id": "k"}));
    assert!(!stage.has_key("k"));
    stage.answer_call("/router-config", 200, &snapshot("2", vec![model("m", 1)], vec![key("k"), key("l")]));
    assert!(!stage.has_key("k") && stage.has_key("l"));
    assert!(!stage.serves("n"), "the rest of the answer counts");
    // The next answer settles it: the state was not that snapshot, so it is asked for whole.
    periodic(&mut stage);
    assert!(stage.paths()[1].ends_with("/router-config"), "{:?}", stage.paths());
    stage.answer_call("/circuits", 200, &json!({"circuits": [circuit(1), circuit(2)]}));
    stage.answer_call("/router-config", 200, &snapshot("3", vec![model("m", 1)], vec![key("k")]));
    assert!(stage.has_key("k"), "a request sent after the event may bring it back");
}

#[test]
fn events_between_the_answer_of_one_request_and_the_apply_of_both_count() {
    let mut stage = start();
    periodic(&mut stage);
    stage.answer_call("/router-config", 200, &snapshot("2", vec![model("m", 1)], vec![key("k")]));
    stage.event("router_key_removed", &json!({"key_id": "k"}));
    stage.event("circuit_route_updated", &json!({"circuit": circuit(3), "routes": []}));
    stage.event("circuit_removed", &json!({"circuits": [circuit(2)]}));
    stage.event("router_model_updated", &json!({"model": model("late", 3)}));
    stage.answer_call("/circuits", 200, &json!({"circuits": [circuit(1), circuit(2)]}));
    assert!(!stage.has_key("k") && stage.has_circuit(3) && !stage.has_circuit(2) && stage.serves("late"));
}

#[test]
fn events_after_the_circuits_came_and_before_the_rest_did_count() {
    let mut stage = start();
    periodic(&mut stage);
    stage.answer_call("/circuits", 200, &json!({"circuits": [circuit(1), circuit(2)]}));
    stage.event("circuit_route_updated", &json!({"circuit": circuit(3), "routes": []}));
    stage.event("circuit_removed", &json!({"circuits": [circuit(2)]}));
    stage.answer_call("/router-config", 304, &json!(null));
    assert!(stage.has_circuit(1) && stage.has_circuit(3) && !stage.has_circuit(2));
}

#[test]
fn a_removed_circuit_is_guarded_for_five_seconds_and_a_pull_follows() {
    let mut stage = start();
    stage.pass(seconds(11));
    stage.event("circuit_removed", &json!({"circuits": [circuit(1)]}));
    stage.pass(seconds(4));
    // Sent 4 s after the removal, and the coordinator has not committed it yet.
    stage.answer_call("/circuits", 200, &json!({"circuits": [circuit(1), circuit(2)]}));
    stage.answer_call("/router-config", 304, &json!(null));
    assert!(!stage.has_circuit(1));
    stage.pass(seconds(1));
    assert!(!stage.paths().iter().any(|path| path.contains("circuits")));
    stage.pass(millis(1));
    assert!(stage.paths().last().unwrap().ends_with("/circuits"), "a pull of circuits follows the guard's end");
    assert!(!stage.paths().iter().any(|path| path.contains("router-config")));
    stage.answer_call("/circuits", 200, &json!({"circuits": [circuit(1), circuit(2)]}));
    assert!(stage.has_circuit(1), "and what that says counts");
}

#[test]
fn a_guard_that_overruled_nothing_asks_for_nothing() {
    let mut stage = start();
    stage.event("circuit_removed", &json!({"circuits": [circuit(1)]}));
    stage.pass(seconds(9));
    assert!(stage.calls.is_empty(), "{:?}", stage.paths());
}

#[test]
fn a_created_event_brings_a_guarded_circuit_back_at_once() {
    for name in ["circuit_created", "circuit_route_updated"] {
        let mut stage = start();
        stage.pass(seconds(13));
        stage.event("circuit_removed", &json!({"circuits": [{"id": circuit_id(1)}]}));
        let body = json!({"circuits": [circuit(1)], "circuit": circuit(1), "routes": circuit(1)["route_info"]});
        stage.event(name, &body);
        assert!(stage.has_circuit(1));
        stage.pass(seconds(2));
        stage.answer_call("/circuits", 200, &json!({"circuits": [circuit(1), circuit(2)]}));
        stage.answer_call("/router-config", 304, &json!(null));
        assert!(stage.has_circuit(1), "{name}");
    }
}

#[test]
fn known_revision_is_sent_while_the_state_is_that_snapshot_and_304_changes_nothing() {
    let mut stage = start();
    periodic(&mut stage);
    assert!(stage.paths()[1].ends_with("router-config?known_revision=1"));
    stage.answer_call("/circuits", 200, &json!({"circuits": [circuit(1), circuit(2)]}));
    let applies = stage.applies;
    stage.answer_call("/router-config", 304, &json!(null));
    assert_eq!(stage.applies, applies, "nothing differs, nothing is applied");
    assert!(stage.has_key("k") && stage.serves("m"));
    // An event that changes nothing leaves it clean; one that does, does not, not even for a 304 sent for before.
    stage.event("router_model_updated", &json!({"model": model("m", 1)}));
    periodic(&mut stage);
    assert!(stage.paths()[1].ends_with("router-config?known_revision=1"));
    stage.event("router_model_updated", &json!({"model": model("new", 1)}));
    stage.answer_call("/circuits", 200, &json!({"circuits": [circuit(1), circuit(2)]}));
    stage.answer_call("/router-config", 304, &json!(null));
    assert!(stage.serves("new"), "304 undoes nothing");
    periodic(&mut stage);
    assert!(stage.paths()[1].ends_with("/router-config"), "{:?}", stage.paths());
}

#[test]
fn a_lower_revision_is_applied_and_any_revision_is_encoded() {
    let mut stage = start();
    stage.event("router_key_updated", &json!({"key_id": "k"}));
    stage.answer_call("/router-config", 200, &snapshot("0 /ä", vec![model("old", 1)], vec![]));
    assert!(stage.serves("old"));
    periodic(&mut stage);
    assert!(stage.paths()[1].ends_with("known_revision=0%20%2F%C3%A4"), "{:?}", stage.paths());
}

#[test]
fn at_least_every_ten_minutes_the_snapshot_is_asked_for_whole() {
    let mut stage = start();
    let mut whole = Vec::new();
    while stage.now.moment.as_millis() < 1_300_000 {
        periodic(&mut stage);
        if stage.paths()[1].ends_with("/router-config") {
            whole.push(stage.now.moment.as_millis());
            stage.answer_call(
                "/router-config",
                200,
                &snapshot("1", vec![model("m", 1), model("n", 2)], vec![key("k")]),
            );
        } else {
            stage.answer_call("/router-config", 304, &json!(null));
        }
        stage.answer_call("/circuits", 200, &json!({"circuits": [circuit(1), circuit(2)]}));
    }
    assert_eq!(whole.len(), 2, "{whole:?}");
    assert!(whole[0] >= 600_000 && whole[0] <= 615_000);
}

#[test]
fn a_pull_that_would_strand_a_publication_is_asked_again_as_a_full_one_and_that_counts() {
    let mut stage = start();
    periodic(&mut stage);
    // Torn: circuits were read before endpoint 3 came, publications after `m` moved to it.
    let moved = snapshot("2", vec![model("m", 3), model("n", 2)], vec![key("k")]);
    stage.answer_call("/circuits", 200, &json!({"circuits": [circuit(2)]}));
    let applies = stage.applies;
    stage.answer_call("/router-config", 200, &moved);
    assert_eq!(stage.applies, applies, "not applied");
    assert_eq!(stage.paths().len(), 2, "asked once more at once: {:?}", stage.paths());
    stage.answer_call("/circuits", 200, &json!({"circuits": [circuit(2), circuit(3)]}));
    stage.answer_call("/router-config", 200, &moved);
    let view = stage.view.clone().unwrap();
    assert!(view.model("m").is_some());
    assert!(stage.has_circuit(3) && !stage.has_circuit(1));
    assert!(stage.calls.is_empty());

    // When the second answer says the same, it is the truth.
    periodic(&mut stage);
    for _ in 0..2 {
        stage.answer_call("/circuits", 200, &json!({"circuits": [circuit(2)]}));
        stage.answer_call("/router-config", 304, &json!(null));
    }
    assert!(!stage.has_circuit(3) && stage.serves("m"), "listed without a circuit");
    assert!(stage.calls.is_empty());
}

#[test]
fn a_partial_pull_that_looks_torn_is_asked_again_as_a_full_one() {
    let mut stage = start();
    stage.event("router_key_updated", &json!({"key_id": "k"}));
    assert_eq!(stage.paths().len(), 1);
    let moved = json!({"model": "m", "mappings": [{"endpoint_id": endpoint_id(9)}]});
    stage.answer_call("/router-config", 200, &snapshot("2", vec![moved], vec![key("k")]));
    assert_eq!(stage.paths().len(), 2, "{:?}", stage.paths());
    assert!(stage.take_acks().is_empty(), "the notice goes on waiting");
    stage.answer_call("/circuits", 200, &json!({"circuits": [circuit(9)]}));
    stage.answer_call("/router-config", 200, &snapshot("2", vec![model("m", 9)], vec![key("k")]));
    assert_eq!(stage.take_acks(), ["key k"]);
}
