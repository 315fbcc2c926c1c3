//! Oddities that stand, so that each is said once, when it appears.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::desired::StateReport;
use crate::wire::ids::{CircuitId, KeyId};
use crate::wire::key::TokenHash;

/// What a report is about. One subject has at most one report.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    Circuit(CircuitId),
    CircuitAddresses(CircuitId),
    SubDomain(Arc<str>),
    Publication(Arc<str>),
    Name(Arc<str>),
    Key(KeyId),
    Hash(TokenHash),
}

/// The reports that stand now, and those that appeared since they were last taken.
#[derive(Debug, Default)]
pub(super) struct Reports {
    standing: BTreeMap<Subject, StateReport>,
    fresh: Vec<StateReport>,
}

impl Reports {
    /// Says how a subject stands now.
    pub(super) fn set(&mut self, subject: Subject, report: Option<StateReport>) {
        match report {
            None => {
                self.standing.remove(&subject);
            }
            Some(report) => {
                if self.standing.get(&subject) != Some(&report) {
                    self.fresh.push(report.clone());
                    self.standing.insert(subject, report);
                }
            }
        }
    }

    pub(super) fn standing(&self) -> impl Iterator<Item = &StateReport> {
        self.standing.values()
    }

    pub(super) fn take_fresh(&mut self) -> Vec<StateReport> {
        let mut fresh = core::mem::take(&mut self.fresh);
        fresh.sort();
        fresh
    }
}
