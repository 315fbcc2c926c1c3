//! The counts of one worker whose requests end on many threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::counts::Counts;
use super::export::{Levels, export};
use super::gauge::Gauge;
use super::notices::Notices;

/// How many parts the counts are cut into, so that threads do not queue at one lock.
const PARTS: usize = 16;

/// Counts and gauges of one worker; no globals. Each lock is held for one call.
#[derive(Debug, Default)]
pub struct Metrics {
    parts: [Mutex<Counts>; PARTS],
    next: AtomicUsize,
    /// Requests whose answer has not ended.
    pub in_flight: Gauge,
    /// Open connections of clients.
    pub connections: Gauge,
    /// The configuration file was refused as last read.
    refused: AtomicBool,
    notices: Mutex<Notices>,
}

impl Metrics {
    /// Where to count next.
    pub fn counts(&self) -> MutexGuard<'_, Counts> {
        let [first, ..] = &self.parts;
        let index = self.next.fetch_add(1, Ordering::Relaxed) % PARTS;
        lock(self.parts.get(index).unwrap_or(first))
    }

    /// The configuration file was read again: `applied`, `unchanged`, or `refused`.
    pub fn reloaded(&self, outcome: &'static str) {
        self.refused.store(outcome == "refused", Ordering::Relaxed);
        self.counts().reloaded(outcome);
    }

    /// The last notices; hold the lock for one call.
    pub fn notices(&self) -> MutexGuard<'_, Notices> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets every part do something.
    pub fn each(&self, act: impl Fn(&mut Counts)) {
        self.parts.iter().for_each(|part| act(&mut lock(part)));
    }

    /// The whole export; `levels` need not say what is counted here.
    pub fn export(&self, mut levels: Levels) -> String {
        let mut sum = Counts::default();
        self.parts.iter().for_each(|part| sum.add(&lock(part)));
        levels.config_refused = self.refused.load(Ordering::Relaxed);
        levels.in_flight = self.in_flight.get();
        levels.connections = self.connections.get();
        export(&sum, &levels)
    }
}

/// A panic elsewhere must not close a part for ever: its plain data is usable at any moment.
fn lock(part: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_part_it_is_counted_in_it_is_exported() {
        let metrics = Metrics::default();
        (0..2 * PARTS + 1).for_each(|_| metrics.counts().refused("internal"));
        let _held = metrics.connections.hold();
        let text = metrics.export(Levels::default());
        assert!(
            text.contains(&format!("appproxy_refusals_total{{reason=\"internal\"}} {}\n", 2 * PARTS + 1)),
            "{text}"
        );
        assert!(text.contains("appproxy_connections 1\n"), "{text}");
    }
}
