//! What changed since it was last asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::wire::ids::{CircuitId, EndpointId, KeyId};
use crate::wire::key::TokenHash;

/// Everything whose serving form may differ now. Telling too much is harmless, too little is not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Touched {
    /// Circuits that came, changed or went.
    pub circuits: BTreeSet<CircuitId>,
    /// Endpoints whose circuits or mappings changed.
    pub endpoints: BTreeSet<EndpointId>,
    /// Sub-domains whose claimants came, changed or went.
    pub sub_domains: BTreeSet<Arc<str>>,
    /// Publications that came, changed or went, by primary name.
    pub publications: BTreeSet<Arc<str>>,
    /// Names whose claimants changed, or whose claimants' mappings did.
    pub names: BTreeSet<Arc<str>>,
    /// Keys that came, changed or went, with the hash they had when this record began.
    pub keys: BTreeMap<KeyId, Option<TokenHash>>,
    /// Whether the first key set came.
    pub keys_loaded: bool,
}

impl Touched {
    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
