//! Keeps the registry of a legacy worker up to date, at the cost of what changed (worker-protocol 4.2-4.4).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::changes::ChangeSet;
use super::pool::{EndpointKey, EndpointPool, EndpointShare, ModelPool, PoolKey};
use super::pool_build::EndpointBuild;
use super::quorum;
use super::registry::{CircuitModel, Registry, RegistryCounts, ServedCircuit};
use super::serve::Serving;
use super::view::ServingView;
use crate::access::ip_list::IpList;
use crate::desired::{Desired, EndpointTerms, Learned, StateReport, circuit_backends, circuit_of_name};
use crate::limits::QUOTED_CHARS;
use crate::wire::circuit::Circuit;
use crate::wire::ids::{CircuitId, EndpointId};

impl Serving {
    /// Says anew which circuit a sub-domain leads to, and whose place that changes.
    pub(super) fn refresh_sub_domain(
        next: &mut ServingView,
        changes: &mut ChangeSet,
        desired: &Desired,
        label: &Arc<str>,
        pools: &mut BTreeSet<PoolKey>,
    ) {
        let held = next.registry.sub_domains.get(&**label).copied();
        let holder = desired.holder(label).map(|circuit| circuit.id);
        if held == holder {
            return;
        }
        match holder {
            Some(id) => next.registry.sub_domains.put::<str>(label.clone(), id),
            None => {
                next.registry.sub_domains.take(&**label);
            }
        }
        let both = held.into_iter().chain(holder);
        changes.circuits.extend(both.clone());
        pools.extend(both.map(PoolKey::Circuit));
    }

    /// Makes one circuit's entry anew, or lets it go.
    pub(super) fn refresh_circuit(
        &self,
        next: &mut ServingView,
        changes: &mut ChangeSet,
        desired: &Desired,
        id: CircuitId,
    ) {
        let circuit = desired.circuits().get(&id);
        let in_place = circuit.is_some_and(|circuit| desired.has_its_place(circuit));
        let held = next.registry.circuit(id).cloned();
        let mut fresh = circuit.and_then(|circuit| self.served(desired, circuit));
        if let (Some(held), Some(fresh)) = (&held, &mut fresh)
            && held.pool == fresh.pool
        {
            // What is the same stays the same object: selection tells by it that nothing changed.
            fresh.pool = held.pool.clone();
        }
        let names = |entry: Option<&ServedCircuit>| entry.map(ServedCircuit::models).unwrap_or_default().to_vec();
        let (before, after) = (names(held.as_deref()), names(fresh.as_ref()));
        if before != after || before.first().is_some_and(|name| indexed(&next.registry, name, id) != in_place) {
            let wanted = if in_place { after } else { Vec::new() };
            changes.names.extend(index(&mut next.registry, id, &before, &wanted));
        }
        if held.as_deref() == fresh.as_ref() {
            return;
        }
        changes.circuits.push(id);
        let counts = next.counts.registry.get_or_insert_default();
        if let Some(held) = &held {
            *place(counts, &held.model) -= 1;
        }
        match fresh {
            Some(fresh) => {
                *place(counts, &fresh.model) += 1;
                next.registry.circuits.put::<uuid::Uuid>(id.0, Arc::new(fresh));
            }
            None => {
                next.registry.circuits.take(&id.0);
            }
        }
    }

    fn served(&self, desired: &Desired, circuit: &Circuit) -> Option<ServedCircuit> {
        let endpoint = circuit.routable()?;
        let learned = desired.learned_of(endpoint);
        let alone = desired.circuits_of(endpoint).nth(1).is_none();
        let replicas = match (learned, self.endpoints.get(&endpoint)) {
            (Some(_), Some(pool)) if alone => pool.clone(),
            (Some(_), pool) => Arc::new(own(pool.map(AsRef::as_ref), circuit.id, endpoint)),
            (None, _) => Arc::new(self.not_probed(circuit, endpoint)),
        };
        let model = match learned {
            None => CircuitModel::Held,
            Some(Learned::Opaque) => CircuitModel::Opaque,
            Some(Learned::Models { canonical, listed }) => {
                CircuitModel::Known { canonical: canonical.clone(), listed: all_listed(listed, &replicas) }
            }
        };
        let mut endpoints = [EndpointShare { ratio: 1.0, endpoint: replicas }];
        quorum::keep_needed(&mut endpoints, &self.book);
        Some(ServedCircuit {
            id: circuit.id,
            sub_domain: circuit.subdomain.as_deref().map(Arc::from),
            open_to_public: circuit.open_to_public,
            addresses: addresses(circuit).list,
            model,
            pool: Arc::new(ModelPool {
                key: PoolKey::Circuit(circuit.id),
                weights: self.weights,
                endpoints: endpoints.into(),
                no_circuit: Box::default(),
            }),
        })
    }

