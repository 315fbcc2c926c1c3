//! What `/health`, which anybody may read, says of what is wrong: which part, and nothing of what somebody answered.

use appproxy_core::worker::{Input, TransportFailure};
use serde_json::json;

use crate::stage::{Stage, WORKER, config, millis, seconds, snapshot};

const DETAIL: &str = "marked-detail";

#[track_caller]
fn assert_trouble(stage: &Stage, wanted: &[&str]) {
    assert_eq!(stage.worker.standing().trouble, wanted);
}

#[test]
fn a_registration_that_fails_says_why_in_three_ways() {
    for (status, wanted) in [
        (503, "not registered: the coordinator does not answer, or refuses"),
        (400, "most likely it is older than BEP-1053 and does not know `frontend_mode: router`"),
        (401, "api_secret rejected by the coordinator"),
    ] {
        let mut stage = Stage::new(config());
        stage.input(Input::Started);
        stage.input(Input::BusUp);
        stage.answer_call("/api/worker", status, &json!({"title": DETAIL}));
        assert!(stage.notices("register_failed")[0].contains(DETAIL), "the log has it all");
        assert_trouble(&stage, &[wanted]);
        while stage.calls.is_empty() {
            stage.pass(seconds(1));
        }
        stage.answer_call("/api/worker", 200, &json!({"id": WORKER}));
        assert_trouble(&stage, &[]);
    }
}

#[test]
fn each_part_that_fails_is_named_worst_first() {
    let mut stage = Stage::serving(json!([]), snapshot("1", vec![], vec![]));
    stage.pass(seconds(10));
    stage.answer_call(WORKER, 500, &json!({"title": DETAIL}));
    let heartbeat = "heartbeats to the coordinator fail: requests are served as before";
    assert_trouble(&stage, &[heartbeat]);
    stage.input(Input::BusLost(DETAIL.into()));
    let bus = "the event bus is lost: changes come by pull";
    assert_trouble(&stage, &[heartbeat, bus]);
    stage.event("router_key_updated", &json!({"key_id": "k"}));
    stage.fail_call("/router-config", TransportFailure::Other(DETAIL.into()));
    let pull = "pulls from the coordinator fail: requests are served from the last good state";
    assert_trouble(&stage, &[pull, heartbeat, bus]);
    stage.pass(millis(500));
    stage.answer_call("/router-config", 403, &json!({"title": DETAIL}));
    assert_trouble(&stage, &["api_secret rejected by the coordinator", heartbeat, bus]);
}

#[test]
fn a_coordinator_that_sends_no_circuits_is_named() {
    let mut stage = Stage::new(config());
    stage.input(Input::Started);
    stage.input(Input::BusUp);
    stage.answer_call("/api/worker", 200, &json!({"id": WORKER, "accepted_traffics": [DETAIL]}));
    assert_trouble(&stage, &["the coordinator sends no inference circuits to this authority"]);
}
