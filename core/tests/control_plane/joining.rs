//! Start, registration, heartbeats, and being forgotten (rules 4 and 8, the failure table of section 1).

use appproxy_core::time::Moment;
use appproxy_core::worker::{Event, Input, Severity, TransportFailure};
use serde_json::{Value, json};

use crate::stage::{Stage, WORKER, circuit, config, key, millis, model, seconds, snapshot};

#[test]
fn subscribes_registers_beats_and_pulls_in_this_order() {
    let mut stage = Stage::new(config());
    stage.input(Input::Started);
    assert_eq!((stage.subscribes, stage.calls.len()), (1, 0), "the bus comes first");
    stage.input(Input::BusUp);
    assert_eq!(stage.paths(), ["PUT /api/worker"]);
    let put = stage.take("/api/worker");
    let body: Value = serde_json::from_str(put.request().body.as_deref().unwrap()).unwrap();
    assert_eq!(body["node_id"], json!(stage.worker.node_id()));
    assert_eq!(body["traffic_port"], 443);
    stage.answer(put, 200, &json!({"id": WORKER}));
    assert_eq!(
        stage.paths(),
        [
            format!("PATCH /api/worker/{WORKER}"),
            format!("GET /api/worker/{WORKER}/circuits"),
            format!("GET /api/worker/{WORKER}/router-config"),
        ]
    );
    let beat: Value = serde_json::from_str(stage.calls[0].request().body.as_deref().unwrap()).unwrap();
    assert_eq!(beat, json!({"node_id": stage.worker.node_id()}));
    assert!(!stage.worker.standing().ready(stage.now.moment));
    stage.answer_call("/circuits", 200, &json!({"circuits": [circuit(1)]}));
    assert_eq!(stage.applies, 0, "half a pull is never applied");
    stage.answer_call("/router-config", 200, &snapshot("1", vec![model("m", 1)], vec![key("k")]));
    assert_eq!(stage.applies, 1);
    assert!(stage.serves("m"));
    assert!(stage.worker.standing().ready(stage.now.moment));
}

#[test]
fn the_start_waits_two_seconds_for_the_bus_and_no_longer() {
    let mut stage = Stage::new(config());
    stage.input(Input::Started);
    stage.pass(millis(1999));
    assert!(stage.calls.is_empty());
    stage.pass(millis(1));
    assert_eq!(stage.paths(), ["PUT /api/worker"]);
    stage.register();
    stage.answer_call("/circuits", 200, &json!({"circuits": []}));
    stage.answer_call("/router-config", 200, &snapshot("1", vec![], vec![]));
    stage.input(Input::BusUp);
    assert!(stage.calls.is_empty(), "the pull after a subscription is jittered");
    stage.pass(seconds(1));
    assert_eq!(stage.paths().len(), 2, "and it is a full one: {:?}", stage.paths());
    stage.answer_call("/circuits", 200, &json!({"circuits": []}));
    stage.answer_call("/router-config", 304, &json!(null));
    // Said again, it is no other subscription.
    stage.input(Input::BusUp);
    stage.pass(seconds(1));
    assert!(stage.calls.is_empty(), "{:?}", stage.paths());
}

#[test]
fn with_events_off_nothing_is_subscribed() {
    let mut stage = Stage::new({
        let mut config = config();
        config.events_enabled = false;
        config
    });
    stage.input(Input::Started);
    assert_eq!((stage.subscribes, stage.paths()), (0, vec!["PUT /api/worker".to_owned()]));
    assert_eq!(stage.worker.standing().bus_up, None);
    stage.input(Input::BusLost("there never was one".into()));
    stage.pass(seconds(5));
    assert_eq!((stage.subscribes, stage.worker.standing().trouble.len()), (0, 0));
}

#[test]
fn registration_is_tried_for_ever_with_growing_waits() {
    let mut stage = Stage::new(config());
    stage.input(Input::Started);
    stage.input(Input::BusUp);
    let mut waits = Vec::new();
    for failure in 0..12 {
        let began = stage.now.moment;
        match failure % 3 {
            0 => stage.fail_call("/api/worker", TransportFailure::Refused),
            1 => stage.answer_call("/api/worker", 503, &json!({"title": "Service unavailable."})),
            _ => stage.fail_call("/api/worker", TransportFailure::NotHttp),
        }
        assert!(stage.calls.is_empty());
        while stage.calls.is_empty() {
            let at = stage.wait.expect("a deadline").at;
            stage.pass(at.since(stage.now.moment));
        }
        waits.push(stage.now.moment.since(began));
    }
    assert!(waits[0] <= millis(500) && waits[0] >= millis(250), "{waits:?}");
    assert!(waits.iter().all(|wait| *wait <= seconds(30)), "{waits:?}");
    assert!(waits[11] >= seconds(15), "{waits:?}");
    assert!(stage.notices("register_failed")[1].contains("Service unavailable."));
}

