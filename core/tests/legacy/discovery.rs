//! What replicas are asked, when, and what becomes of their answers (worker-protocol 4.1, 4.2), through the worker.

use std::sync::Arc;

use appproxy_core::config::health::HealthChecks;
use appproxy_core::config::worker::{LegacyMode, Mode, WorkerConfig};
use appproxy_core::serving::{CircuitModel, ServingSettings};
use appproxy_core::worker::journal::shown;
use appproxy_core::worker::{Input, Probe, TransportFailure};
use http::StatusCode;
use serde_json::{Value, json};

use crate::stage::{Stage, circuit, circuit_id, config, endpoint_id, millis, seconds};
use crate::world::mode;

fn legacy(names: &[(&str, &str)]) -> WorkerConfig {
    let names = names.iter().map(|(place, name)| ((*place).to_owned(), Arc::from(*name))).collect();
    WorkerConfig { mode: Mode::Legacy(LegacyMode { model_names: names, ..mode() }), ..config() }
}

/// A wildcard worker without health probes, so that every probe is a question for models.
pub(crate) fn stage(circuits: Value) -> Stage {
    with(legacy(&[]), circuits)
}

fn with(config: WorkerConfig, circuits: Value) -> Stage {
    let checks = HealthChecks { enabled: false, ..HealthChecks::default() };
    let mut stage = Stage::with(config, &ServingSettings { checks, ..ServingSettings::default() });
    stage.input(Input::Started);
    stage.input(Input::BusUp);
    stage.register();
    stage.answer_call("/circuits", 200, &json!({ "circuits": circuits }));
    stage.events.clear();
    stage
}

pub(crate) fn at(number: u32, label: &str, ports: &[u16]) -> Value {
    let mut circuit = circuit(number);
    circuit["subdomain"] = json!(label);
    circuit["frontend_mode"] = json!("wildcard");
    let route = circuit["route_info"][0].clone();
    let routes = ports.iter().map(|port| {
        let mut route = route.clone();
        route["kernel_port"] = json!(port);
        route["route_id"] = json!(format!("70000000-0000-4000-8000-{port:012}"));
        route
    });
    circuit["route_info"] = routes.collect();
    circuit
}

fn model(stage: &Stage, label: &str) -> String {
    let view = stage.view.as_ref().expect("a view");
    match &view.registry().at(label).expect("a circuit").model {
        CircuitModel::Held => "held".to_owned(),
        CircuitModel::Opaque => "opaque".to_owned(),
        CircuitModel::Known { canonical, listed } => format!("{canonical} of {}", listed.join(",")),
    }
}

/// The one question under way, and where it goes.
#[track_caller]
fn asked(stage: &mut Stage) -> (Probe, String) {
    assert_eq!(stage.probes.len(), 1);
    let probe = stage.probes.remove(0);
    let uri = probe.request().uri().to_string();
    (probe, uri)
}

fn answer(stage: &mut Stage, status: u16, body: &str) -> String {
    let (probe, uri) = asked(stage);
    stage.input(Input::ProbeEnded(probe.answered(StatusCode::from_u16(status).unwrap(), body.as_bytes())));
    uri
}

const LIST: &str = r#"{"object":"list","data":[{"id":"org/base"},{"id":"lora"}]}"#;

#[test]
fn a_replica_is_asked_and_its_first_name_is_the_canonical_one() {
    let mut stage = stage(json!([at(1, "foo", &[30001])]));
    assert_eq!(model(&stage, "foo"), "held");
    assert_eq!(shown::state(&stage.worker).get("learned"), None);
    assert_eq!(answer(&mut stage, 200, LIST), "http://10.0.0.1:30001/v1/models");
    assert_eq!(model(&stage, "foo"), "org/base of lora,org/base");
    let [learned] = &stage.notices("model_learned")[..] else { panic!("{:?}", stage.events) };
    assert!(learned.contains("serves the model \"org/base\""), "{learned}");
    let state = shown::state(&stage.worker);
    assert_eq!(state["learned"].as_object().map(|known| known.len()), Some(1), "{state}");
    let backends: Vec<_> = stage.view.as_ref().unwrap().backends().map(|one| one.models.to_vec()).collect();
    assert_eq!(backends, [vec![Arc::from("org/base")]]);
    // Known and unchanged: not asked again, neither in time nor by a pull.
    stage.pass(seconds(15));
    stage.answer_call("/circuits", 200, &json!({ "circuits": [at(1, "foo", &[30001])] }));
    stage.pass(seconds(600));
    assert!(stage.probes.is_empty());
}

