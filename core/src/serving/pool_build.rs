//! Pools out of the desired state (worker-protocol 6.1, 6.2, 9).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::health::{Book, Known};
use super::pool::{Candidate, EndpointKey, EndpointPool, EndpointShare, GroupKey, GroupPool, ModelPool, PoolKey};
use super::quorum;
use super::settings::{RoutingWeights, StaticBackend};
use super::view::StaticPart;
use crate::desired::{Backend, RouteBackend};
use crate::wire::circuit::Circuit;
use crate::wire::ids::EndpointId;
use crate::wire::publication::Publication;

/// Weight of the implicit group (worker-protocol 6.2).
const IMPLICIT_GROUP_WEIGHT: f64 = 100.0;

/// The pools of endpoints by id; an endpoint without circuits has none.
pub(super) type EndpointPools = BTreeMap<EndpointId, Arc<EndpointPool>>;

/// An endpoint's replicas put together from its circuits.
pub(super) struct EndpointBuild {
    key: EndpointKey,
    groups: BTreeMap<GroupKey, GroupPool>,
}

impl EndpointBuild {
    pub(super) fn new(key: EndpointKey) -> Self {
        Self { key, groups: BTreeMap::new() }
    }

    /// Adds the routes of one circuit; a group that several list counts with its largest weight.
    pub(super) fn add(&mut self, circuit: &Circuit, routes: Vec<(RouteBackend, Arc<Backend>)>, book: &Book) {
        for (route, backend) in routes {
            let key = route.group.map_or(GroupKey::Implicit, GroupKey::Listed);
            let listed = circuit.replica_groups.iter().filter(|listed| route.group == Some(listed.id));
            let weight = match key {
                GroupKey::Implicit => IMPLICIT_GROUP_WEIGHT,
                GroupKey::Listed(_) => listed.map(|listed| listed.traffic_weight.sanitised()).fold(0.0, f64::max),
            };
            let health = book.known(&backend.name).health;
            self.add_candidate(key, weight, Candidate { backend, ratio: route.traffic_ratio, health, kept: false });
        }
    }

    fn add_candidate(&mut self, key: GroupKey, weight: f64, candidate: Candidate) {
        let empty = || GroupPool { key, traffic_weight: 0.0, candidates: Vec::new() };
        let group = self.groups.entry(key).or_insert_with(empty);
        group.traffic_weight = group.traffic_weight.max(weight);
        group.candidates.push(candidate);
    }

    pub(super) fn finish(self) -> EndpointPool {
        let mut groups: Vec<GroupPool> = self.groups.into_values().collect();
        for group in &mut groups {
            group.candidates.sort_by(|a, b| a.backend.name.cmp(&b.backend.name));
        }
        EndpointPool { key: self.key, groups }
    }
}

/// What a name resolves to, given the publications that claim it (at least one).
pub(super) fn name_pool(
    key: PoolKey,
    claims: &[&Publication],
    pools: &EndpointPools,
    weights: RoutingWeights,
    book: &Book,
) -> ModelPool {
    let ratios = match claims {
        [only] => ratios(only),
        // What is in quarantine counts until it is clear what is kept of it.
        several => {
            contested(several, |id| pools.get(id).is_some_and(|pool| pool.groups.iter().any(quorum::could_serve)))
        }
    };
    let mut endpoints: Vec<_> = ratios.iter().filter_map(|(id, ratio)| share(pools, *id, *ratio)).collect();
    quorum::keep_needed(&mut endpoints, book);
    if claims.len() > 1 {
        let serving = endpoints.iter().filter(|share| share.endpoint.can_serve()).map(|share| share.endpoint.key);
        let serving: BTreeSet<EndpointKey> = serving.collect();
        let ratios = contested(claims, |id| serving.contains(&EndpointKey::Deployment(*id)));
        let keyed = ratios.into_iter().map(|(id, ratio)| (EndpointKey::Deployment(id), ratio));
        let ratios: BTreeMap<EndpointKey, f64> = keyed.filter(|(_, ratio)| *ratio > 0.0).collect();
        for share in &mut endpoints {
            // One that is passed over whole has a ratio still: it is out by its replicas, and nobody drained it.
            share.ratio = ratios.get(&share.endpoint.key).copied().unwrap_or(share.ratio);
        }
    }
    let no_circuit = ratios.into_keys().filter(|id| !pools.contains_key(id)).collect();
    ModelPool { key, weights, endpoints: endpoints.into(), no_circuit }
}

