//! Live traffic: quarantine, and how much of a model it may take.

use std::time::Duration;

use appproxy_core::serving::{AttemptEnd, ExchangeEnded, Health, ProbeSign};

use crate::stage::{Stage, name};
use crate::states::{circuit, publication, route};

const GOOD: ProbeSign = ProbeSign::Good(None);

/// Model `m` with this many replicas.
fn model_of(replicas: u128) -> Stage {
    let routes = (1..=replicas).map(|n| route(n, 1.0)).collect();
    Stage::new(vec![circuit(1, 1, routes)], vec![publication("m", &[], &[(1, 1.0)])], vec![])
}

fn out(stage: &Stage, model: &str) -> usize {
    stage.health(model).values().filter(|health| **health == Health::Quarantined).count()
}

#[test]
fn three_failures_in_a_row_put_it_out_for_ten_seconds_and_then_it_serves_again() {
    let mut stage = model_of(2);
    stage.end(&name(1, 1), AttemptEnd::NotConnected);
    stage.end(&name(1, 1), AttemptEnd::Silent);
    assert_eq!(out(&stage, "m"), 0);
    stage.end(&name(1, 1), AttemptEnd::Answered(400));
    stage.end(&name(1, 1), AttemptEnd::Abandoned);
    stage.end(&name(1, 1), AttemptEnd::Answered(503));
    assert_eq!(stage.health("m")[&name(1, 1)], Health::Quarantined);
    assert_eq!(stage.shares("m"), [0, 100]);
    assert_eq!(stage.serving.next_release(), Some(stage.now.after(Duration::from_secs(10))));
    stage.pass(Duration::from_millis(9_999));
    assert_eq!(out(&stage, "m"), 1);
    stage.pass(Duration::from_millis(1));
    assert_eq!((out(&stage, "m"), stage.serving.next_release()), (0, None));
    let why: Vec<_> = stage.serving.take_news().into_iter().map(|change| change.why).collect();
    assert_eq!(why, ["traffic", "quarantine_over"]);
    // It failed again: twice as long; and a success in between makes it ten seconds again.
    stage.broke(&name(1, 1));
    assert_eq!(stage.serving.next_release(), Some(stage.now.after(Duration::from_secs(20))));
    stage.pass(Duration::from_secs(20));
    stage.end(&name(1, 1), AttemptEnd::Answered(200));
    stage.broke(&name(1, 1));
    assert_eq!(stage.serving.next_release(), Some(stage.now.after(Duration::from_secs(10))));
}

#[test]
fn a_success_in_between_changes_everything_and_a_callers_mistakes_nothing() {
    let mut stage = model_of(2);
    for end in [AttemptEnd::Broke, AttemptEnd::Broke, AttemptEnd::Answered(200), AttemptEnd::Broke, AttemptEnd::Broke] {
        stage.end(&name(1, 1), end);
    }
    for status in [400, 404, 413, 422, 429, 401].into_iter().cycle().take(60) {
        stage.end(&name(1, 2), AttemptEnd::Answered(status));
        stage.end(&name(1, 2), AttemptEnd::Abandoned);
    }
    assert_eq!(out(&stage, "m"), 0);
}

#[test]
fn at_most_half_and_never_the_only_one() {
    for (replicas, most) in [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2)] {
        let mut stage = model_of(replicas);
        (1..=replicas).for_each(|n| stage.broke(&name(1, n)));
        assert_eq!(out(&stage, "m"), most, "of {replicas}");
        // When one is back, the next failure of another takes its place.
        stage.pass(Duration::from_secs(10));
        stage.end(&name(1, replicas), AttemptEnd::Broke);
        assert_eq!(out(&stage, "m"), most.min(1));
    }
}

#[test]
fn what_probes_put_down_does_not_count_and_the_last_one_that_serves_stays() {
    let mut stage = model_of(4);
    stage.fell(&name(1, 1));
    stage.fell(&name(1, 2));
    stage.broke(&name(1, 3));
    stage.broke(&name(1, 4));
    assert_eq!(out(&stage, "m"), 1);
    assert_eq!(stage.shares("m"), [0, 0, 0, 100]);
    // The last one falls by its probes: what is in quarantine is better than nothing.
    stage.fell(&name(1, 4));
    assert_eq!(out(&stage, "m"), 0);
    assert_eq!(stage.shares("m"), [0, 0, 100, 0]);
    assert!(stage.serving.take_news().iter().any(|change| change.why == "needed" && *change.backend == *name(1, 3)));
    // All down: nothing serves, and that is what the probes say.
    stage.fell(&name(1, 3));
    assert!(!stage.pool("m").can_serve());
}

