//! Many seeds, on all cores, in an order that does not depend on them.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use appproxy_core::worker::defects::{self, Defect};

use super::aims::aim;
use super::run::{Failure, Kind, Kinds, Plan, run};
use super::totals::Totals;

/// What came of many seeds.
#[derive(Debug, Default)]
pub struct Report {
    /// Seeds run.
    pub seeds: u64,
    /// What was seen, added up.
    pub totals: Totals,
    /// The failures, by seed.
    pub failures: Vec<Failure>,
}

/// When to stop before all seeds are run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stop {
    /// After this time.
    pub after: Option<Duration>,
    /// With the first failure: seeds after the smallest failing one do not count.
    pub at_first_failure: bool,
}

/// Runs seeds on as many threads as there are cores.
#[must_use]
pub fn run_seeds(seeds: Range<u64>, plan: &Plan, stop: Stop) -> Report {
    let (began, next) = (Instant::now(), AtomicU64::new(seeds.start));
    let first_failure = AtomicU64::new(u64::MAX);
    let results: Mutex<Vec<(u64, Totals, Option<Failure>)>> = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut mine = Vec::new();
                let mut sum = Totals::default();
                let (mut count, over) = (0, || stop.after.is_some_and(|after| began.elapsed() > after));
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let beyond = stop.at_first_failure && seed > first_failure.load(Ordering::Relaxed);
                    if seed >= seeds.end || beyond || over() {
                        break;
                    }
                    count += 1;
                    match run(seed, plan) {
                        Ok(totals) => sum.add(&totals),
                        Err(failed) => {
                            first_failure.fetch_min(seed, Ordering::Relaxed);
                            sum.add(&failed.1);
                            mine.push((0, Totals::default(), Some(failed.0)));
                        }
                    }
                }
                mine.push((count, sum, None));
                if let Ok(mut all) = results.lock() {
                    all.append(&mut mine);
                }
            });
        }
    });
    let mut report = Report::default();
    for (count, totals, failure) in results.into_inner().unwrap_or_default() {
        report.seeds += count;
        report.totals.add(&totals);
        report.failures.extend(failure);
    }
    report.failures.sort_by_key(|failure| failure.seed);
    if stop.at_first_failure {
        report.failures.truncate(1);
    }
    report
}

/// How a deliberately wrong worker is found: the first failure within so many seeds of the mix aimed at it. Every worker
/// of the process has the defect meanwhile.
#[must_use]
pub fn hunt(defect: Defect, most: u64) -> Option<Failure> {
    let kind = if defect.is_legacy() { Kind::Legacy } else { Kind::Router };
    let plan = Plan { kinds: Kinds::Only(kind), aim: aim(defect).to_vec(), ..Plan::default() };
    defects::choose(Some(defect));
    let report = run_seeds(0..most, &plan, Stop { after: None, at_first_failure: true });
    defects::choose(None);
    report.failures.into_iter().next()
}
