//! The timer table: at most one deadline for each reason.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::output::{Deadline, WakeReason};
use crate::time::Moment;

/// What can wake the worker, and when.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct Timers {
    armed: BTreeMap<WakeReason, Moment>,
}

impl Timers {
    /// Arms `reason` for `at`, replacing what it was armed for.
    pub(super) fn arm(&mut self, reason: WakeReason, at: Moment) {
        self.armed.insert(reason, at);
    }

    /// Arms `reason` for `at` unless it is armed for something sooner.
    pub(super) fn arm_sooner(&mut self, reason: WakeReason, at: Moment) {
        let armed = self.armed.entry(reason).or_insert(at);
        *armed = (*armed).min(at);
    }

    /// Arms `reason` for `at` unless it is armed for something later.
    pub(super) fn arm_later(&mut self, reason: WakeReason, at: Moment) {
        let armed = self.armed.entry(reason).or_insert(at);
        *armed = (*armed).max(at);
    }

    pub(super) fn cancel(&mut self, reason: WakeReason) {
        self.armed.remove(&reason);
    }

    pub(super) fn cancel_all(&mut self) {
        self.armed.clear();
    }

    /// Takes the earliest timer that is due, so that timers fire in the order of their deadlines.
    pub(super) fn take_due(&mut self, now: Moment) -> Option<WakeReason> {
        let due = self.next().filter(|deadline| deadline.at <= now)?;
        self.armed.remove(&due.reason);
        Some(due.reason)
    }

    /// The earliest deadline; of equal ones, the reason that stands first in [`WakeReason`].
    pub(super) fn next(&self) -> Option<Deadline> {
        self.armed.iter().map(|(&reason, &at)| Deadline { at, reason }).min()
    }
}
