//! The counts of one worker whose requests end on many threads.

use core::time::Duration;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::counts::Counts;
use super::export::{Levels, export};
use super::gauge::Gauge;
use super::notices::{Noticed, Notices};
use super::sightings::Sightings;
use crate::access::rate_ledger::LedgerKey;
use crate::defects::{Defect, has};
use crate::exchange::Outcome;
use crate::limits;
use crate::serving::ServingView;
use crate::time::Moment;

/// How many parts the counts are cut into, so that threads do not queue at one lock.
const PARTS: usize = 16;

/// What a reading of the configuration file came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading<'a> {
    /// It is in force, but for what needs a restart.
    Applied,
    /// Nothing in it differs from what is in force.
    Unchanged,
    /// It has these mistakes, told without secrets; the one before it is in force.
    Refused(&'a str),
}

/// Why the configuration file was refused as last read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// When.
    pub at: Moment,
    /// Every mistake, cut to [`limits::REFUSAL_CHARS`].
    pub problems: String,
}

/// Counts and gauges of one worker; no globals. Each lock is held for one call.
#[derive(Debug, Default)]
pub struct Metrics {
    parts: [Mutex<Counts>; PARTS],
    next: AtomicUsize,
    /// Requests whose answer has not ended.
    pub in_flight: Gauge,
    /// Open connections of clients.
    pub connections: Gauge,
    /// The configuration file was refused as last read: what every request may look at.
    refused: AtomicBool,
    refusal: Mutex<Option<Refusal>>,
    notices: Mutex<Notices>,
    sightings: Sightings,
}

impl Metrics {
    /// Where to count next.
    pub fn counts(&self) -> MutexGuard<'_, Counts> {
        let [first, ..] = &self.parts;
        let index = self.next.fetch_add(1, Ordering::Relaxed) % PARTS;
        lock(self.parts.get(index).unwrap_or(first))
    }

    /// An exchange has ended; as [`Counts::exchange`], and its key was seen.
    pub fn exchange(&self, outcome: &Outcome, first_byte: Option<Duration>, took: Duration, view: &ServingView) {
        self.counts().exchange(outcome, first_byte, took, view);
        if let Some(key) = outcome.trail.key.as_ref().filter(|_| !has(Defect::KeysUnseen)) {
            self.sightings.saw(key, outcome.trail.arrived());
        }
    }

    /// When a request with this key last came, if it is remembered.
    pub(super) fn last_seen(&self, key: &LedgerKey) -> Option<Moment> {
        self.sightings.last(key)
    }

    /// The configuration file was read again.
    pub fn read_again(&self, reading: Reading<'_>, now: Moment) {
        let (outcome, refusal) = match reading {
            Reading::Applied => ("applied", None),
            Reading::Unchanged => ("unchanged", None),
            Reading::Refused(why) => ("refused", Some(why.chars().take(limits::REFUSAL_CHARS).collect::<String>())),
        };
        self.counts().reloaded(outcome);
        if let Some(text) = &refusal {
            let text = format!("the file is refused, and the one before it stays in force: {text}");
            self.notices().keep(Noticed { at: now, severity: "error", code: "config_refused".to_owned(), text });
        }
        let mut refused = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        self.refused.store(refusal.is_some() && !has(Defect::RefusalUntold), Ordering::Relaxed);
        *refused = refusal.map(|problems| Refusal { at: now, problems });
    }

    /// Whether the configuration file was refused as last read.
    pub fn file_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Why it was, when it was.
    pub fn refusal(&self) -> Option<Refusal> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone().filter(|_| self.file_refused())
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
        levels.config_refused = self.file_refused();
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
    fn a_refused_file_is_told_until_a_good_one_is_read() {
        let metrics = Metrics::default();
        let said = |metrics: &Metrics| (metrics.file_refused(), metrics.refusal().map(|refusal| refusal.problems));
        assert_eq!(said(&metrics), (false, None));
        let long = "x".repeat(limits::REFUSAL_CHARS + 1);
        for (why, told) in [("line 7: no such key", "line 7: no such key"), (&long, &long[1..])] {
            metrics.read_again(Reading::Refused(why), Moment::from_millis(9));
            assert_eq!(said(&metrics), (true, Some(told.to_owned())));
            assert!(metrics.export(Levels::default()).contains("appproxy_config_accepted 0\n"));
            assert!(metrics.notices().newest_first().next().is_some_and(|notice| notice.text.ends_with(told)));
        }
        for good in [Reading::Applied, Reading::Unchanged] {
            metrics.read_again(Reading::Refused("again"), Moment::from_millis(9));
            metrics.read_again(good, Moment::from_millis(10));
            assert_eq!(said(&metrics), (false, None));
        }
        let text = metrics.export(Levels::default());
        for line in [
            "appproxy_config_accepted 1",
            r#"appproxy_config_reloads_total{outcome="refused"} 4"#,
            r#"appproxy_config_reloads_total{outcome="applied"} 1"#,
            r#"appproxy_config_reloads_total{outcome="unchanged"} 1"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
        }
    }

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
