//! What differs between two views.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Differences of one apply, each list sorted by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ChangeSet {
    /// Backends that are new.
    pub added: Vec<Arc<str>>,
    /// Backends that changed.
    pub updated: Vec<Arc<str>>,
    /// Backends that are gone: no new requests; running ones finish.
    pub removed: Vec<Arc<str>>,
    /// Published names whose pool changed, came or went.
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
        for names in [&mut self.added, &mut self.updated, &mut self.removed, &mut self.names] {
            names.sort_unstable();
            names.dedup();
        }
    }
}
