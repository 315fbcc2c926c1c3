//! What was heard on the bus while a request was under way (worker-protocol 3.3, rule 1).
//!
//! Events are folded by entity, the last one wins: they are idempotent and those of different entities do not
//! depend on each other.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::wire::circuit::Circuit;
use crate::wire::ids::{CircuitId, KeyId};
use crate::wire::publication::Publication;

/// Circuit events heard since a request for circuits was sent.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct HeardCircuits {
    last: BTreeMap<CircuitId, Option<Circuit>>,
}

impl HeardCircuits {
    pub(super) fn record(&mut self, id: CircuitId, now: Option<Circuit>) {
        self.last.insert(id, now);
    }

    pub(super) fn len(&self) -> usize {
        self.last.len()
    }

    pub(super) fn holds(&self, id: CircuitId) -> bool {
        self.last.contains_key(&id)
    }

    /// Applies what was heard to an answer.
    pub(super) fn apply(&self, target: &mut BTreeMap<CircuitId, Circuit>) {
        for (&id, circuit) in &self.last {
            match circuit {
                Some(circuit) => target.insert(id, circuit.clone()),
                None => target.remove(&id),
            };
        }
    }
}

/// Publication and key events heard since a request for router-config was sent. Key notices bring nothing to apply.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct HeardConfig {
    publications: BTreeMap<Arc<str>, Option<Publication>>,
    removed_keys: BTreeSet<KeyId>,
}

impl HeardConfig {
    pub(super) fn publication(&mut self, model: Arc<str>, now: Option<Publication>) {
        self.publications.insert(model, now);
    }

    pub(super) fn key_removed(&mut self, key: KeyId) {
        self.removed_keys.insert(key);
    }

    pub(super) fn removed(&self, key: &KeyId) -> bool {
        self.removed_keys.contains(key)
    }

    pub(super) fn len(&self) -> usize {
        self.publications.len() + self.removed_keys.len()
    }

    /// Applies what was heard to an answer's publications; whether that changed anything.
    pub(super) fn apply_publications(&self, target: &mut BTreeMap<Arc<str>, Publication>) -> bool {
        let mut changed = false;
        for (model, publication) in &self.publications {
            changed |= match publication {
                Some(publication) => target.insert(model.clone(), publication.clone()).as_ref() != Some(publication),
                None => target.remove(model).is_some(),
            };
        }
        changed
    }

    /// Takes the keys that were removed meanwhile out of an answer; whether that changed anything.
    pub(super) fn apply_keys<K>(&self, target: &mut BTreeMap<KeyId, K>) -> bool {
        let mut changed = false;
        for key in &self.removed_keys {
            changed |= target.remove(key).is_some();
        }
        changed
    }
}
