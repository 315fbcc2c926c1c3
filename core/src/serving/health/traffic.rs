//! One backend by live traffic: failures in a row, and quarantine (data-plane 4).

use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::config::health::Passive;
use crate::time::Moment;

/// The longest quarantine.
const LONGEST: Duration = Duration::from_secs(300);

/// What became of one attempt at one backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExchangeEnded {
    /// The backend's name.
    pub backend: Arc<str>,
    /// When the attempt was begun: what began before a quarantine says nothing of the time after it.
    pub began: Moment,
    /// How it ended.
    pub end: AttemptEnd,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnd {
    /// No connection.
    NotConnected,
    /// The connection broke, or what came was no HTTP, before an answer had begun.
    Broke,
    /// No answer began in time.
    Silent,
    /// An answer of this status was complete, or was left for the next candidate because of it.
    Answered(u16),
    /// An answer broke off.
    BrokeOff,
    /// An answer fell silent for too long.
    FellSilent,
    /// The client went away, or this node cut the exchange at its own end.
    Abandoned,
}

/// Which way an end counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Good,
    Bad,
    Neither,
}

impl AttemptEnd {
    pub(super) const fn verdict(self) -> Verdict {
        match self {
            Self::NotConnected | Self::Broke | Self::Silent | Self::BrokeOff | Self::FellSilent => Verdict::Bad,
            Self::Answered(status) => match status {
                ..400 => Verdict::Good,
                // The caller's mistakes, and what the server never claimed to do.
                // A caller can bring about a 500 as well as a 400; one bad caller must not switch a model off.
                400..=501 => Verdict::Neither,
                502.. => Verdict::Bad,
            },
            Self::Abandoned => Verdict::Neither,
        }
    }
}

/// Says which ends are worth telling to the worker: a success that follows a success changes nothing. One for all
/// requests of a node, asked and told from in one step.
#[derive(Debug, Default)]
pub struct Witnesses {
    /// Backends whose last end that counted was a failure.
    failing: BTreeSet<Arc<str>>,
}

impl Witnesses {
    /// Whether this end must be told.
    pub fn tells(&mut self, ended: &ExchangeEnded) -> bool {
        match ended.end.verdict() {
            Verdict::Good => self.failing.remove(&ended.backend),
            Verdict::Bad => {
                if !self.failing.contains(&ended.backend) {
                    self.failing.insert(ended.backend.clone());
                }
                true
            }
            Verdict::Neither => false,
        }
    }

    /// Lets go of backends that are gone.
    pub fn forget(&mut self, removed: &[Arc<str>]) {
        removed.iter().for_each(|name| {
            self.failing.remove(name);
        });
    }
}

/// The record of live traffic.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Traffic {
    failures: u32,
    /// Quarantines since the last success.
    ejections: u32,
    /// When the last quarantine began.
    ejected: Option<Moment>,
    until: Option<Moment>,
}

impl Traffic {
    pub(super) const fn quarantined(&self) -> bool {
        self.until.is_some()
    }

    pub(super) const fn until(&self) -> Option<Moment> {
        self.until
    }

    /// Notes an end; whether there are enough failures in a row for a quarantine.
    pub(super) fn note(&mut self, verdict: Verdict, began: Moment, passive: &Passive) -> bool {
        // What is out is out already, and what began before that has been answered for.
        if self.quarantined() || self.ejected.is_some_and(|ejected| began <= ejected) {
            return false;
        }
        match verdict {
            Verdict::Good => *self = Self::default(),
            Verdict::Bad => self.failures = self.failures.saturating_add(1),
            Verdict::Neither => return false,
        }
        self.failures >= passive.failures
    }

    /// Notes an end in quarantine, of a request for a model that keeps the backend all the same; when the quarantine ends
    /// now. A success ends the growth, of this one too: it lasts no longer than if it was the first.
    pub(super) fn note_meanwhile(&mut self, verdict: Verdict, began: Moment, passive: &Passive) -> Option<Moment> {
        if let (Verdict::Good, Some(ejected), Some(until)) = (verdict, self.ejected, self.until)
            && began > ejected
        {
            self.ejections = 0;
            self.until = Some(until.min(ejected.after(passive.ejection)));
        }
        self.until
    }

