//! The view.

use core::fmt;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

use super::health::HealthCounts;
use super::pool::{ModelPool, PoolKey};
use super::registry::{Registry, RegistryCounts};
use crate::access::key_store::{KeyRecord, KeyTable};
use crate::desired::{Backend, StateDigest, circuit_of_name};
use crate::trie::TrieMap;
use crate::wire::ids::CircuitId;
use crate::wire::key::TokenHash;

/// Numbers the views of one worker, from 1; 0 is the empty one before the first apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub u64);

/// Everything a request reads, whole and immutable. Views share what did not change, so a new one costs only that.
#[derive(Clone, Default)]
pub struct ServingView {
    /// Which view this is.
    pub generation: Generation,
    pub(super) digest: StateDigest,
    pub(super) keys_loaded: bool,
    pub(super) keys: KeyTable,
    /// What stands behind each published name, primaries and aliases; changes only with publications.
    pub(super) names: TrieMap<Arc<str>, PoolKey>,
    /// The pools; a route update changes only these, once for all names of a publication.
    pub(super) pools: TrieMap<PoolKey, Arc<ModelPool>>,
    /// The backends of each circuit, sorted by name. Circuits without any are absent.
    pub(super) backends: TrieMap<Uuid, Arc<[Arc<Backend>]>>,
    pub(super) registry: Registry,
    pub(super) statics: Arc<StaticPart>,
    pub(super) counts: ViewCounts,
}

/// What comes of the configuration alone.
#[derive(Debug, Default, PartialEq)]
pub(super) struct StaticPart {
    pub(super) models: BTreeMap<Arc<str>, Arc<ModelPool>>,
    pub(super) backends: BTreeMap<Arc<str>, Arc<Backend>>,
}

/// How much there is, for `/status` and the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ViewCounts {
    /// Circuits known, ignored ones included.
    pub circuits: usize,
    /// Publications.
    pub publications: usize,
    /// Published names, primaries and aliases.
    pub names: usize,
    /// Keys.
    pub keys: usize,
    /// Backends that reconcile made.
    pub backends: usize,
    /// Backends of the configuration.
    pub static_backends: usize,
    /// How all of these backends are.
    pub health: HealthCounts,
    /// What of its circuits a legacy worker knows; absent in the other modes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry: Option<RegistryCounts>,
}

impl ServingView {
    /// `desired_state_digest` (data-plane 7, 9).
    #[must_use]
    pub const fn digest(&self) -> StateDigest {
        self.digest
    }

    /// Whether a key set ever came; until then no model API key can be judged (worker-protocol 9).
    #[must_use]
    pub const fn keys_loaded(&self) -> bool {
        self.keys_loaded
    }

    /// The model API keys.
    #[must_use]
    pub const fn keys(&self) -> &KeyTable {
        &self.keys
    }

    /// The model API keys with this hash, sorted by id; mostly none or one.
    #[must_use]
    pub fn keys_by_hash(&self, hash: &TokenHash) -> &[KeyRecord] {
        self.keys.by_hash(hash)
    }

    /// What a published name, primary or alias, resolves to. `None`: not published.
    #[must_use]
    pub fn model(&self, name: &str) -> Option<&Arc<ModelPool>> {
        self.names.get(name).and_then(|key| self.pools.get(key))
    }

    /// What stands behind a pool's key.
    pub(super) fn pool(&self, key: &PoolKey) -> Option<&Arc<ModelPool>> {
        match key {
            PoolKey::Static(name) => self.statics.models.get(name),
            PoolKey::Publication(_) | PoolKey::Contested(_) => self.pools.get(key),
            PoolKey::Circuit(id) => self.registry.circuit(*id).map(|circuit| &circuit.pool),
        }
    }

    /// What a name of the static backends, model or alias, resolves to.
    #[must_use]
    pub fn static_model(&self, name: &str) -> Option<&Arc<ModelPool>> {
        self.statics.models.get(name)
    }

    /// Published names, primaries and aliases, with their pools, sorted. Sorts them all: for listings and pages.
    pub fn published(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<ModelPool>)> {
        self.names.sorted().into_iter().filter_map(|(name, key)| Some((name, self.pools.get(key)?)))
    }

    /// Names of the static backends, models and aliases, with their pools, sorted.
    pub fn static_models(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<ModelPool>)> {
        self.statics.models.iter()
    }

    /// The circuits of a legacy worker, by sub-domain and by model.
    #[must_use]
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Whether a model is served here under this name, by whatever kind of worker: fit for a label.
    #[must_use]
    pub fn names_model(&self, name: &str) -> bool {
        self.names.get(name).is_some() || self.statics.models.contains_key(name) || self.registry.serves(name)
    }

    /// The name of a model as it is held here, whatever kind of worker this is: to share it instead of copying it.
    /// With it what it resolves to, where it is a published one.
    pub(crate) fn held_name(&self, name: &str) -> Option<(&Arc<str>, Option<&Arc<ModelPool>>)> {
        let published = self.names.entry(name).map(|(held, key)| (held, self.pools.get(key)));
        let of_circuits = || self.registry.models.entry(name).map(|(held, _)| (held, None));
        let of_statics = || self.statics.models.get_key_value(name).map(|(held, _)| (held, None));
        published.or_else(of_circuits).or_else(of_statics)
    }

    /// A backend by name, made by reconcile or configured.
    #[must_use]
    pub fn backend(&self, name: &str) -> Option<&Arc<Backend>> {
        if let Some(circuit) = circuit_of_name(name) {
            let backends = self.backends.get(&circuit.0)?;
            let at = backends.binary_search_by(|backend| (*backend.name).cmp(name)).ok()?;
            return backends.get(at);
        }
        self.statics.backends.get(name)
    }

    /// The backends of a circuit, sorted by name.
    #[must_use]
    pub fn circuit_backends(&self, circuit: CircuitId) -> &[Arc<Backend>] {
        self.backends.get(&circuit.0).map(|backends| &**backends).unwrap_or_default()
    }

    /// Every backend that reconcile made, sorted by name. Sorts them all: for pages and tests.
    pub fn backends(&self) -> impl Iterator<Item = &Arc<Backend>> {
        // Names begin with the circuit, written as its bytes sort.
        self.backends.sorted().into_iter().flat_map(|(_, backends)| backends.iter())
    }

    /// Every configured backend, sorted by name.
    pub fn static_backends(&self) -> impl Iterator<Item = &Arc<Backend>> {
        self.statics.backends.values()
    }

    /// How much there is.
    #[must_use]
    pub const fn counts(&self) -> ViewCounts {
        self.counts
    }
}

impl fmt::Debug for ServingView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServingView")
            .field("generation", &self.generation)
            .field("digest", &self.digest)
            .field("keys_loaded", &self.keys_loaded)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}
