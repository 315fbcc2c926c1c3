//! A plain router: one machine for the health of static backends, and no coordinator.

use std::sync::Arc;

use appproxy_core::config::health::HealthChecks;
use appproxy_core::config::worker::WorkerConfig;
use appproxy_core::desired::BackendKind;
use appproxy_core::secret::Secret;
use appproxy_core::serving::{Health, ServingSettings, StaticBackend, StaticModel};
use appproxy_core::worker::Input;
use appproxy_core::worker::journal::shown;
use http::StatusCode;
use serde_json::json;

use crate::stage::{Stage, seconds};

fn backend(name: &str, kind: BackendKind, base_path: &str, models: &[&str]) -> StaticBackend {
    StaticBackend {
        name: name.into(),
        kind,
        tls: true,
        host: format!("{name}.example.com").into(),
        port: 443,
        base_path: base_path.into(),
        credential: Some(Secret::new("sk-marked")),
        weight: 1,
        models: models.iter().map(|name| StaticModel { name: Arc::from(*name), aliases: Vec::new() }).collect(),
        probed: true,
    }
}

fn stage(backends: Vec<StaticBackend>) -> Stage {
    Stage::with(WorkerConfig::plain(), &ServingSettings { backends, ..ServingSettings::default() })
}

#[test]
fn it_joins_nobody_is_ready_at_once_and_stops_when_drained() {
    let mut stage = stage(vec![backend("a", BackendKind::Generic, "", &["m"])]);
    stage.pass(seconds(5));
    assert!(stage.probes.is_empty(), "nothing before it is started");
    assert!(stage.worker.view().static_model("m").is_some(), "what is served before the first apply");
    stage.input(Input::Started);
    assert!(stage.worker.standing().ready(stage.now.moment));
    stage.pass(seconds(120));
    assert_eq!((stage.calls.len(), stage.subscribes, stage.acks.len()), (0, 0, 0));
    stage.input(Input::Shutdown);
    assert!(!stage.worker.standing().ready(stage.now.moment) && !stage.stopped);
    stage.input(Input::Drained);
    assert!(stage.stopped && stage.calls.is_empty() && stage.probes.is_empty());
    assert_eq!(stage.wait, None);
}

#[test]
fn it_stops_without_having_been_started_and_without_a_shutdown_before() {
    let mut stage = stage(vec![]);
    stage.input(Input::Drained);
    assert!(stage.stopped);
}

#[test]
fn each_kind_is_asked_in_its_own_way_with_our_credential() {
    let kinds = [
        (BackendKind::Generic, "", "/v1/models", "authorization", "Bearer sk-marked"),
        (BackendKind::Vllm, "/api", "/api/v1/models", "authorization", "Bearer sk-marked"),
        (BackendKind::OpenAi, "/v1", "/v1/models", "authorization", "Bearer sk-marked"),
        (BackendKind::Anthropic, "", "/v1/models?limit=1000", "x-api-key", "sk-marked"),
        (BackendKind::Gemini, "", "/v1beta/models?pageSize=1000", "x-goog-api-key", "sk-marked"),
    ];
    for (kind, base_path, path, header, value) in kinds {
        let mut stage = stage(vec![backend("a", kind, base_path, &["m"])]);
        stage.input(Input::Started);
        stage.pass(seconds(1));
        let probe = stage.probes.pop().expect("a probe");
        let request = probe.request();
        assert_eq!(request.uri().path_and_query().unwrap(), path);
        assert_eq!(request.uri().authority().unwrap(), "a.example.com:443");
        assert_eq!(request.headers()[header], value);
        assert_eq!(request.headers().contains_key("anthropic-version"), kind == BackendKind::Anthropic);
        assert!(!format!("{probe:?}").contains("sk-marked"));
    }
    // A configured path is asked of every kind.
    let checks = HealthChecks { endpoint: "/health".into(), ..HealthChecks::default() };
    for kind in [BackendKind::Gemini, BackendKind::Anthropic] {
        let backends = vec![backend("a", kind, "/x", &["m"])];
        let settings = ServingSettings { backends, checks: checks.clone(), ..ServingSettings::default() };
        let mut stage = Stage::with(WorkerConfig::plain(), &settings);
        stage.input(Input::Started);
        stage.pass(seconds(1));
        assert_eq!(stage.probes[0].request().uri().path(), "/x/health", "{kind}");
    }
}

#[test]
fn its_backends_fall_and_come_back_and_say_what_they_serve() {
    let mut stage = stage(vec![backend("a", BackendKind::Generic, "", &[])]);
    stage.input(Input::Started);
    stage.pass(seconds(1));
    let probe = stage.probes.pop().expect("a probe");
    stage.input(Input::ProbeEnded(probe.answered(StatusCode::OK, br#"{"data":[{"id":"learned"}]}"#)));
    let health = |stage: &Stage| {
        let pool = stage.view.as_ref().unwrap().static_model("learned").unwrap().clone();
        pool.candidates().next().unwrap().health
    };
    assert_eq!(health(&stage), Health::Ready);
    stage.pass(seconds(120));
    assert_eq!(health(&stage), Health::Down);
    for _ in 0..2 {
        while stage.probes.is_empty() {
            stage.pass(seconds(1));
        }
        let probe = stage.probes.pop().expect("a probe");
        stage.input(Input::ProbeEnded(probe.answered(StatusCode::FORBIDDEN, b"")));
    }
    assert_eq!(health(&stage), Health::Ready);
}

#[test]
fn an_address_that_makes_no_uri_is_down_in_its_time() {
    let mut odd = backend("a", BackendKind::Generic, "", &["m"]);
    odd.host = "no host".into();
    let mut stage = stage(vec![odd]);
    stage.input(Input::Started);
    stage.pass(seconds(100));
    assert!(stage.probes.is_empty());
    let pool = stage.worker.view().static_model("m").unwrap().clone();
    assert_eq!(pool.candidates().next().unwrap().health, Health::Down);
}

#[test]
fn its_state_shows_the_aliases_of_those_that_have_any() {
    let aliased = StaticModel { name: "m".into(), aliases: vec!["also".into()] };
    let one = StaticBackend { models: vec![aliased], ..backend("a", BackendKind::Generic, "", &[]) };
    let stage = stage(vec![one, backend("b", BackendKind::Generic, "", &["n"])]);
    let state = shown::state(&stage.worker);
    let backends = state["backends"].as_array().unwrap();
    let shown = |name: &str| backends.iter().find(|one| one["name"] == name).unwrap().get("aliases");
    assert_eq!((shown("a"), shown("b")), (Some(&json!([["also", "m"]])), None));
}
