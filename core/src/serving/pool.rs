//! What a model name resolves to: endpoints, their groups, their replicas, each with its part (worker-protocol 6.1).

use std::sync::Arc;

use super::health::Health;
use super::settings::RoutingWeights;
use crate::desired::Backend;
use crate::trie::Spread;
use crate::wire::ids::{CircuitId, EndpointId, GroupId};

/// Everything that may serve one name, in the order of their ids. Empty: the name is known and nothing serves it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelPool {
    /// What stands behind the name; the names of one publication share one pool, and its draw.
    pub key: PoolKey,
    /// How its candidates are weighed.
    pub weights: RoutingWeights,
    /// Its endpoints with their parts.
    pub endpoints: Arc<[EndpointShare]>,
    /// Endpoints that are mapped to it and have no circuit here, sorted: only to be told of.
    pub no_circuit: Box<[EndpointId]>,
}

/// What stands behind a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PoolKey {
    /// One publication, by its primary name.
    Publication(Arc<str>),
    /// A name that several publications claim.
    Contested(Arc<str>),
    /// A model of static backends.
    Static(Arc<str>),
    /// The replicas of one circuit, whatever they serve (legacy worker).
    Circuit(CircuitId),
}

impl Spread for PoolKey {
    fn spread(&self) -> u64 {
        match self {
            Self::Publication(name) | Self::Static(name) => name.spread(),
            Self::Contested(name) => !name.spread(),
            Self::Circuit(id) => id.0.spread(),
        }
    }
}

/// An endpoint's part of a pool.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointShare {
    /// Its ratio, relative to its neighbours; 0 drains.
    pub ratio: f64,
    /// Its replicas.
    pub endpoint: Arc<EndpointPool>,
}

/// The replicas of an endpoint, the same for every name that it serves, but for what each keeps of those in quarantine.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointPool {
    /// Which endpoint.
    pub key: EndpointKey,
    /// Its groups that have replicas, sorted by key.
    pub groups: Vec<GroupPool>,
}

/// An endpoint's identity within a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndpointKey {
    /// The static backends of a model, together.
    Static,
    /// A deployment endpoint.
    Deployment(EndpointId),
}

/// A replica group with its replicas.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupPool {
    /// Which group.
    pub key: GroupKey,
    /// Its weight, relative to its neighbours; 0 drains.
    pub traffic_weight: f64,
    /// Its replicas, sorted by name.
    pub candidates: Vec<Candidate>,
}

/// A group's identity within an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKey {
    /// Replicas that name no group their circuit lists; weight 100 (worker-protocol 6.2).
    Implicit,
    /// A listed group.
    Listed(GroupId),
}

/// A replica, with what decides whether and how often it is picked.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The replica.
    pub backend: Arc<Backend>,
    /// Its ratio as it was told, relative to its neighbours; 0 drains.
    pub ratio: f64,
    /// How it is.
    pub health: Health,
    /// It is in quarantine, and this model would have too few without it: here it serves all the same.
    pub kept: bool,
}

impl Candidate {
    /// Whether it takes new requests for this model.
    #[must_use]
    pub const fn serves(&self) -> bool {
        self.health.serves() || self.kept
    }

    /// Its part now, relative to its neighbours: its ratio while it serves, else 0.
    #[must_use]
    pub const fn weight(&self) -> f64 {
        if self.serves() { self.ratio } else { 0.0 }
    }
}

impl ModelPool {
    /// Every candidate with its exact share of the pool's requests, in pool order. The shares sum to 1, unless nothing
    /// can serve: then all are 0.
    #[must_use]
    pub fn shares(&self) -> Vec<(Arc<Backend>, f64)> {
        let flat = self.weights == RoutingWeights::Literal;
        let mut shares = Vec::new();
        let open = |share: &EndpointShare| if share.endpoint.can_serve() { share.ratio } else { 0.0 };
        for (share, endpoint_part) in parts(&self.endpoints, open) {
            let open = |group: &GroupPool| if group.can_serve() { group.traffic_weight } else { 0.0 };
            for (group, group_part) in parts(&share.endpoint.groups, open) {
                for (candidate, part) in parts(&group.candidates, Candidate::weight) {
                    let part = endpoint_part * group_part * part;
                    let literal = if part > 0.0 { f64::from(candidate.backend.weight) } else { 0.0 };
                    shares.push((candidate.backend.clone(), if flat { literal } else { part }));
                }
            }
        }
        if flat {
            let sum: f64 = shares.iter().map(|(_, weight)| weight).sum();
            shares.iter_mut().filter(|(_, weight)| *weight > 0.0).for_each(|(_, weight)| *weight /= sum);
        }
        shares
    }

    /// Whether anything in it may be picked.
    #[must_use]
    pub fn can_serve(&self) -> bool {
        self.endpoints.iter().any(|share| share.ratio > 0.0 && share.endpoint.can_serve())
    }

    /// Every candidate, in pool order, drained ones and those that do not serve included.
    pub fn candidates(&self) -> impl Iterator<Item = &Candidate> {
        self.endpoints.iter().flat_map(|share| &share.endpoint.groups).flat_map(|group| &group.candidates)
    }
}

impl EndpointPool {
    /// Whether anything in it may be picked.
    #[must_use]
    pub fn can_serve(&self) -> bool {
        self.groups.iter().any(|group| group.traffic_weight > 0.0 && group.can_serve())
    }
}

impl GroupPool {
    /// Whether anything in it may be picked.
    #[must_use]
    pub fn can_serve(&self) -> bool {
        self.candidates.iter().any(|candidate| candidate.weight() > 0.0)
    }
}

/// Each item with its part of their sum.
fn parts<T>(items: &[T], weight: impl Fn(&T) -> f64) -> impl Iterator<Item = (&T, f64)> {
    let scale = items.iter().map(&weight).fold(0.0, f64::max);
    // Dividing by the largest first keeps the sum of huge numbers finite, and tiny ones from vanishing.
    let sum: f64 = if scale > 0.0 { items.iter().map(|item| weight(item) / scale).sum() } else { 1.0 };
    items.iter().map(move |item| (item, if scale > 0.0 { weight(item) / scale / sum } else { 0.0 }))
}
