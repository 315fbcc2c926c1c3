//! What differs between two views.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::wire::ids::CircuitId;

/// Differences of one apply, each list sorted by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ChangeSet {
    /// Backends that are new.
    pub added: Vec<Arc<str>>,
    /// Backends that changed.
    pub updated: Vec<Arc<str>>,
    /// Backends that are gone: no new requests; running ones finish.
    pub removed: Vec<Arc<str>>,
    /// Circuits of a legacy worker that came, went, or are met otherwise than before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub circuits: Vec<CircuitId>,
    /// Published names whose pool changed, came or went; of a legacy worker, listed names that came or went.
    pub names: Vec<Arc<str>>,
    /// How many keys changed, came or went.
    pub keys: usize,
}

impl ChangeSet {
    /// Whether nothing differs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn sort(&mut self) {
        self.circuits.sort_unstable();
        self.circuits.dedup();
        for names in [&mut self.added, &mut self.updated, &mut self.removed, &mut self.names] {
            names.sort_unstable();
            names.dedup();
        }
    }
}
