//! Keeps the serving view up to date with the desired state, at the cost of what changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use uuid::Uuid;

use super::changes::ChangeSet;
use super::health::Book;
use super::pool::{EndpointKey, PoolKey};
use super::pool_build::{EndpointBuild, EndpointPools, name_pool, static_part};
use super::reports::{Reports, Subject};
use super::settings::{RoutingWeights, ServingSettings, StaticBackend};
use super::view::{Generation, ServingView};
use crate::access::key_parts::KeyParts;
use crate::desired::{
    Backend, Desired, RouteBackend, Rules, StateReport, Touched, circuit_backends, circuit_report, name_report,
    publication_report,
};
use crate::limits::QUOTED_CHARS;
use crate::wire::ids::{CircuitId, EndpointId, KeyId};
use crate::wire::key::{ApiKey, TokenHash};

/// The builder of views. Holds the newest view and what is needed to make the next one from it.
#[derive(Debug)]
pub struct Serving {
    pub(super) rules: Rules,
    pub(super) weights: RoutingWeights,
    pub(super) configured: Arc<[StaticBackend]>,
    pub(super) view: Arc<ServingView>,
    pub(super) endpoints: EndpointPools,
    pub(super) book: Book,
    key_parts: KeyParts,
    pub(super) reports: Reports,
    /// Other settings are to be put into the view; the backends whose credential is another one.
    pub(super) rekeyed: Option<Vec<Arc<str>>>,
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
        let book = Book::new(settings.checks.clone(), settings.passive.clone());
        Self::bare(settings.rules, settings.weights, settings.backends.clone().into(), book)
    }

    pub(super) fn bare(
        rules: Rules,
        weights: RoutingWeights,
        configured: Arc<[StaticBackend]>,
        mut book: Book,
    ) -> Self {
        let statics = static_part(&configured, weights, &mut book);
        let mut view = ServingView::default();
        view.counts.static_backends = statics.backends.len();
        view.counts.health = book.counts();
        view.counts.registry = rules.has_registry().then(Default::default);
        view.statics = Arc::new(statics);
        Self {
            rules,
            weights,
            configured,
            view: Arc::new(view),
            endpoints: EndpointPools::new(),
            book,
            key_parts: KeyParts::default(),
            reports: Reports::default(),
            rekeyed: None,
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
        let mut pools = BTreeSet::new();
        for id in &touched.circuits {
            let circuit = desired.circuits().get(id);
            if circuit.is_none_or(|circuit| circuit.routable().is_none()) {
                set_backends(&mut next, &mut changes, &mut self.book, *id, &mut []);
            }
            self.reports.set(Subject::Circuit(*id), circuit.and_then(circuit_report));
            self.touch_circuit(*id, circuit, &mut pools);
        }
        for endpoint in &touched.endpoints {
            let changed = self.refresh_endpoint(&mut next, &mut changes, desired, *endpoint);
            self.touch_endpoint(desired, *endpoint, changed, &mut pools);
        }
        self.refresh_sub_domains(&mut next, &mut changes, desired, &touched.sub_domains, &mut pools);
        for model in &touched.publications {
            let report = desired.publications().get(model).and_then(|one| publication_report(one));
            self.reports.set(Subject::Publication(model.clone()), report);
            pools.insert(PoolKey::Publication(model.clone()));
        }
        for name in &touched.names {
            self.refresh_name(&mut next, &mut changes, desired, name);
            pools.insert(PoolKey::Contested(name.clone()));
        }
        self.refresh_configured(&mut next, &mut changes, &mut pools);
        self.refresh_pools(&mut next, &mut changes, desired, pools);
        self.refresh_keys(&mut next, &mut changes, desired, &touched.keys);
        next.digest = desired.digest();
        next.keys_loaded = desired.keys_loaded();
        next.counts.circuits = desired.circuits().len();
        next.counts.publications = desired.publications().len();
        next.counts.names = next.names.len();
        next.counts.keys = next.keys.len();
        if let Some(counts) = &mut next.counts.registry {
            (counts.sub_domains, counts.models) = (next.registry.sub_domains.len(), next.registry.models.len());
            // A name may have gone with one circuit and come with another.
            changes.names.retain(|name| names_differ(&self.view, &next, name));
        }
        next.counts.health = self.book.counts();
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
            let mut routes = terms.as_ref().map(|terms| circuit_backends(circuit, terms)).unwrap_or_default();
            let backends = set_backends(next, changes, &mut self.book, circuit.id, &mut routes);
            build.add(circuit, routes.into_iter().zip(backends.iter().cloned()).collect(), &self.book);
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

    /// Says anew what stands behind a name.
    fn refresh_name(&mut self, next: &mut ServingView, changes: &mut ChangeSet, desired: &Desired, name: &Arc<str>) {
        let claims = self.rules.claims(desired, name);
        let key = match claims.as_slice() {
            [] => None,
            [only] => Some(PoolKey::Publication(only.model.clone())),
            _ => Some(PoolKey::Contested(name.clone())),
        };
        let report = if claims.len() > 1 { name_report(desired, name) } else { None };
        self.reports.set(Subject::Name(name.clone()), report);
        if next.names.get(&**name) != key.as_ref() {
            changes.names.push(name.clone());
            match key {
                Some(key) => next.names.put::<str>(name.clone(), key),
                None => {
                    next.names.take(&**name);
                }
            }
        }
    }

    /// Makes a pool anew, or lets it go when nothing is behind its key any more.
    pub(super) fn refresh_pool(
        &self,
        next: &mut ServingView,
        changes: &mut ChangeSet,
        desired: &Desired,
        key: &PoolKey,
    ) {
        let claims = match key {
            PoolKey::Publication(model) => self.rules.publication(desired, model).into_iter().collect(),
            PoolKey::Contested(name) => {
                Some(self.rules.claims(desired, name)).filter(|all| all.len() > 1).unwrap_or_default()
            }
            // Made with the static part, as a whole.
            PoolKey::Static(_) => return,
            PoolKey::Circuit(id) => return self.refresh_registry(next, changes, desired, *id),
        };
        let Some(first) = claims.first() else {
            next.pools.take(key);
            return;
        };
        let pool = name_pool(key.clone(), &claims, &self.endpoints, self.weights, &self.book);
        // What is the same stays the same object: selection tells by it that nothing changed.
        if next.pools.get(key).is_some_and(|held| **held == pool) {
            return;
        }
        match key {
            PoolKey::Contested(name) | PoolKey::Static(name) => changes.names.push(name.clone()),
            PoolKey::Circuit(_) => {}
            PoolKey::Publication(_) => {
                changes.names.extend(first.names().filter(|name| !desired.contested(name)).cloned());
            }
        }
        next.pools.put::<PoolKey>(key.clone(), Arc::new(pool));
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

/// Whether a name that circuits list, or that static backends have, came, went or is served by others.
fn names_differ(before: &ServingView, after: &ServingView, name: &str) -> bool {
    before.registry.serves(name) != after.registry.serves(name)
        || before.static_model(name).map(Arc::as_ptr) != after.static_model(name).map(Arc::as_ptr)
}

/// Puts a circuit's backends in, keeping those that are the same, and notes what differs.
fn set_backends(
    next: &mut ServingView,
    changes: &mut ChangeSet,
    book: &mut Book,
    circuit: CircuitId,
    routes: &mut [RouteBackend],
) -> Arc<[Arc<Backend>]> {
    let held = next.backends.get(&circuit.0).cloned().unwrap_or_default();
    let find = |name: &str| held.binary_search_by(|backend| (*backend.name).cmp(name)).ok().and_then(|at| held.get(at));
    let mut differs = false;
    let fresh: Arc<[Arc<Backend>]> = routes
        .iter_mut()
        .map(|route| {
            if let Some(served) = book.admit(&route.backend, true).served {
                route.backend.served_names = served;
            }
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
            book.forget(&old.name);
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