#[test]
fn a_put_without_an_answer_is_given_up_at_its_deadline_and_its_answer_is_nobodys() {
    let mut stage = Stage::new(config());
    stage.input(Input::Started);
    stage.input(Input::BusUp);
    let put = stage.take("/api/worker");
    stage.pass(seconds(10));
    assert!(stage.notices("register_failed")[0].contains("may have counted"), "{:?}", stage.events);
    stage.pass(millis(500));
    assert_eq!(stage.paths(), ["PUT /api/worker"]);
    stage.events.clear();
    stage.answer(put, 200, &json!({"id": WORKER}));
    assert_eq!(stage.events, [Event::CallEnded { call: "none".into(), outcome: "late".into() }]);
    assert!(!stage.worker.standing().registered);
}

#[test]
fn a_rejected_secret_and_an_old_coordinator_are_said_in_those_words_and_tried_rarely() {
    let mut stage = Stage::new(config());
    stage.input(Input::Started);
    stage.input(Input::BusUp);
    stage.answer_call("/api/worker", 401, &json!({"title": "Credential/signature mismatch."}));
    assert!(stage.notices("register_failed")[0].contains("api_secret rejected by the coordinator"));
    stage.pass(seconds(14));
    assert!(stage.calls.is_empty(), "the longest back-off is at least 15 s");
    stage.pass(seconds(16));
    stage.answer_call("/api/worker", 400, &json!({"msg": "Input validation error"}));
    assert!(stage.notices("register_failed")[1].contains("older than BEP-1053"));
    stage.pass(seconds(14));
    assert!(stage.calls.is_empty());
}

#[test]
fn a_secret_rejected_on_heartbeat_or_delete_is_as_loud() {
    let mut stage = Stage::serving(json!([]), snapshot("1", vec![], vec![]));
    stage.pass(seconds(10));
    stage.answer_call(WORKER, 403, &json!({}));
    stage.input(Input::Drained);
    stage.answer_call(WORKER, 401, &json!({}));
    for code in ["heartbeat_failed", "deregister_failed"] {
        let loud = stage.events.iter().any(|event| {
            matches!(event, Event::Notice { severity: Severity::Error, code: said, text }
                if said == code && text.contains("api_secret rejected by the coordinator"))
        });
        assert!(loud, "{code}: {:?}", stage.events);
    }
    assert!(stage.stopped);
}

#[test]
fn a_mismatch_of_accepted_traffics_is_reported() {
    let mut stage = Stage::new(config());
    stage.input(Input::Started);
    stage.input(Input::BusUp);
    stage.answer_call("/api/worker", 200, &json!({"id": WORKER, "accepted_traffics": ["interactive"]}));
    assert_eq!(stage.notices("accepted_traffics_mismatch").len(), 1);
    assert!(!stage.worker.standing().trouble.is_empty());
}

#[test]
fn heartbeats_go_on_through_failures() {
    let mut stage = Stage::serving(json!([]), snapshot("1", vec![], vec![]));
    stage.pass(seconds(10));
    stage.answer_call(&format!("/api/worker/{WORKER}"), 500, &json!({"title": "Redis is down"}));
    assert!(stage.worker.standing().ready(stage.now.moment), "trouble with heartbeats is not trouble with serving");
    stage.pass(millis(500));
    assert!(stage.paths().iter().any(|path| path.starts_with("PATCH")), "retried with back-off: {:?}", stage.paths());
}

