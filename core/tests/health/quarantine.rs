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
    // It is the only one of another model, which goes on asking it.
    assert_eq!((stage.shares("both"), stage.shares("one")), (vec![0, 50, 50], vec![100]));
    assert_eq!((stage.kept("both"), stage.kept("one")), (vec![], vec![name(1, 1)]));
    stage.broke(&name(2, 2));
    assert_eq!(stage.health("both")[&name(2, 2)], Health::Unknown, "one of three is half enough");
    // With a second one it needs it no more.
    stage.desired.upsert_circuit(circuit(1, 1, vec![route(1, 1.0), route(4, 1.0)]));
    stage.update();
    assert_eq!((stage.shares("one"), stage.kept("one")), (vec![0, 100], vec![]));
    stage.desired.upsert_circuit(circuit(1, 1, vec![route(1, 1.0)]));
    stage.update();
    assert_eq!(stage.kept("one"), [name(1, 1)]);
    // When the model that passes over it goes, there is nothing left of its quarantine.
    stage.desired.remove_publication("both");
    stage.update();
    assert_eq!(stage.health("one")[&name(1, 1)], Health::Unknown);
    let why: Vec<_> = stage.serving.take_news().into_iter().map(|change| change.why).collect();
    assert_eq!(why, ["traffic", "needed"]);
}

#[test]
fn one_that_answers_where_it_is_needed_is_out_no_longer_than_a_first_time() {
    let circuits = vec![circuit(1, 1, vec![route(1, 1.0)]), circuit(2, 2, vec![route(2, 1.0)])];
    let both = publication("both", &[], &[(1, 1.0), (2, 1.0)]);
    let mut stage = Stage::new(circuits, vec![both, publication("one", &[], &[(1, 1.0)])], vec![]);
    let seconds = Duration::from_secs;
    for length in [10, 20, 40] {
        stage.broke(&name(1, 1));
        // Asked for the other model it fails on, and that changes nothing.
        stage.pass(seconds(1));
        (0..5).for_each(|_| drop(stage.end(&name(1, 1), AttemptEnd::Broke)));
        assert_eq!(stage.serving.next_release(), Some(stage.now.after(seconds(length - 1))));
        stage.pass(seconds(length - 1));
        assert_eq!(out(&stage, "both"), 0);
    }
    stage.broke(&name(1, 1));
    let began = stage.now;
    stage.pass(seconds(3));
    // What began before is no proof.
    let ended = ExchangeEnded { backend: name(1, 1).into(), began, end: AttemptEnd::Answered(200) };
    stage.serving.take_end(&stage.desired, &ended, stage.now);
    assert_eq!(stage.serving.next_release(), Some(began.after(seconds(80))));
    stage.end(&name(1, 1), AttemptEnd::Answered(200));
    assert_eq!(stage.serving.next_release(), Some(began.after(seconds(10))));
    stage.pass(seconds(7));
    assert_eq!(out(&stage, "both"), 0);
    stage.broke(&name(1, 1));
    assert_eq!(stage.serving.next_release(), Some(stage.now.after(seconds(10))), "the growth is over as well");
}

#[test]
fn of_several_the_one_that_is_nearest_to_its_end_is_kept_whenever_that_changes() {
    let circuits = vec![
        circuit(1, 1, vec![route(1, 1.0)]),
        circuit(2, 2, vec![route(2, 1.0)]),
        circuit(3, 3, vec![route(3, 1.0), route(4, 1.0), route(5, 1.0)]),
    ];
    let publications = vec![
        publication("all", &[], &[(1, 1.0), (2, 1.0), (3, 1.0)]),
        publication("one", &[], &[(1, 1.0)]),
        publication("two", &[], &[(1, 1.0), (2, 1.0)]),
    ];
    let mut stage = Stage::new(circuits, publications, vec![]);
    stage.broke(&name(1, 1));
    stage.pass(Duration::from_secs(10));
    stage.broke(&name(1, 1));
    stage.broke(&name(2, 2));
    assert_eq!((out(&stage, "all"), stage.kept("two")), (2, vec![name(2, 2)]));
    stage.pass(Duration::from_secs(1));
    stage.end(&name(1, 1), AttemptEnd::Answered(200));
    assert_eq!((stage.kept("two"), stage.shares("two")), (vec![name(1, 1)], vec![100, 0]));
    let whole = stage.serving.rebuilt(&stage.desired);
    assert_eq!(whole.view().model("two"), stage.view().model("two"));
}

#[test]
fn of_a_contested_name_nobody_is_lost_for_good() {
    let circuits = vec![circuit(1, 1, vec![route(1, 1.0)]), circuit(2, 2, vec![route(2, 1.0)])];
    let publications = vec![publication("p", &["x"], &[(1, 1.0)]), publication("q", &["x"], &[(2, 1.0)])];
    let mut stage = Stage::new(circuits, publications, vec![]);
    stage.broke(&name(1, 1));
    assert_eq!((stage.shares("x"), stage.shares("p"), stage.shares("q")), (vec![0, 100], vec![100], vec![100]));
    stage.broke(&name(2, 2));
    assert_eq!(stage.shares("x"), [0, 100], "the last one");
    stage.fell(&name(2, 2));
    assert_eq!((stage.shares("x"), stage.shares("q")), (vec![100, 0], vec![0]), "better than nothing");
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
