//! Another configuration under a running worker (data-plane 8). Each of these is replayed from its journal as well.

use std::sync::Arc;

use appproxy_core::config::health::HealthChecks;
use appproxy_core::config::worker::WorkerConfig;
use appproxy_core::desired::BackendKind;
use appproxy_core::secret::Secret;
use appproxy_core::serving::{
    Health, Reconfigured, RoutingWeights, Serving, ServingSettings, StaticBackend, StaticModel,
};
use appproxy_core::worker::Input;
use http::StatusCode;
use serde_json::json;

use crate::stage::{Stage, circuit, config, key, model, seconds, snapshot};

fn backend(name: &str, port: u16, key: &str) -> StaticBackend {
    StaticBackend {
        name: name.into(),
        kind: BackendKind::Generic,
        tls: false,
        host: "10.0.0.5".into(),
        port,
        base_path: "".into(),
        credential: Some(Secret::new(key)),
        weight: 1,
        models: vec![StaticModel { name: Arc::from(name), aliases: Vec::new() }],
        probed: true,
    }
}

fn settings(backends: Vec<StaticBackend>) -> ServingSettings {
    ServingSettings { backends, ..ServingSettings::default() }
}

fn configure(stage: &mut Stage, settings: &ServingSettings, rekeyed: &[&str]) {
    let rekeyed = rekeyed.iter().map(|name| Arc::from(*name)).collect();
    stage.input(Input::Configured(Box::new(Reconfigured { settings: settings.clone(), rekeyed })));
}

fn plain(settings: &ServingSettings) -> Stage {
    let mut stage = Stage::with(WorkerConfig::plain(), settings);
    stage.input(Input::Started);
    stage.pass(seconds(2));
    stage
}

fn health(stage: &Stage, model: &str) -> Health {
    let view = stage.worker.view();
    view.static_model(model).and_then(|pool| pool.candidates().next()).map(|one| one.health).unwrap()
}

#[test]
fn backends_come_change_and_go_in_one_view_and_only_what_differs_does() {
    let mut stage = plain(&settings(vec![backend("stays", 1, "k"), backend("moves", 2, "k"), backend("goes", 3, "k")]));
    let probe = stage.probes.iter().position(|probe| &**probe.backend() == "stays").expect("a probe");
    let probe = stage.probes.remove(probe);
    stage.input(Input::ProbeEnded(probe.answered(StatusCode::OK, b"{}")));
    assert_eq!(health(&stage, "stays"), Health::Ready);
    let (applies, before) = (stage.applies, stage.worker.view().clone());
    configure(
        &mut stage,
        &settings(vec![backend("stays", 1, "k"), backend("moves", 9, "k"), backend("comes", 4, "k")]),
        &[],
    );
    assert_eq!(stage.applies, applies + 1);
    let view = stage.worker.view().clone();
    assert!(view.static_model("goes").is_none() && view.static_model("comes").is_some());
    assert_eq!(view.backend("moves").unwrap().port, 9);
    assert!(Arc::ptr_eq(view.static_model("stays").unwrap(), before.static_model("stays").unwrap()));
    assert_eq!((health(&stage, "stays"), view.digest()), (Health::Ready, before.digest()));
    assert_eq!(view.counts().static_backends, 3);
    // What was asked of those that went is nobody's; those that came are asked.
    stage.pass(seconds(2));
    let asked: Vec<_> = stage.probes.iter().map(|probe| probe.backend().to_string()).collect();
    assert!(asked.iter().any(|name| name == "comes") && !asked.iter().any(|name| name == "goes"), "{asked:?}");
    // The same once more is no news.
    let applies = stage.applies;
    configure(
        &mut stage,
        &settings(vec![backend("stays", 1, "k"), backend("moves", 9, "k"), backend("comes", 4, "k")]),
        &[],
    );
    assert_eq!(stage.applies, applies);
}

#[test]
fn another_credential_is_a_change_that_a_journal_knows_of_without_seeing_it() {
    let mut stage = plain(&settings(vec![backend("b", 1, "old-marked")]));
    let applies = stage.applies;
    configure(&mut stage, &settings(vec![backend("b", 1, "new-marked")]), &["b"]);
    assert_eq!(stage.applies, applies + 1);
    let held = stage.worker.view().backend("b").unwrap().credential.clone();
    assert_eq!(held.as_ref().map(Secret::expose), Some("new-marked"));
    assert!(!stage.journal().contains("marked"));
}

#[test]
fn checks_that_are_turned_off_hold_nobody_down_and_on_again_they_ask() {
    let on = settings(vec![backend("b", 1, "k")]);
    let off = ServingSettings { checks: HealthChecks { enabled: false, ..HealthChecks::default() }, ..on.clone() };
    let mut stage = plain(&on);
    stage.pass(seconds(200));
    assert_eq!(health(&stage, "b"), Health::Down, "nobody answers");
    configure(&mut stage, &off, &[]);
    assert_eq!(health(&stage, "b"), Health::Unknown);
    stage.probes.clear();
    stage.pass(seconds(200));
    assert!(stage.probes.is_empty());
    configure(&mut stage, &on, &[]);
    stage.pass(seconds(2));
    assert_eq!(stage.probes.len(), 1);
    // One backend alone.
    let spared = settings(vec![StaticBackend { probed: false, ..backend("b", 1, "k") }]);
    configure(&mut stage, &spared, &[]);
    stage.probes.clear();
    stage.pass(seconds(200));
    assert!(stage.probes.is_empty());
    // Other checks count at once.
    let quick = HealthChecks { interval: seconds(1), endpoint: "/ping".into(), ..HealthChecks::default() };
    configure(&mut stage, &ServingSettings { checks: quick, ..on }, &[]);
    stage.pass(seconds(2));
    assert_eq!(stage.probes.pop().unwrap().request().uri().path(), "/ping");
}

#[test]
fn c2_what_was_pulled_stays_and_shares_are_weighed_anew() {
    let mut stage = Stage::with(config(), &settings(vec![]));
    stage.join(json!([circuit(1)]), snapshot("1", vec![model("m", 1)], vec![key("k-1")]));
    let (applies, digest) = (stage.applies, stage.worker.view().digest());
    let literal = ServingSettings { weights: RoutingWeights::Literal, ..settings(vec![backend("s", 1, "k")]) };
    configure(&mut stage, &literal, &[]);
    assert_eq!(stage.applies, applies + 1, "one view holds all of it");
    let view = stage.view.clone().unwrap();
    assert!(stage.serves("m") && stage.has_key("k-1") && view.static_model("s").is_some());
    assert_eq!((view.model("m").unwrap().weights, view.digest()), (RoutingWeights::Literal, digest));
    // Made anew from the same state it is the same.
    let mut whole = Serving::new(&ServingSettings { rules: appproxy_core::desired::Rules::Router, ..literal });
    drop(whole.update(stage.worker.desired(), &stage.worker.desired().everything()));
    assert_eq!(whole.view().model("m"), view.model("m"));
    assert_eq!(whole.view().static_model("s"), view.static_model("s"));
    // And later changes build on it.
    stage.event("circuit_created", &json!({ "circuits": [circuit(2)] }));
    stage.event("router_model_updated", &json!({ "model": model("n", 2) }));
    assert_eq!(stage.view.clone().unwrap().model("n").map(|pool| pool.weights), Some(RoutingWeights::Literal));
}
