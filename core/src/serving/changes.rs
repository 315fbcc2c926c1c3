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