#[test]
fn when_the_others_are_taken_away_quarantine_gives_back() {
    let mut stage = model_of(4);
    stage.broke(&name(1, 1));
    stage.broke(&name(1, 2));
    assert_eq!(out(&stage, "m"), 2);
    stage.desired.upsert_circuit(circuit(1, 1, vec![route(1, 1.0), route(2, 1.0)]));
    stage.update();
    let health = stage.health("m");
    assert_eq!(health[&name(1, 1)], Health::Unknown, "the one that was to come back first");
    assert_eq!(health[&name(1, 2)], Health::Quarantined);
    stage.desired.upsert_circuit(circuit(1, 1, vec![route(2, 1.0)]));
    stage.update();
    assert_eq!(stage.health("m")[&name(1, 2)], Health::Unknown);
    // So does draining the rest, without taking it away.
    let mut stage = model_of(2);
    stage.broke(&name(1, 1));
    let drained = crate::states::in_group(route(2, 1.0), 1);
    let mut circuit = circuit(1, 1, vec![route(1, 1.0), drained]);
    circuit.replica_groups = vec![crate::states::group(1, 0.0)];
    stage.desired.upsert_circuit(circuit);
    stage.update();
    assert_eq!(out(&stage, "m"), 0);
}

#[test]
fn every_model_of_a_replica_has_a_say() {
    let circuits = vec![circuit(1, 1, vec![route(1, 1.0)]), circuit(2, 2, vec![route(2, 1.0), route(3, 1.0)])];
    let both = publication("both", &[], &[(1, 1.0), (2, 1.0)]);
    let mut stage = Stage::new(circuits, vec![both, publication("one", &[], &[(1, 1.0)])], vec![]);
    stage.broke(&name(1, 1));
    assert_eq!(out(&stage, "both"), 0, "it is the only one of another model");
    stage.broke(&name(2, 2));
    assert_eq!(out(&stage, "both"), 1);
    stage.desired.remove_publication("one");
    stage.update();
    stage.broke(&name(1, 1));
    assert_eq!(out(&stage, "both"), 1, "one of three is half enough");
    assert_eq!(stage.health("both")[&name(1, 1)], Health::Unknown);
}

#[test]
fn a_replica_drained_in_one_model_is_none_of_its_replicas() {
    let circuits = vec![circuit(1, 1, vec![route(1, 1.0), route(2, 1.0)]), circuit(2, 2, vec![route(3, 1.0)])];
    let drained = publication("d", &[], &[(1, 0.0), (2, 1.0)]);
    let mut stage = Stage::new(circuits, vec![drained, publication("m", &[], &[(1, 1.0)])], vec![]);
    stage.broke(&name(1, 1));
    assert_eq!(out(&stage, "m"), 1, "`d` does not use it");
    stage.broke(&name(2, 3));
    assert_eq!(stage.health("d")[&name(2, 3)], Health::Unknown, "the only one that is not drained");
}

#[test]
fn probes_and_quarantine_go_side_by_side() {
    let mut stage = model_of(2);
    stage.broke(&name(1, 1));
    stage.sign(&name(1, 1), GOOD);
    assert_eq!(out(&stage, "m"), 1, "a good probe does not end it");
    stage.fell(&name(1, 1));
    assert_eq!(stage.health("m")[&name(1, 1)], Health::Down);
    // While it is down live traffic is not heard.
    stage.pass(Duration::from_secs(10));
    stage.broke(&name(1, 1));
    stage.sign(&name(1, 1), GOOD);
    stage.sign(&name(1, 1), GOOD);
    assert_eq!(stage.health("m")[&name(1, 1)], Health::Ready);
}

#[test]
fn what_was_sent_before_a_quarantine_does_not_prolong_it() {
    let mut stage = model_of(2);
    let began = stage.now;
    stage.broke(&name(1, 1));
    stage.pass(Duration::from_secs(10));
    for _ in 0..5 {
        let ended = ExchangeEnded { backend: name(1, 1).into(), began, end: AttemptEnd::Silent };
        stage.serving.take_end(&stage.desired, &ended, stage.now);
        stage.update();
    }
    assert_eq!(out(&stage, "m"), 0);
}
