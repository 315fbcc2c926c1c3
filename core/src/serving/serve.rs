//! Keeps the serving view up to date with the desired state, at the cost of what changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use uuid::Uuid;

use super::changes::ChangeSet;
use super::pool::{EndpointKey, ModelPool, PoolKey};
use super::pool_build::{EndpointBuild, EndpointPools, name_pool, static_part};
use super::reports::{Reports, Subject};
use super::settings::{RoutingWeights, ServingSettings};
use super::view::{Generation, ServingView};
use crate::access::key_parts::KeyParts;
use crate::desired::{
    Backend, Desired, RouteBackend, Rules, StateReport, Touched, circuit_backends, circuit_report, name_report,
    publication_report,
};
use crate::limits::QUOTED_CHARS;
use crate::wire::ids::{CircuitId, EndpointId, KeyId};
use crate::wire::key::{ApiKey, TokenHash};
use crate::wire::publication::Publication;

/// The builder of views. Holds the newest view and what is needed to make the next one from it.
#[derive(Debug)]
pub struct Serving {
    rules: Rules,
    weights: RoutingWeights,
    view: Arc<ServingView>,
    endpoints: EndpointPools,
    key_parts: KeyParts,
    reports: Reports,
}

/// A new view.
#[derive(Debug, Clone)]
pub struct Update {
    /// The view.
    pub view: Arc<ServingView>,
    /// What differs from the one before.
    pub changes: ChangeSet,
    /// Oddities that were not there before, sorted.
    pub reports: Vec<StateReport>,
}

impl Serving {
    /// Static backends only, generation 0.
    #[must_use]
    pub fn new(settings: &ServingSettings) -> Self {
        let statics = static_part(settings);
        let mut view = ServingView::default();
        view.counts.static_backends = statics.backends.len();
        view.statics = Arc::new(statics);
        Self {
            rules: settings.rules,
            weights: settings.weights,
            view: Arc::new(view),
            endpoints: EndpointPools::new(),
            key_parts: KeyParts::default(),
            reports: Reports::default(),
        }
    }

    /// The newest view.
    #[must_use]
    pub const fn view(&self) -> &Arc<ServingView> {
        &self.view
    }

    /// Every oddity that stands now.
    pub fn reports(&self) -> impl Iterator<Item = &StateReport> {
        self.reports.standing()
    }

    /// Takes in what changed. `None` when the view would be the same and there is nothing to report.
    ///
    /// `touched` holds everything since the last update from this `desired` ([`Desired::take_touched`]), or, on a
    /// `Serving` made anew, [`Desired::everything`].
    #[must_use]
    pub fn update(&mut self, desired: &Desired, touched: &Touched) -> Option<Update> {
        let mut next = (*self.view).clone();
        let mut changes = ChangeSet::default();
        let mut names = touched.names.clone();
        for id in &touched.circuits {
            let circuit = desired.circuits().get(id);
            if circuit.is_none_or(|circuit| circuit.routable().is_none()) {
                set_backends(&mut next, &mut changes, *id, &[]);
            }
            self.reports.set(Subject::Circuit(*id), circuit.and_then(circuit_report));
        }
        for endpoint in &touched.endpoints {
            if self.refresh_endpoint(&mut next, &mut changes, desired, *endpoint) {
                let publications = desired.publications_of(*endpoint);
                names.extend(publications.flat_map(Publication::names).cloned());
            }
        }
        for model in &touched.publications {
            let report = desired.publications().get(model).and_then(|one| publication_report(one));
            self.reports.set(Subject::Publication(model.clone()), report);
        }
        self.refresh_names(&mut next, &mut changes, desired, names);
        self.refresh_keys(&mut next, &mut changes, desired, &touched.keys);
        next.digest = desired.digest();
        next.keys_loaded = desired.keys_loaded();
        next.counts.circuits = desired.circuits().len();
        next.counts.publications = desired.publications().len();
        next.counts.names = next.models.len();
        next.counts.keys = next.keys.len();
        changes.sort();
        let reports = self.reports.take_fresh();
        let same = changes.is_empty()
            && reports.is_empty()
            && (next.digest, next.keys_loaded, next.counts)
                == (self.view.digest, self.view.keys_loaded, self.view.counts);
        if same {
            return None;
        }
        next.generation = Generation(self.view.generation.0 + 1);
        self.view = Arc::new(next);
        Some(Update { view: self.view.clone(), changes, reports })
    }

    /// Makes the backends and the pool of one endpoint anew. Whether the pool differs.
    fn refresh_endpoint(
        &mut self,
        next: &mut ServingView,
        changes: &mut ChangeSet,
        desired: &Desired,
        endpoint: EndpointId,
    ) -> bool {
        let terms = self.rules.endpoint_terms(desired, endpoint);
        let mut build = EndpointBuild::new(EndpointKey::Deployment(endpoint));
        let mut known = false;
        for circuit in desired.circuits_of(endpoint) {
            known = true;
            let routes = terms.as_ref().map(|terms| circuit_backends(circuit, terms)).unwrap_or_default();
            let backends = set_backends(next, changes, circuit.id, &routes);
            build.add(circuit, routes.into_iter().zip(backends.iter().cloned()).collect());
        }
        let fresh = known.then(|| build.finish());
        if self.endpoints.get(&endpoint).map(|held| &**held) == fresh.as_ref() {
            return false;
        }
        match fresh {
            Some(pool) => self.endpoints.insert(endpoint, Arc::new(pool)),
            None => self.endpoints.remove(&endpoint),
        };
        true
    }

