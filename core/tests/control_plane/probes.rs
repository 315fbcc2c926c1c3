//! Probes and live traffic as the worker asks for them and hears of them (data-plane 4).

use std::collections::BTreeSet;
use std::time::Duration;

use appproxy_core::config::health::HealthChecks;
use appproxy_core::limits;
use appproxy_core::serving::{AttemptEnd, ExchangeEnded, Health, ServingSettings};
use appproxy_core::worker::{Event, Input, Probe, TransportFailure, WakeReason};
use http::StatusCode;
use serde_json::{Value, json};

use crate::stage::{Stage, circuit, circuit_id, config, endpoint_id, millis, model, seconds, snapshot};

/// Model `m` over circuit 1 with replicas `0..replicas`.
fn stage_of(replicas: u32) -> Stage {
    Stage::serving(json!([with_replicas(replicas)]), snapshot("1", vec![model("m", 1)], vec![]))
}

fn with_replicas(replicas: u32) -> Value {
    let mut circuit = circuit(1);
    let route = circuit["route_info"][0].clone();
    let routes = (0..replicas).map(|n| {
        let mut route = route.clone();
        route["route_id"] = json!(format!("70000000-0000-4000-8000-{n:012}"));
        route["kernel_port"] = json!(20000 + n);
        route
    });
    circuit["route_info"] = routes.collect();
    circuit
}

fn backend(n: u32) -> String {
    format!("appproxy-{}-r70000000-0000-4000-8000-{n:012}", circuit_id(1))
}

fn health(stage: &Stage, n: u32) -> Health {
    let pool = stage.view.as_ref().unwrap().model("m").unwrap();
    pool.candidates().find(|one| *one.backend.name == *backend(n)).unwrap().health
}

/// Takes the probe that is under way for a replica.
#[track_caller]
fn probe_of(stage: &mut Stage, n: u32) -> Probe {
    let at = stage.probes.iter().position(|probe| **probe.backend() == *backend(n)).expect("a probe");
    stage.probes.remove(at)
}

/// Lets time pass up to the next probe of replica 0, the only one.
#[track_caller]
fn next_probe(stage: &mut Stage) -> Probe {
    while stage.probes.is_empty() {
        let deadline = stage.wait.expect("a deadline");
        stage.pass(deadline.at.since(stage.now.moment));
        // Heartbeats and pulls are not what this is about.
        stage.calls.clear();
    }
    probe_of(stage, 0)
}

fn answer(stage: &mut Stage, probe: Probe, status: u16, body: &str) {
    stage.input(Input::ProbeEnded(probe.answered(StatusCode::from_u16(status).unwrap(), body.as_bytes())));
}

fn changes(stage: &mut Stage) -> Vec<(Health, Health)> {
    let events = core::mem::take(&mut stage.events);
    let changes = events.into_iter().filter_map(|event| match event {
        Event::Health(change) => Some((change.from, change.to)),
        _ => None,
    });
    changes.collect()
}