#[test]
fn what_keeps_a_circuit_held_and_what_makes_it_opaque() {
    for (status, body, wanted) in [
        (200, r#"{"data":[]}"#, "held"),
        (200, r#"{"data":[{"id":""},{"id":7}]}"#, "held"),
        (401, "", "held"),
        (500, "", "held"),
        (503, LIST, "held"),
        (404, "", "opaque"),
        (403, "", "opaque"),
        (405, "", "opaque"),
        (302, "", "opaque"),
        (501, "", "opaque"),
        (502, "", "held"),
        (200, "<html>", "opaque"),
        (200, "[]", "opaque"),
        (200, r#"{"models":["m"]}"#, "opaque"),
    ] {
        let mut stage = stage(json!([at(1, "foo", &[30001])]));
        answer(&mut stage, status, body);
        assert_eq!(model(&stage, "foo"), wanted, "{status} {body}");
    }
    let mut stage = stage(json!([at(1, "foo", &[30001])]));
    let (probe, _) = asked(&mut stage);
    stage.input(Input::ProbeEnded(probe.failed(TransportFailure::Refused)));
    assert_eq!(model(&stage, "foo"), "held");
}

#[test]
fn after_a_failure_another_replica_is_asked_with_growing_waits() {
    let mut stage = stage(json!([at(1, "foo", &[30001, 30002, 30003])]));
    let mut ports = vec![answer(&mut stage, 503, "")];
    assert!(stage.probes.is_empty(), "not at once");
    for wait in [500, 1000, 2000, 4000] {
        stage.pass(millis(wait / 2 - 1));
        assert!(stage.probes.is_empty(), "too early");
        stage.pass(millis(wait / 2 + 1));
        ports.push(answer(&mut stage, 500, ""));
    }
    let wanted = [30001, 30002, 30003, 30001, 30002].map(|port| format!("http://10.0.0.1:{port}/v1/models"));
    assert_eq!(ports, wanted);
    stage.pass(seconds(8));
    answer(&mut stage, 200, LIST);
    assert_eq!(model(&stage, "foo"), "org/base of lora,org/base");
}

#[test]
fn silence_ends_at_the_deadline() {
    let mut stage = stage(json!([at(1, "foo", &[30001, 30002])]));
    assert_eq!(stage.probes.len(), 1);
    stage.pass(seconds(10));
    assert!(stage.probes.is_empty(), "given up");
    stage.pass(millis(501));
    assert_eq!(answer(&mut stage, 200, LIST), "http://10.0.0.1:30002/v1/models");
}

#[test]
fn changed_routes_are_asked_again_and_what_is_known_stays_meanwhile() {
    let mut stage = stage(json!([at(1, "foo", &[30001])]));
    answer(&mut stage, 200, LIST);
    let changed = at(1, "foo", &[30001, 30002]);
    stage.event("circuit_route_updated", &json!({"circuit": changed, "routes": changed["route_info"]}));
    assert_eq!(model(&stage, "foo"), "org/base of lora,org/base");
    assert_eq!(answer(&mut stage, 503, ""), "http://10.0.0.1:30002/v1/models");
    assert_eq!(model(&stage, "foo"), "org/base of lora,org/base");
    stage.pass(seconds(1));
    assert_eq!(answer(&mut stage, 200, r#"{"data":[{"id":"new"}]}"#), "http://10.0.0.1:30001/v1/models");
    assert_eq!(model(&stage, "foo"), "new of new");
}

#[test]
fn a_question_to_a_replica_that_went_away_is_dropped() {
    let mut stage = stage(json!([at(1, "foo", &[30001])]));
    assert_eq!(stage.probes.len(), 1);
    let (stale, _) = asked(&mut stage);
    let changed = at(1, "foo", &[30002]);
    stage.event("circuit_route_updated", &json!({"circuit": changed, "routes": changed["route_info"]}));
    stage.input(Input::ProbeEnded(stale.answered(StatusCode::NOT_FOUND, b"")));
    assert_eq!(model(&stage, "foo"), "held", "a late answer is nobody's");
    assert_eq!(answer(&mut stage, 200, LIST), "http://10.0.0.1:30002/v1/models");
    stage.event("circuit_removed", &json!({"circuits": [changed]}));
    assert!(stage.view.as_ref().unwrap().registry().at("foo").is_none());
    assert_eq!(stage.worker.desired().learned().len(), 0);
}

#[test]
fn a_question_to_a_replica_that_stays_is_waited_for_and_asked_again() {
    let mut stage = stage(json!([at(1, "foo", &[30001])]));
    let changed = at(1, "foo", &[30001, 30002]);
    stage.event("circuit_route_updated", &json!({"circuit": changed, "routes": changed["route_info"]}));
    assert_eq!(answer(&mut stage, 200, LIST), "http://10.0.0.1:30001/v1/models");
    assert_eq!(model(&stage, "foo"), "org/base of lora,org/base");
    assert_eq!(answer(&mut stage, 200, LIST), "http://10.0.0.1:30002/v1/models", "the new one may know better");
    assert!(stage.probes.is_empty());
}

#[test]
fn a_question_about_an_endpoint_without_circuits_is_given_up() {
    let mut stage = stage(json!([at(1, "foo", &[30001])]));
    assert_eq!(stage.probes.len(), 1);
    stage.event("circuit_removed", &json!({"circuits": [at(1, "foo", &[30001])]}));
    assert!(stage.probes.is_empty() && stage.worker.held()[4] == 0);
}

#[test]
fn one_that_lists_nothing_is_asked_again_later() {
    let mut stage = stage(json!([at(1, "foo", &[30001, 30002])]));
    answer(&mut stage, 404, "");
    assert_eq!(model(&stage, "foo"), "opaque");
    stage.pass(seconds(1));
    answer(&mut stage, 200, LIST);
    assert_eq!(model(&stage, "foo"), "org/base of lora,org/base");
}

#[test]
fn a_circuit_without_routes_waits_for_them_and_is_acked_all_the_same() {
    let mut stage = stage(json!([]));
    stage.event("circuit_created", &json!({"circuits": [at(1, "foo", &[])]}));
    assert_eq!(stage.take_acks(), [format!("1 circuit(s), first {}", circuit_id(1))]);
    assert_eq!(model(&stage, "foo"), "held");
    assert!(stage.probes.is_empty());
    let routed = at(1, "foo", &[30001]);
    stage.event("circuit_route_updated", &json!({"circuit": routed, "routes": routed["route_info"]}));
    answer(&mut stage, 200, LIST);
    assert_eq!(model(&stage, "foo"), "org/base of lora,org/base");
}

#[test]
fn a_configured_name_is_not_asked_for() {
    for place in ["foo".to_owned(), endpoint_id(1)] {
        let mut stage = with(legacy(&[(&place, "given")]), json!([at(1, "foo", &[30001]), at(2, "bar", &[])]));
        assert!(stage.probes.is_empty());
        assert_eq!(model(&stage, "foo"), "given of given");
        stage.pass(seconds(10));
        assert!(stage.probes.is_empty());
    }
}

#[test]
fn publications_and_keys_are_nothing_to_a_wildcard_worker() {
    let mut stage = stage(json!([]));
    assert!(stage.paths().is_empty(), "no router-config is pulled");
    stage.event("router_model_removed", &json!({"model_name": "m"}));
    stage.event("router_key_updated", &json!({"key_id": "k"}));
    assert!(stage.paths().is_empty() && stage.take_acks().is_empty());
}

#[test]
fn leaving_asks_nothing_more() {
    let mut stage = stage(json!([at(1, "foo", &[30001])]));
    assert_eq!(stage.probes.len(), 1);
    stage.input(Input::Drained);
    assert!(stage.probes.is_empty());
    let delete = stage.take("/api/worker/");
    assert_eq!(delete.request().path_and_query, format!("/api/worker/{}", crate::stage::WORKER));
    stage.answer(delete, 200, &json!({"success": true}));
    assert!(stage.stopped);
}
