//! The circuits that a legacy worker serves, by sub-domain, and by model for the aggregation surface (worker-protocol
//! 4.4). In the other modes there are none.

use serde::Serialize;
use std::sync::Arc;
use uuid::Uuid;

use super::pool::ModelPool;
use crate::access::ip_list::IpList;
use crate::trie::TrieMap;
use crate::wire::ids::CircuitId;

/// The circuits of a view. Copies share what did not change.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    pub(super) sub_domains: TrieMap<Arc<str>, CircuitId>,
    pub(super) circuits: TrieMap<Uuid, Arc<ServedCircuit>>,
    /// The circuits that list a model, sorted.
    pub(super) models: TrieMap<Arc<str>, Arc<[CircuitId]>>,
}

/// A circuit as requests meet it.
#[derive(Debug, Clone, PartialEq)]
pub struct ServedCircuit {
    /// Its identity, which access tokens carry.
    pub id: CircuitId,
    /// Its host label; one without is met on the aggregation surface only.
    pub sub_domain: Option<Arc<str>>,
    /// Whether it needs no credential.
    pub open_to_public: bool,
    /// Where clients may come from; an empty list lets nobody in.
    pub addresses: IpList,
    /// What is known of its models.
    pub model: CircuitModel,
    /// Its replicas and nobody else's, by `traffic_ratio` within their groups.
    pub pool: Arc<ModelPool>,
}

/// What is known of a circuit's models (worker-protocol 4.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CircuitModel {
    /// Nothing yet: model-aware requests wait, all others pass.
    Held,
    /// It lists no models: everything passes untouched.
    Opaque,
    /// Its models.
    Known {
        /// What everything but a listed name becomes.
        canonical: Arc<str>,
        /// The names that its replicas list, sorted, the canonical one included.
        listed: Arc<[Arc<str>]>,
    },
}

/// How many circuits are in which state, for `/status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct RegistryCounts {
    /// Sub-domains that lead to a circuit.
    pub sub_domains: usize,
    /// Names on the aggregation surface.
    pub models: usize,
    /// Circuits whose model is known.
    pub known: usize,
    /// Circuits that list no models.
    pub opaque: usize,
    /// Circuits whose model is not known yet.
    pub held: usize,
}

impl ServedCircuit {
    /// The model it serves, once that is known.
    #[must_use]
    pub const fn canonical(&self) -> Option<&Arc<str>> {
        match &self.model {
            CircuitModel::Known { canonical, .. } => Some(canonical),
            CircuitModel::Held | CircuitModel::Opaque => None,
        }
    }

    /// Whether one of its replicas lists this name.
    #[must_use]
    pub fn lists(&self, name: &str) -> bool {
        self.models().binary_search_by(|listed| (**listed).cmp(name)).is_ok()
    }

    /// The names that its replicas list, sorted; none while they are not known.
    #[must_use]
    pub fn models(&self) -> &[Arc<str>] {
        match &self.model {
            CircuitModel::Known { listed, .. } => listed,
            CircuitModel::Held | CircuitModel::Opaque => &[],
        }
    }
}

impl Registry {
    /// The circuit at a sub-domain, which is lower-case.
    #[must_use]
    pub fn at(&self, sub_domain: &str) -> Option<&Arc<ServedCircuit>> {
        self.circuit(*self.sub_domains.get(sub_domain)?)
    }

    /// A circuit, kept aside or not.
    #[must_use]
    pub fn circuit(&self, id: CircuitId) -> Option<&Arc<ServedCircuit>> {
        self.circuits.get(&id.0)
    }

    /// The circuits that serve a model, by id; those kept aside are none of them.
    pub fn serving(&self, model: &str) -> impl Iterator<Item = &Arc<ServedCircuit>> {
        self.models.get(model).into_iter().flat_map(|ids| ids.iter()).filter_map(|id| self.circuit(*id))
    }

    /// Whether some circuit serves a model.
    #[must_use]
    pub fn serves(&self, model: &str) -> bool {
        self.models.get(model).is_some()
    }

    /// The names of all circuits, sorted. Sorts them all: for listings and pages.
    pub fn models(&self) -> impl Iterator<Item = &Arc<str>> {
        self.models.sorted().into_iter().map(|(name, _)| name)
    }

    /// Every circuit, sorted by id. Sorts them all: for pages and tests.
    pub fn circuits(&self) -> impl Iterator<Item = &Arc<ServedCircuit>> {
        self.circuits.sorted().into_iter().map(|(_, circuit)| circuit)
    }

    /// Every sub-domain with its circuit, sorted. Sorts them all: for pages and tests.
    pub fn sub_domains(&self) -> impl Iterator<Item = (&Arc<str>, &CircuitId)> {
        self.sub_domains.sorted().into_iter()
    }
}
