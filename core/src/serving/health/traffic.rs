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
                400..500 | 501 => Verdict::Neither,
                500.. => Verdict::Bad,
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
#[derive(Debug, Clone, Default)]
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
