//! Which circuit a sub-domain leads to (worker-protocol 4.4; 9, Legacy).

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::edit::{Desired, unlink};
use crate::wire::circuit::Circuit;
use crate::wire::ids::CircuitId;

/// The circuits that claim each sub-domain.
pub(super) type SubDomains = BTreeMap<Arc<str>, BTreeSet<CircuitId>>;

/// The order in which events told of circuits. What came by a pull has no place in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrivals {
    last: u64,
    of: BTreeMap<CircuitId, u64>,
}

impl Arrivals {
    pub(super) fn forget(&mut self, id: CircuitId) {
        self.of.remove(&id);
    }
}

/// The sub-domain a circuit is served at.
pub(super) fn claimed(circuit: &Circuit) -> Option<&str> {
    circuit.routable()?;
    circuit.subdomain.as_deref().filter(|label| !label.is_empty())
}

impl Desired {
    /// The circuit came by an event just now: of several with one sub-domain the last one has it.
    pub fn note_arrival(&mut self, id: CircuitId) {
        let Some(label) = self.circuits.get(&id).and_then(claimed) else { return };
        self.touched.sub_domains.insert(label.into());
        self.arrivals.last += 1;
        self.arrivals.of.insert(id, self.arrivals.last);
    }

    /// A pull was applied: of the circuits that it lists none came later than another, but for those heard of since it
    /// was asked for.
    pub fn settle_arrivals(&mut self, heard: impl Fn(CircuitId) -> bool) {
        let (kept, settled) = core::mem::take(&mut self.arrivals.of).into_iter().partition(|(id, _)| heard(*id));
        self.arrivals.of = kept;
        let settled: BTreeMap<CircuitId, u64> = settled;
        for id in settled.keys() {
            if let Some(label) = self.circuits.get(id).and_then(claimed) {
                self.touched.sub_domains.insert(label.into());
            }
        }
    }

    /// The order of arrivals, for a checkpoint.
    #[must_use]
    pub const fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Takes up the order of arrivals of a checkpoint.
    pub fn resume_arrivals(&mut self, arrivals: Arrivals) {
        self.arrivals = arrivals;
    }

    /// The circuit that a sub-domain leads to: the last one told of, within one pull the youngest, then the larger id.
    #[must_use]
    pub fn holder(&self, sub_domain: &str) -> Option<&Circuit> {
        let arrived = |circuit: &Circuit| self.arrivals.of.get(&circuit.id);
        self.claimants(sub_domain)
            .max_by(|a, b| (arrived(a), &a.created_at, a.id).cmp(&(arrived(b), &b.created_at, b.id)))
    }

    /// The circuits that claim a sub-domain, by id.
    pub fn claimants(&self, sub_domain: &str) -> impl Iterator<Item = &Circuit> {
        self.sub_domains.get(sub_domain).into_iter().flatten().filter_map(|id| self.circuits.get(id))
    }

    /// Whether the circuit is served: nobody else has its sub-domain.
    #[must_use]
    pub fn has_its_place(&self, circuit: &Circuit) -> bool {
        claimed(circuit).is_none_or(|label| self.holder(label).is_some_and(|holder| holder.id == circuit.id))
    }

    /// Follows a circuit's claim from `before` to `after`.
    pub(super) fn move_claim(&mut self, id: CircuitId, before: Option<Arc<str>>, after: Option<Arc<str>>) {
        if before != after {
            if let Some(label) = &before {
                unlink(&mut self.sub_domains, label, &id);
            }
            if let Some(label) = &after {
                self.sub_domains.entry(label.clone()).or_default().insert(id);
            }
        }
        self.touched.sub_domains.extend(before.into_iter().chain(after));
    }
}