    /// Begins a quarantine; when it ends.
    pub(super) fn eject(&mut self, now: Moment, passive: &Passive) -> Moment {
        let doubled = passive.ejection.saturating_mul(1_u32.checked_shl(self.ejections).unwrap_or(u32::MAX));
        let until = now.after(doubled.min(LONGEST.max(passive.ejection)));
        self.failures = 0;
        self.ejections = self.ejections.saturating_add(1).min(16);
        (self.ejected, self.until) = (Some(now), Some(until));
        until
    }

    /// Ends a quarantine.
    pub(super) const fn release(&mut self) {
        self.until = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1000;

    fn at(seconds: u64) -> Moment {
        Moment::from_millis(seconds * SECOND)
    }

    #[test]
    fn what_counts_which_way() {
        use AttemptEnd::{Abandoned, Answered, Broke, BrokeOff, FellSilent, NotConnected, Silent};
        for end in [NotConnected, Broke, Silent, BrokeOff, FellSilent] {
            assert_eq!(end.verdict(), Verdict::Bad, "{end:?}");
        }
        let of_status = |status| Answered(status).verdict();
        assert!([101, 200, 204, 302, 399].map(of_status).into_iter().all(|verdict| verdict == Verdict::Good));
        let mistakes = [400, 401, 403, 404, 408, 413, 422, 429, 499, 500, 501];
        assert!(mistakes.map(of_status).into_iter().all(|verdict| verdict == Verdict::Neither));
        assert!([502, 503, 504, 599].map(of_status).into_iter().all(|verdict| verdict == Verdict::Bad));
        assert_eq!(Abandoned.verdict(), Verdict::Neither);
    }

    #[test]
    fn three_in_a_row_and_a_success_starts_over() {
        let passive = Passive::default();
        let mut traffic = Traffic::default();
        let mut note = |verdict| traffic.note(verdict, at(1), &passive);
        assert!(!note(Verdict::Bad) && !note(Verdict::Bad) && !note(Verdict::Good));
        assert!(!note(Verdict::Bad) && !note(Verdict::Neither) && !note(Verdict::Bad) && !note(Verdict::Neither));
        assert!(note(Verdict::Bad), "mistakes of callers between them neither count nor reset");
        assert!(note(Verdict::Bad), "one that may not be taken out is asked for again");
    }

    #[test]
    fn quarantine_doubles_up_to_five_minutes_and_a_success_ends_the_growth() {
        let passive = Passive::default();
        let mut traffic = Traffic::default();
        let mut now = at(0);
        for seconds in [10, 20, 40, 80, 160, 300, 300, 300] {
            let until = traffic.eject(now, &passive);
            assert_eq!(until.since(now), Duration::from_secs(seconds));
            assert!(!traffic.note(Verdict::Good, now, &passive) && traffic.quarantined());
            traffic.release();
            now = until;
        }
        assert!(!traffic.note(Verdict::Good, now, &passive));
        assert_eq!(traffic.eject(now, &passive).since(now), passive.ejection);
    }

    #[test]
    fn what_began_before_a_quarantine_says_nothing_after_it() {
        let passive = Passive { failures: 1, ..Passive::default() };
        let mut traffic = Traffic::default();
        traffic.eject(at(5), &passive);
        assert!(!traffic.note(Verdict::Bad, at(6), &passive), "it is out already");
        traffic.release();
        assert!(!traffic.note(Verdict::Bad, at(5), &passive));
        assert!(traffic.note(Verdict::Bad, at(6), &passive));
    }

    #[test]
    fn a_growing_number_of_ejections_never_overflows() {
        let passive = Passive { ejection: Duration::MAX, ..Passive::default() };
        let mut traffic = Traffic::default();
        (0..100).for_each(|_| assert!(traffic.eject(at(1), &passive) > at(1)));
    }

    #[test]
    fn only_what_changes_something_is_told() {
        let mut witnesses = Witnesses::default();
        let mut tells = |end| witnesses.tells(&ExchangeEnded { backend: "b".into(), began: at(0), end });
        assert!(!tells(AttemptEnd::Answered(200)));
        assert!(tells(AttemptEnd::Broke) && !tells(AttemptEnd::Answered(404)) && tells(AttemptEnd::Silent));
        assert!(tells(AttemptEnd::Answered(200)) && !tells(AttemptEnd::Answered(200)));
        assert!(tells(AttemptEnd::Answered(503)));
        witnesses.forget(&["b".into()]);
        assert!(witnesses.failing.is_empty());
    }
}