    fn refresh_names(
        &mut self,
        next: &mut ServingView,
        changes: &mut ChangeSet,
        desired: &Desired,
        names: BTreeSet<Arc<str>>,
    ) {
        // The names of one publication share its pool, so each is made once.
        let mut made: BTreeMap<PoolKey, Arc<ModelPool>> = BTreeMap::new();
        for name in names {
            let claims = self.rules.claims(desired, &name);
            let key = match claims.as_slice() {
                [] => None,
                [only] => Some(PoolKey::Publication(only.model.clone())),
                _ => Some(PoolKey::Contested(name.clone())),
            };
            let held = next.models.get(&*name);
            let pool = key.map(|key| {
                let build = || {
                    let pool = name_pool(key.clone(), &claims, &self.endpoints, self.weights);
                    // What is the same stays the same object: selection tells by it that nothing changed.
                    held.filter(|held| ***held == pool).cloned().unwrap_or_else(|| Arc::new(pool))
                };
                made.entry(key.clone()).or_insert_with(build).clone()
            });
            if held != pool.as_ref() {
                changes.names.push(name.clone());
                match pool {
                    Some(pool) => next.models.put::<str>(name.clone(), pool),
                    None => {
                        next.models.take(&*name);
                    }
                }
            }
            let report = if claims.len() > 1 { name_report(desired, &name) } else { None };
            self.reports.set(Subject::Name(name), report);
        }
    }

    fn refresh_keys(
        &mut self,
        next: &mut ServingView,
        changes: &mut ChangeSet,
        desired: &Desired,
        keys: &BTreeMap<KeyId, Option<TokenHash>>,
    ) {
        let mut hashes = BTreeSet::new();
        for (id, before) in keys {
            let key = desired.keys().get(id);
            hashes.extend(before.iter().chain(key.map(|key| &key.token_hash)).copied());
            let mut changed = false;
            if let Some(before) = before.as_ref().filter(|before| key.is_none_or(|key| key.token_hash != **before)) {
                changed |= next.keys.remove(before, id);
            }
            changed |= key.is_some_and(|key| self.put_key(next, key));
            changes.keys += usize::from(changed);
            if key.is_none() {
                self.reports.set(Subject::Key(id.clone()), None);
            }
        }
        for hash in hashes {
            let holders = next.keys.by_hash(&hash);
            let keys = || holders.iter().map(|record| record.key_id().clone()).collect();
            let report = (holders.len() > 1).then(|| StateReport::HashShared { keys: keys() });
            self.reports.set(Subject::Hash(hash), report);
        }
    }

    /// Whether the table holds something else now.
    fn put_key(&mut self, next: &mut ServingView, key: &ApiKey) -> bool {
        let (record, rejected) = self.key_parts.record(key);
        let report = (!rejected.is_empty()).then(|| StateReport::AddressesRejected {
            key_id: key.key_id.clone(),
            entries: rejected.iter().map(|entry| entry.chars().take(QUOTED_CHARS).collect()).collect(),
            nobody: record.addresses().refuses_everyone(),
        });
        self.reports.set(Subject::Key(key.key_id.clone()), report);
        if next.keys.by_hash(&key.token_hash).contains(&record) {
            return false;
        }
        next.keys.upsert(record);
        true
    }
}

/// Puts a circuit's backends in, keeping those that are the same, and notes what differs.
fn set_backends(
    next: &mut ServingView,
    changes: &mut ChangeSet,
    circuit: CircuitId,
    routes: &[RouteBackend],
) -> Arc<[Arc<Backend>]> {
    let held = next.backends.get(&circuit.0).cloned().unwrap_or_default();
    let find = |name: &str| held.binary_search_by(|backend| (*backend.name).cmp(name)).ok().and_then(|at| held.get(at));
    let mut differs = false;
    let fresh: Arc<[Arc<Backend>]> = routes
        .iter()
        .map(|route| {
            let name = &route.backend.name;
            match find(name) {
                Some(same) if **same == route.backend => return same.clone(),
                Some(_) => changes.updated.push(name.clone()),
                None => changes.added.push(name.clone()),
            }
            differs = true;
            Arc::new(route.backend.clone())
        })
        .collect();
    for old in held.iter() {
        if fresh.binary_search_by(|backend| backend.name.cmp(&old.name)).is_err() {
            changes.removed.push(old.name.clone());
            differs = true;
        }
    }
    if !differs {
        return held;
    }
    next.counts.backends = next.counts.backends + fresh.len() - held.len();
    if fresh.is_empty() {
        next.backends.take(&circuit.0);
    } else {
        next.backends.put::<Uuid>(circuit.0, fresh.clone());
    }
    fresh
}
