//! That each scenario can fail: run against a program with the defect that stands beside it, it must, on
//! every shell.

use std::collections::BTreeSet;
use std::env;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use appproxy_tests::shell::DEFECT_VARIABLE;

use crate::{PAIRS, SHELLS};

/// Scenarios at once: they wait more than they work.
const AT_ONCE: usize = 8;

#[test]
fn every_defect_is_noticed_by_a_scenario() {
    let noticed: BTreeSet<&str> = PAIRS.iter().map(|(_, defect)| *defect).collect();
    let all = appproxy_core::defects::Defect::ALL.iter().map(|defect| defect.name());
    let missing: Vec<&str> = all.filter(|name| !noticed.contains(name)).collect();
    assert!(missing.is_empty(), "no scenario is said to notice {missing:?}");
}

/// Some minutes: `tests/run defects` runs it, and one scenario alone as `APPPROXY_PROOF=shell::group::scenario`, or what
/// of that is enough to tell it.
#[test]
#[ignore = "runs the whole suite against broken programs: a step of its own in tests/run"]
fn each_scenario_fails_on_its_defect() {
    let only = env::var("APPPROXY_PROOF").unwrap_or_default();
    let mut pairs = Vec::new();
    for shell in SHELLS {
        let of_shell = PAIRS.iter().map(|(scenario, defect)| (format!("{}::{scenario}", shell.name), *defect));
        let chosen: Vec<_> = of_shell.filter(|(test, _)| test.contains(&only)).collect();
        if !chosen.is_empty() {
            shell.binary_with(true).expect("the program with defects is built");
        }
        pairs.extend(chosen);
    }
    assert!(!pairs.is_empty(), "no scenario is called {only:?}");
    let (next, unnoticed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((test, defect)) = pairs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let began = Instant::now();
                    let verdict = verdict(test, defect);
                    println!("{verdict:9} {test} on {defect} ({:.1} s)", began.elapsed().as_secs_f64());
                    if verdict != "noticed" {
                        unnoticed.lock().expect("a lock").push(format!("{test} on {defect}: {verdict}"));
                    }
                }
            });
        }
    });
    let unnoticed = unnoticed.into_inner().expect("a lock");
    assert!(unnoticed.is_empty(), "{} of {} proofs failed:\n{}", unnoticed.len(), pairs.len(), unnoticed.join("\n"));
}

/// Runs the scenario's own test in a process of its own.
fn verdict(test: &str, defect: &str) -> &'static str {
    let output = Command::new(env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture", "--test-threads", "1"])
        .env(DEFECT_VARIABLE, defect)
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true if said.contains("1 passed") => "missed",
        true => "not run",
        // The defect must be one: a program that refuses its name fails every test.
        false if said.contains("there is no defect") => "no defect",
        false => "noticed",
    }
}