#[test]
fn a_forgotten_worker_registers_again_and_pulls_everything_unconditionally() {
    let mut stage = Stage::serving(json!([circuit(1)]), snapshot("7", vec![model("m", 1)], vec![key("k")]));
    stage.pass(seconds(10));
    let beat = stage.take("/api/worker/");
    stage.pass(seconds(5));
    assert!(stage.paths()[1].ends_with("router-config?known_revision=7"));
    let old_circuits = stage.take("/circuits");
    stage.answer(beat, 404, &json!({"title": "E00002: No such worker."}));
    assert_eq!(stage.paths(), ["PUT /api/worker"], "what was in flight is abandoned");
    assert!(stage.serves("m"), "and served all the while");
    // An answer of the old registration is counted and dropped.
    stage.answer(old_circuits, 404, &json!({}));
    assert_eq!(stage.paths(), ["PUT /api/worker"]);
    stage.register();
    assert!(stage.paths()[1].ends_with("/router-config"), "no known_revision: {:?}", stage.paths());
    // An empty list is applied like any other, with the loudest notice.
    stage.answer_call("/circuits", 200, &json!({"circuits": []}));
    stage.answer_call("/router-config", 200, &snapshot("1", vec![], vec![]));
    // Torn or not: a publication that loses its circuits by going away itself is no sign of tearing.
    assert!(!stage.serves("m"));
    assert_eq!(stage.notices("emptied").len(), 3);
}

#[test]
fn re_registration_has_its_own_back_off_until_a_full_pull_is_applied() {
    let mut stage = Stage::serving(json!([]), snapshot("1", vec![], vec![]));
    let mut puts: Vec<Moment> = Vec::new();
    stage.pass(seconds(10));
    for _ in 0..6 {
        stage.answer_call(&format!("/api/worker/{WORKER}"), 404, &json!({}));
        while !stage.paths().iter().any(|path| path.starts_with("PUT")) {
            let at = stage.wait.expect("a deadline").at;
            stage.pass(at.since(stage.now.moment));
        }
        puts.push(stage.now.moment);
        stage.answer_call("/api/worker", 200, &json!({"id": WORKER}));
    }
    let gaps: Vec<_> = puts.windows(2).map(|pair| pair[1].since(pair[0])).collect();
    assert!(gaps[0] >= millis(250) && gaps[4] >= seconds(4), "{gaps:?}");
    // A full pull of the new registration resets it.
    stage.answer_call("/circuits", 200, &json!({"circuits": []}));
    stage.answer_call("/router-config", 200, &snapshot("1", vec![], vec![]));
    stage.pass(seconds(30));
    let now = stage.now.moment;
    stage.answer_call(&format!("/api/worker/{WORKER}"), 404, &json!({}));
    assert!(stage.paths().iter().any(|path| path.starts_with("PUT")));
    assert_eq!(stage.now.moment, now);
}

#[test]
fn the_bus_back_off_grows_and_starts_over_only_after_ten_seconds() {
    let mut stage = Stage::serving(json!([]), snapshot("1", vec![], vec![]));
    let waited = |stage: &mut Stage| {
        let before = stage.subscribes;
        let began = stage.now.moment;
        while stage.subscribes == before {
            stage.pass(millis(50));
        }
        stage.now.moment.since(began)
    };
    stage.input(Input::BusLost("the stream ended".into()));
    assert!(waited(&mut stage) <= millis(550));
    for _ in 0..6 {
        stage.input(Input::BusUp);
        stage.pass(seconds(9));
        stage.input(Input::BusLost("the stream ended".into()));
        waited(&mut stage);
    }
    stage.input(Input::BusLost("refused".into()));
    assert!(waited(&mut stage) >= seconds(5), "flapping does not reset the back-off");
    stage.input(Input::BusUp);
    stage.pass(seconds(10));
    stage.input(Input::BusLost("the stream ended".into()));
    assert!(waited(&mut stage) <= millis(550));
}

#[test]
fn readiness_is_kept_through_trouble_unless_a_bound_is_set() {
    let mut bounded = config();
    bounded.max_staleness = Some(seconds(60));
    for (config, ready_when_stale) in [(config(), true), (bounded, false)] {
        let mut stage = Stage::new(config);
        stage.input(Input::Started);
        stage.input(Input::BusUp);
        stage.register();
        stage.answer_call("/circuits", 200, &json!({"circuits": []}));
        stage.answer_call("/router-config", 200, &snapshot("1", vec![], vec![]));
        stage.pass(seconds(60));
        assert!(stage.worker.standing().ready(stage.now.moment));
        stage.pass(millis(1));
        assert_eq!(stage.worker.standing().ready(stage.now.moment), ready_when_stale);
        stage.input(Input::Shutdown);
        assert!(!stage.worker.standing().ready(stage.now.moment));
    }
}