#[test]
fn a_new_replica_is_probed_soon_and_then_in_its_own_beat() {
    let mut stage = stage_of(1);
    assert!(stage.probes.is_empty() && health(&stage, 0) == Health::Unknown);
    let began = stage.now.moment;
    let probe = next_probe(&mut stage);
    assert!(stage.now.moment.since(began) < seconds(1), "within warmup_check_interval");
    assert_eq!(probe.request().uri(), "http://10.0.0.1:20000/v1/models");
    assert_eq!((probe.request().method().as_str(), probe.timeout()), ("GET", seconds(10)));
    assert_eq!(probe.request().headers()["host"], "10.0.0.1:20000");
    assert_eq!(probe.deadline(), stage.now.moment.after(seconds(10)));
    stage.events.clear();
    answer(&mut stage, probe, 200, r#"{"data":[{"id":"org/m"}]}"#);
    assert_eq!(changes(&mut stage), [(Health::Unknown, Health::Ready)]);
    let backend = stage.view.as_ref().unwrap().backend(&backend(0)).unwrap().clone();
    assert_eq!(backend.own_name("m").map(|name| &**name), Some("org/m"));

    // The second one draws the beat, from then on it is kept, however long the answers take.
    let probe = next_probe(&mut stage);
    answer(&mut stage, probe, 404, "");
    let mut beat = Vec::new();
    for took in [0, 9, 4] {
        let probe = next_probe(&mut stage);
        beat.push(stage.now.moment);
        stage.pass(seconds(took));
        answer(&mut stage, probe, 200, "");
    }
    assert!(beat.windows(2).all(|two| two[1].since(two[0]) == seconds(30)), "{beat:?}");
    assert_eq!(health(&stage, 0), Health::Ready, "slow within its time is not dead");
}

#[test]
fn silence_is_given_up_and_the_third_time_it_is_down_then_two_answers_bring_it_back() {
    let mut stage = stage_of(1);
    for round in 1..=3 {
        let probe = next_probe(&mut stage);
        assert_eq!(stage.wait.map(|wait| wait.at <= probe.deadline()), Some(true));
        stage.pass(seconds(10));
        assert_eq!(health(&stage, 0) == Health::Down, round == 3);
        // What comes after that is nobody's.
        stage.events.clear();
        answer(&mut stage, probe, 200, "");
        let late = Event::ProbeEnded { backend: None, outcome: "late".into() };
        assert_eq!(stage.events, [late]);
    }
    let pool = stage.view.as_ref().unwrap().model("m").unwrap().clone();
    assert!(!pool.can_serve() && pool.candidates().count() == 1);
    assert!(stage.worker.standing().ready(stage.now.moment), "that is the model's trouble, not the node's");

    let began = stage.now.moment;
    let probe = next_probe(&mut stage);
    answer(&mut stage, probe, 401, "");
    let probe = next_probe(&mut stage);
    answer(&mut stage, probe, 404, "");
    assert_eq!(health(&stage, 0), Health::Ready);
    assert!(stage.now.moment.since(began) <= seconds(31), "without any word from the coordinator");
}

#[test]
fn one_that_loads_is_asked_each_second_for_its_time() {
    let mut stage = stage_of(1);
    let probe = next_probe(&mut stage);
    answer(&mut stage, probe, 503, "");
    let began = stage.now.moment;
    assert_eq!(health(&stage, 0), Health::WarmingUp);
    for second in 1..=300 {
        let probe = next_probe(&mut stage);
        assert_eq!(stage.now.moment, began.after(seconds(second)));
        assert_eq!(health(&stage, 0), Health::WarmingUp);
        answer(&mut stage, probe, 503, "");
    }
    assert_eq!(health(&stage, 0), Health::Down);
    for _ in 0..2 {
        let probe = next_probe(&mut stage);
        answer(&mut stage, probe, 200, "");
    }
    assert_eq!(health(&stage, 0), Health::Ready);
}

#[test]
fn live_failures_put_it_out_and_time_brings_it_back() {
    let mut stage = stage_of(2);
    stage.pass(millis(1));
    let began = stage.now.moment;
    stage.events.clear();
    for end in [AttemptEnd::NotConnected, AttemptEnd::BrokeOff, AttemptEnd::Answered(502)] {
        stage.input(Input::ExchangeEnded(ExchangeEnded { backend: backend(0).into(), began, end }));
    }
    assert_eq!((health(&stage, 0), health(&stage, 1)), (Health::Quarantined, Health::Unknown));
    assert_eq!(changes(&mut stage), [(Health::Unknown, Health::Quarantined)]);
    stage.probes.clear();
    let reasons: BTreeSet<WakeReason> = core::iter::from_fn(|| {
        let wait = stage.wait.filter(|wait| wait.at <= began.after(seconds(10)))?;
        stage.pass(wait.at.since(stage.now.moment));
        Some(wait.reason)
    })
    .collect();
    assert!(reasons.contains(&WakeReason::QuarantineEnd), "{reasons:?}");
    assert_eq!(health(&stage, 0), Health::Unknown);
    // Of a backend that is not here nothing is heard.
    stage.input(Input::ExchangeEnded(ExchangeEnded { backend: "x".into(), began, end: AttemptEnd::Broke }));
}

#[test]
fn thousands_are_probed_one_after_the_other_and_not_more_than_the_bound_at_once() {
    let mut stage = stage_of(5000);
    let (mut most, mut at) = (0, Vec::new());
    // None of them answers: their time is up ten seconds later.
    while stage.now.moment.as_millis() < 12_000 {
        let before = stage.probes.len();
        stage.pass(millis(100));
        stage.calls.clear();
        at.push(stage.probes.len().saturating_sub(before));
        most = most.max(stage.probes.len());
    }
    assert_eq!(most, limits::PROBES);
    assert!(at.iter().all(|begun| *begun <= 200 || *begun == limits::PROBES), "{at:?}");
    assert_eq!(stage.worker.held()[4], stage.probes.len());

    let mut stage = stage_of(2000);
    let mut begun = Vec::new();
    // All of them answer at once: two rounds, both spread.
    while stage.now.moment.as_millis() < 30_000 {
        stage.pass(millis(500));
        stage.calls.clear();
        begun.push(stage.probes.len());
        for probe in core::mem::take(&mut stage.probes) {
            stage.input(Input::ProbeEnded(probe.answered(StatusCode::OK, b"")));
        }
    }
    assert!(begun.iter().all(|begun| *begun < 600), "{begun:?}");
    assert_eq!(stage.worker.view().counts().health.ready, 2000);
}

#[test]
fn those_that_came_together_are_not_asked_together_for_ever() {
    let mut stage = stage_of(60);
    let mut begun = Vec::new();
    for _ in 0..40 {
        stage.pass(seconds(1));
        stage.calls.clear();
        begun.push(stage.probes.len());
        for probe in core::mem::take(&mut stage.probes) {
            answer(&mut stage, probe, 200, "");
        }
    }
    assert_eq!(begun[0], 60, "soon at first");
    assert!(begun[1..].iter().all(|begun| *begun <= 10), "then two a second or so: {begun:?}");
}

#[test]
fn probes_follow_the_membership() {
    let mut stage = stage_of(2);
    stage.pass(seconds(1));
    stage.calls.clear();
    assert_eq!(stage.probes.len(), 2);
    let route = |n: u32| with_replicas(3)["route_info"][n as usize].clone();
    let routes = json!([route(1), route(2)]);
    stage.event("circuit_route_updated", &json!({"circuit": with_replicas(2), "routes": routes}));
    assert_eq!(stage.probes.len(), 1, "the one that left is not waited for");
    stage.pass(seconds(1));
    let names: BTreeSet<String> = stage.probes.iter().map(|probe| probe.backend().to_string()).collect();
    assert_eq!(names, [backend(1), backend(2)].into());
    // The same event again: nobody is asked twice.
    stage.event("circuit_route_updated", &json!({"circuit": with_replicas(2), "routes": routes}));
    stage.pass(seconds(1));
    assert_eq!(stage.probes.len(), 2);
    stage.event("circuit_removed", &json!({"circuits": [{"id": circuit_id(1), "endpoint_id": endpoint_id(1)}]}));
    assert!(stage.probes.is_empty());
}

#[test]
fn probing_goes_on_until_the_last_request_has_ended() {
    let mut stage = stage_of(1);
    stage.input(Input::Shutdown);
    let probe = next_probe(&mut stage);
    answer(&mut stage, probe, 200, "");
    let probe = next_probe(&mut stage);
    stage.probes.push(probe);
    stage.input(Input::Drained);
    assert!(stage.probes.is_empty() && stage.worker.held()[4] == 0);
    stage.pass(seconds(60));
    assert!(stage.probes.is_empty());
}

#[test]
fn without_health_checks_nobody_is_asked() {
    let checks = HealthChecks { enabled: false, ..HealthChecks::default() };
    let mut stage = Stage::with(config(), &ServingSettings { checks, ..ServingSettings::default() });
    stage.join(json!([circuit(1)]), snapshot("1", vec![model("m", 1)], vec![]));
    stage.pass(Duration::from_secs(120));
    assert!(stage.probes.is_empty());
    assert_eq!(stage.view.as_ref().unwrap().counts().health.unknown, 1);
}

#[test]
fn inputs_survive_the_journal() {
    let mut stage = stage_of(1);
    let probe = next_probe(&mut stage);
    let answered = Input::ProbeEnded(probe.answered(StatusCode::OK, br#"{"data":[{"id":"m"}]}"#));
    let failed = Input::ProbeEnded(next_probe_failed(&mut stage, answered.clone()));
    let began = stage.now.moment;
    let told = Input::ExchangeEnded(ExchangeEnded { backend: "b".into(), began, end: AttemptEnd::Answered(500) });
    for input in [answered, failed, told] {
        let line = serde_json::to_string(&input).unwrap();
        assert_eq!(serde_json::from_str::<Input>(&line).unwrap(), input, "{line}");
    }
}

fn next_probe_failed(stage: &mut Stage, first: Input) -> appproxy_core::worker::ProbeEnded {
    stage.input(first);
    next_probe(stage).failed(TransportFailure::Tls("no certificate".into()))
}