/// The ratio of each endpoint of a publication; one that is mapped twice counts with its largest.
fn ratios(publication: &Publication) -> BTreeMap<EndpointId, f64> {
    let mut ratios = BTreeMap::new();
    for mapping in &publication.mappings {
        let ratio: &mut f64 = ratios.entry(mapping.endpoint_id).or_default();
        *ratio = ratio.max(mapping.ratio.sanitised());
    }
    ratios
}

fn share(pools: &EndpointPools, id: EndpointId, ratio: f64) -> Option<EndpointShare> {
    pools.get(&id).map(|endpoint| EndpointShare { ratio, endpoint: endpoint.clone() })
}

/// Each publication that can serve normalised to 1 over what can serve of it, then equal parts: a sum of them.
fn contested(claims: &[&Publication], open: impl Fn(&EndpointId) -> bool) -> BTreeMap<EndpointId, f64> {
    let mut sums: BTreeMap<EndpointId, f64> = BTreeMap::new();
    for publication in claims {
        let ratios = ratios(publication);
        let serving = || ratios.iter().filter(|(id, _)| open(id)).map(|(_, ratio)| *ratio);
        // Divided by the largest first, so that huge ratios do not add up to infinity.
        let scale = serving().fold(0.0, f64::max);
        let sum: f64 = serving().map(|ratio| ratio / scale).sum();
        for (id, ratio) in &ratios {
            let part = if scale > 0.0 && open(id) { ratio / scale / sum } else { 0.0 };
            *sums.entry(*id).or_default() += part;
        }
    }
    sums
}

/// The part of the view that comes of the configuration alone.
pub(super) fn static_part(configured: &[StaticBackend], weights: RoutingWeights, book: &mut Book) -> StaticPart {
    let mut part = StaticPart::default();
    let mut by_name: BTreeMap<Arc<str>, EndpointBuild> = BTreeMap::new();
    for configured in configured {
        let mut backend = static_backend(configured);
        let Known { health, served } = book.admit(&backend, configured.probed);
        if let Some(served) = served.filter(|_| configured.models.is_empty()) {
            // Nobody said what it serves: what it says itself.
            let models: BTreeSet<Arc<str>> = served.iter().cloned().collect();
            backend.models = models.into_iter().collect();
            backend.served_names = served;
        }
        let backend = Arc::new(backend);
        for name in backend.models.iter() {
            let build = by_name.entry(name.clone()).or_insert_with(|| EndpointBuild::new(EndpointKey::Static));
            let candidate =
                Candidate { backend: backend.clone(), ratio: f64::from(configured.weight), health, kept: false };
            build.add_candidate(GroupKey::Implicit, IMPLICIT_GROUP_WEIGHT, candidate);
        }
        part.backends.insert(backend.name.clone(), backend);
    }
    for (name, build) in by_name {
        let mut endpoints = [EndpointShare { ratio: 1.0, endpoint: Arc::new(build.finish()) }];
        quorum::keep_needed(&mut endpoints, book);
        let key = PoolKey::Static(name.clone());
        part.models.insert(
            name,
            Arc::new(ModelPool { key, weights, endpoints: endpoints.into(), no_circuit: Box::default() }),
        );
    }
    part
}

fn static_backend(configured: &StaticBackend) -> Backend {
    let mut aliases = BTreeMap::new();
    for model in &configured.models {
        for alias in model.aliases.iter().filter(|alias| configured.models.iter().all(|own| own.name != **alias)) {
            aliases.entry(alias.clone()).or_insert_with(|| model.name.clone());
        }
    }
    let own = configured.models.iter().map(|model| model.name.clone());
    let models: BTreeSet<Arc<str>> = own.clone().chain(aliases.keys().cloned()).collect();
    Backend {
        name: configured.name.clone(),
        kind: configured.kind,
        tls: configured.tls,
        host: configured.host.clone(),
        port: configured.port,
        base_path: configured.base_path.clone(),
        weight: configured.weight,
        models: models.into_iter().collect(),
        served_names: own.collect(),
        aliases: aliases.into_iter().collect(),
        credential: configured.credential.clone(),
    }
}
