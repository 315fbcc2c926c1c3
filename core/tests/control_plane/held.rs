//! What a worker holds is counted, and what it drops.

use appproxy_core::limits;
use appproxy_core::wire::event::{BusEvent, EventKind};
use appproxy_core::worker::journal::shown;
use appproxy_core::worker::{Event, Input};
use serde_json::json;

use crate::stage::{Stage, circuit, circuit_id, model, seconds, snapshot};

#[test]
fn everything_that_waits_is_counted() {
    let models = vec![model("m", 1), model("n", 2)];
    let mut stage = Stage::serving(json!([circuit(1), circuit(2)]), snapshot("1", models, vec![]));
    assert_eq!(stage.worker.held(), [0; 5]);
    stage.pass(seconds(10));
    for name in ["a", "b", "c"] {
        stage.event("router_model_updated", &json!({"model": model(name, 1)}));
    }
    for key in ["k", "l"] {
        stage.event("router_key_updated", &json!({"key_id": key}));
    }
    let removed: Vec<_> = (10..14).map(|n| json!({"id": circuit_id(n)})).collect();
    stage.event("circuit_removed", &json!({ "circuits": removed }));
    assert_eq!((stage.calls.len(), stage.acks.len(), stage.probes.len()), (2, 3, 2), "a heartbeat and half a pull");
    assert_eq!(stage.worker.held(), [2, 3, 2, 4, 2]);
    let wanted = json!({"calls": 2, "acks": 3, "key_notices": 2, "guards": 4, "probes": 2});
    assert_eq!(shown::state(&stage.worker)["held"], wanted);
    stage.take_acks();
    assert_eq!(stage.worker.held(), [2, 0, 2, 4, 2]);
}

#[test]
fn events_beyond_their_bound_are_counted() {
    let mut stage = Stage::serving(json!([]), snapshot("1", vec![], vec![]));
    stage.event("router_model_updated", &json!({"model": {"model": "m", "mappings": 1}}));
    let Some(Event::Malformed(malformed)) = stage.events.pop() else { panic!("{:?}", stage.events) };
    assert_eq!(stage.worker.dropped_events(), 0);
    let kind = EventKind::CircuitsRemoved(Vec::new());
    let malformed = vec![malformed; limits::QUEUED_EVENTS + 2];
    stage.events.clear();
    stage.input(Input::Bus(BusEvent { request_id: None, kind, malformed }));
    assert_eq!(stage.events.len(), limits::QUEUED_EVENTS);
    assert_eq!(stage.worker.dropped_events(), 3, "two reports, and one for the event itself");
}
