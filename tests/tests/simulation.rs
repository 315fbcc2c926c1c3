//! Simulated worlds, and that they find every deliberately wrong worker.
//!
//! One test at a time: which worker is wrong, and how, is a matter of the whole process.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use appproxy_core::worker::defects::Defect;
use appproxy_tests::simulation::fault::FAULTS;
use appproxy_tests::simulation::run::{Kind, Kinds, Plan, run, shrink};
use appproxy_tests::simulation::seeds::{Stop, hunt, run_seeds};

/// Seeds of the standard mix in every run of the tests.
const SEEDS: u64 = 2_000;

/// Seeds of legacy worlds.
const LEGACY_SEEDS: u64 = 300;

/// A wrong worker must be found within so many seeds of the mix aimed at it.
const MOST: u64 = 2_000;

/// Held by each test: where they share a process, they take turns.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn the_standard_mix_breaks_no_rule() {
    let _turn = turn();
    let began = Instant::now();
    let report = run_seeds(0..SEEDS, &Plan::default(), Stop::default());
    println!("{}\n{} seeds, {} failed, {:.0?}", report.totals, report.seeds, report.failures.len(), began.elapsed());
    if let Some(first) = report.failures.first() {
        panic!("{} of {SEEDS} seeds failed, the first:\n{first}", report.failures.len());
    }
    assert_eq!(report.seeds, SEEDS);
    for (fault, count) in FAULTS.iter().zip(report.totals.faults) {
        assert!(count * 20 >= SEEDS, "{} struck {count} times in {SEEDS} seeds", fault.name());
    }
    let totals = &report.totals;
    for (what, count) in [
        ("acks", totals.acks),
        ("revocations", totals.revocations),
        ("overlaps", totals.overlaps),
        ("torn pulls", totals.torn),
        ("304s", totals.not_modified),
        ("requests served", totals.served),
        ("404s", totals.not_found),
    ] {
        assert!(count * 20 >= SEEDS, "{count} {what} in {SEEDS} seeds");
    }
    assert!(totals.steps >= 300 * SEEDS);
}

/// Worlds that once were said to break a rule, and do not: a key set anew in the millisecond of its revocation, and two
/// acks that read the same of which one goes out again.
#[test]
fn what_only_looked_broken_is_not() {
    let _turn = turn();
    for seed in [18_619, 31_432, 40_336, 68_653, 77_220, 83_476] {
        if let Err(failed) = run(seed, &Plan::default()) {
            panic!("{}", failed.0);
        }
    }
}

/// What a legacy world has nothing of: it has no publications and no keys that could be refused for their model.
#[test]
fn legacy_worlds_break_no_rule() {
    let _turn = turn();
    let plan = Plan { kinds: Kinds::Only(Kind::Legacy), ..Plan::default() };
    let report = run_seeds(0..LEGACY_SEEDS, &plan, Stop::default());
    println!("{}\n{} seeds, {} failed", report.totals, report.seeds, report.failures.len());
    if let Some(first) = report.failures.first() {
        panic!("{} of {LEGACY_SEEDS} seeds failed, the first:\n{first}", report.failures.len());
    }
    for (fault, count) in FAULTS.iter().zip(report.totals.faults) {
        assert!(count * 20 >= LEGACY_SEEDS, "{} struck {count} times", fault.name());
    }
    let totals = &report.totals;
    for (what, count) in [
        ("acks", totals.acks),
        ("overlaps", totals.overlaps),
        ("requests served", totals.served),
        ("requests refused", totals.refused),
        ("stand-ins asked", totals.stood_in),
        ("404s", totals.not_found),
    ] {
        assert!(count * 20 >= LEGACY_SEEDS, "{count} {what} in {LEGACY_SEEDS} seeds");
    }
}

#[test]
fn every_wrong_worker_is_found() {
    let _turn = turn();
    let mut missed = Vec::new();
    for defect in Defect::ALL {
        match hunt(defect, MOST) {
            Some(found) => println!("{:>6} seeds  {}: {}", found.seed + 1, defect.name(), found.broken.invariant),
            None => missed.push(defect.name()),
        }
    }
    assert!(missed.is_empty(), "not found within {MOST} seeds: {missed:?}");
}

#[test]
fn the_same_seed_is_the_same_run_and_shrinks_to_the_same_failure() {
    let _turn = turn();
    let plan = Plan::default();
    assert_eq!(run(7, &plan).ok(), run(7, &plan).ok());
    appproxy_core::worker::defects::choose(Some(Defect::NoGuard));
    let aimed = Plan { aim: appproxy_tests::simulation::aims::aim(Defect::NoGuard).to_vec(), ..plan };
    let found = (0..MOST).find_map(|seed| run(seed, &aimed).err()).expect("a wrong worker is found").0;
    let (least, least_plan) = shrink(&found, &aimed);
    let again = run(found.seed, &least_plan).expect_err("the schedule cut down still fails").0;
    appproxy_core::worker::defects::choose(None);
    assert_eq!(again.broken, least.broken);
    assert_eq!(least.broken.invariant, found.broken.invariant);
    assert!(least.struck.len() < found.struck.len(), "{} against {}", least.struck.len(), found.struck.len());
}