    /// The replicas of a held circuit: no backends, nobody probes them, and what passes them passes whatever they are.
    fn not_probed(&self, circuit: &Circuit, endpoint: EndpointId) -> EndpointPool {
        let terms = EndpointTerms { models: Arc::default(), ratio: 1.0 };
        let mut build = EndpointBuild::new(EndpointKey::Deployment(endpoint));
        let routes = circuit_backends(circuit, &terms).into_iter();
        let routes = routes.map(|route| (route.clone(), Arc::new(route.backend)));
        build.add(circuit, routes.collect(), &self.book);
        build.finish()
    }
}

/// What of a circuit's address list can be read, and what cannot.
fn addresses(circuit: &Circuit) -> crate::access::ip_list::ParsedIpList {
    IpList::parse(circuit.allowed_client_ips.as_deref())
}

/// What is odd about a circuit's address list.
pub(super) fn addresses_report(circuit: &Circuit) -> Option<StateReport> {
    circuit.routable()?;
    let parsed = addresses(circuit);
    (!parsed.rejected.is_empty()).then(|| StateReport::CircuitAddressesRejected {
        circuit_id: circuit.id,
        entries: parsed.rejected.iter().map(|entry| entry.chars().take(QUOTED_CHARS).collect()).collect(),
        nobody: parsed.list.refuses_everyone(),
    })
}

/// Of the replicas of an endpoint those of one circuit: a credential for it opens no other's.
fn own(pool: Option<&EndpointPool>, circuit: CircuitId, endpoint: EndpointId) -> EndpointPool {
    let mut groups = pool.map(|pool| pool.groups.clone()).unwrap_or_default();
    for group in &mut groups {
        group.candidates.retain(|candidate| circuit_of_name(&candidate.backend.name) == Some(circuit));
    }
    groups.retain(|group| !group.candidates.is_empty());
    EndpointPool { key: EndpointKey::Deployment(endpoint), groups }
}

/// The names learned at first, and those that the replicas were seen to list since (adapters come and go).
fn all_listed(learned: &Arc<[Arc<str>]>, replicas: &EndpointPool) -> Arc<[Arc<str>]> {
    let candidates = replicas.groups.iter().flat_map(|group| &group.candidates);
    let further = candidates.flat_map(|candidate| candidate.backend.served_names.iter());
    let mut further: Vec<&Arc<str>> = further.filter(|name| learned.binary_search(name).is_err()).collect();
    if further.is_empty() {
        return learned.clone();
    }
    further.extend(learned.iter());
    further.sort_unstable();
    further.dedup();
    further.into_iter().cloned().collect()
}

fn indexed(registry: &Registry, name: &str, id: CircuitId) -> bool {
    registry.models.get(name).is_some_and(|ids| ids.binary_search(&id).is_ok())
}

/// Brings the index by model up to date with a circuit; the names that came or went altogether.
fn index(registry: &mut Registry, id: CircuitId, before: &[Arc<str>], wanted: &[Arc<str>]) -> Vec<Arc<str>> {
    let mut changed = Vec::new();
    let gone = before.iter().filter(|name| wanted.binary_search(name).is_err()).map(|name| (name, false));
    for (name, joins) in gone.chain(wanted.iter().map(|name| (name, true))) {
        let mut ids = registry.models.get(&**name).map(|ids| ids.to_vec()).unwrap_or_default();
        match (ids.binary_search(&id), joins) {
            (Err(at), true) => ids.insert(at, id),
            (Ok(at), false) => {
                ids.remove(at);
            }
            (Ok(_), true) | (Err(_), false) => continue,
        }
        if ids.is_empty() {
            registry.models.take(&**name);
            changed.push(name.clone());
        } else {
            if ids.len() == 1 && joins {
                changed.push(name.clone());
            }
            registry.models.put::<str>(name.clone(), ids.into());
        }
    }
    changed
}

const fn place<'a>(counts: &'a mut RegistryCounts, model: &CircuitModel) -> &'a mut usize {
    match model {
        CircuitModel::Held => &mut counts.held,
        CircuitModel::Opaque => &mut counts.opaque,
        CircuitModel::Known { .. } => &mut counts.known,
    }
}
