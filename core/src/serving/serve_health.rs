//! Health in the view: what probes and live traffic say goes in, and only what it changes is made anew.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::changes::ChangeSet;
use super::health::{Drain, ExchangeEnded, HealthChange, Known, ProbeSign, Roster};
use super::pool::{ModelPool, PoolKey};
use super::pool_build::static_part;
use super::quorum;
use super::serve::Serving;
use super::view::ServingView;
use crate::config::health::HealthChecks;
use crate::defects::{Defect, has};
use crate::desired::{Desired, circuit_of_name};
use crate::time::Moment;
use crate::wire::ids::EndpointId;

impl Serving {
    /// How replicas are probed.
    #[must_use]
    pub const fn checks(&self) -> &HealthChecks {
        self.book.checks()
    }

    /// Backends to probe, or to probe no more, since the last look.
    pub fn take_roster(&mut self) -> Roster {
        self.book.take_roster()
    }

    /// What changed in anyone's health since the last look, in order.
    pub fn take_news(&mut self) -> Vec<HealthChange> {
        self.book.take_news()
    }

    /// Takes in a probe's result; the time until the next probe. `None`: the backend is not here any more. The view
    /// follows with the next [`Serving::update`].
    pub fn take_sign(&mut self, backend: &str, sign: ProbeSign, now: Moment) -> Option<Duration> {
        self.book.take_sign(backend, sign, now)
    }

    /// Takes in how an attempt ended. Enough failures in a row put the backend into quarantine, if a model it serves can
    /// do without it; those that cannot go on asking it. The view follows with the next [`Serving::update`], which is due
    /// before the next end.
    pub fn take_end(&mut self, desired: &Desired, ended: &ExchangeEnded, now: Moment) {
        if self.book.take_end(ended) {
            let pools = self.pools_of(&self.view, desired, &ended.backend);
            let spares = |pool: &Arc<ModelPool>| quorum::can_spare(pool, &ended.backend);
            let mut pools = pools.iter().filter_map(|key| self.view.pool(key));
            let out = if has(Defect::EveryModelMustSpare) { pools.all(spares) } else { pools.any(spares) };
            if out {
                self.book.quarantine(&ended.backend, now);
            }
        }
    }

    /// An operator takes a backend out, or puts it back. The view follows with the next [`Serving::update`].
    pub fn drain(&mut self, drain: &Drain) {
        self.book.drain(&drain.backend, drain.out);
    }

    /// Ends the quarantines that are over. The view follows with the next [`Serving::update`].
    pub fn release_due(&mut self, now: Moment) {
        self.book.release_due(now);
    }

    /// When the next quarantine is over.
    #[must_use]
    pub fn next_release(&self) -> Option<Moment> {
        self.book.next_release()
    }

    /// Everything made anew from `desired`, with the health that is known now: what step by step must come to.
    #[must_use]
    pub fn rebuilt(&self, desired: &Desired) -> Self {
        let mut whole = Self::bare(self.rules, self.weights, self.configured.clone(), self.book.clone());
        let _ = whole.update(desired, &desired.everything());
        whole
    }

    /// Brings the pools up to date with the records until nothing differs any more. Ends: what the rules of quarantine
    /// change here is only ever its end.
    pub(super) fn refresh_pools(
        &mut self,
        next: &mut ServingView,
        changes: &mut ChangeSet,
        desired: &Desired,
        mut pools: BTreeSet<PoolKey>,
    ) {
        loop {
            self.take_in_stale(next, changes, desired, &mut pools);
            if pools.is_empty() {
                return;
            }
            let mut out = BTreeSet::new();
            for key in core::mem::take(&mut pools) {
                self.refresh_pool(next, changes, desired, &key);
                let (before, now) = (self.view.pool(&key), next.pool(&key));
                out.extend(quorum::given_back(before.map(AsRef::as_ref), now.map(AsRef::as_ref)));
            }
            for name in out {
                let pools = self.pools_of(next, desired, &name);
                let pools = pools.iter().filter_map(|key| next.pool(key)).map(AsRef::as_ref);
                if quorum::kept_by_all(pools, &name) {
                    self.book.release(&name, "needed");
                }
            }
        }
    }

    /// Puts what is known into the backends and candidates that say otherwise, and names the pools they are in.
    fn take_in_stale(
        &mut self,
        next: &mut ServingView,
        changes: &mut ChangeSet,
        desired: &Desired,
        pools: &mut BTreeSet<PoolKey>,
    ) {
        let mut statics = false;
        let mut endpoints = BTreeSet::new();
        for name in self.book.take_stale() {
            if next.statics.backends.contains_key(&name) {
                statics = true;
            } else {
                endpoints.extend(self.patch(next, changes, desired, &name));
            }
        }
        for endpoint in endpoints {
            self.touch_endpoint(desired, endpoint, true, pools);
        }
        if statics {
            pools.extend(self.refresh_statics(next, changes));
        }
    }

    /// Makes one replica's backend and candidate say what is known; the endpoint it belongs to.
    fn patch(
        &mut self,
        next: &mut ServingView,
        changes: &mut ChangeSet,
        desired: &Desired,
        name: &Arc<str>,
    ) -> Option<EndpointId> {
        let circuit = circuit_of_name(name)?;
        let endpoint = desired.circuits().get(&circuit)?.routable()?;
        let Known { health, served } = self.book.known(name);
        let held = next.backends.get(&circuit.0)?;
        let at = held.binary_search_by(|backend| backend.name.cmp(name)).ok()?;
        let mut backend = held.get(at)?.clone();
        if let Some(served) = served.filter(|served| *served != backend.served_names) {
            Arc::make_mut(&mut backend).served_names = served;
            let mut list: Vec<_> = held.to_vec();
            *list.get_mut(at)? = backend.clone();
            next.backends.put::<uuid::Uuid>(circuit.0, list.into());
            changes.updated.push(name.clone());
        }
        // Copied only when a view holds it too.
        for group in &mut Arc::make_mut(self.endpoints.get_mut(&endpoint)?).groups {
            if let Ok(at) = group.candidates.binary_search_by(|candidate| candidate.backend.name.cmp(name))
                && let Some(candidate) = group.candidates.get_mut(at)
            {
                (candidate.backend, candidate.health) = (backend.clone(), health);
            }
        }
        Some(endpoint)
    }

    /// Makes the static part anew, keeping what is the same; the pools that differ.
    pub(super) fn refresh_statics(&mut self, next: &mut ServingView, changes: &mut ChangeSet) -> Vec<PoolKey> {
        let mut fresh = static_part(&self.configured, self.weights, &mut self.book);
        keep_same(&next.statics.backends, &mut fresh.backends);
        keep_same(&next.statics.models, &mut fresh.models);
        let held = core::mem::replace(&mut next.statics, Arc::new(fresh));
        for name in differing(&held.backends, &next.statics.backends) {
            match (held.backends.contains_key(&name), next.statics.backends.contains_key(&name)) {
                (false, _) => changes.added.push(name),
                (true, true) => changes.updated.push(name),
                (true, false) => changes.removed.push(name),
            }
        }
        let names = differing(&held.models, &next.statics.models);
        changes.names.extend(names.iter().cloned());
        names.into_iter().map(PoolKey::Static).collect()
    }

    /// The pools a backend is in.
    fn pools_of(&self, view: &ServingView, desired: &Desired, name: &str) -> BTreeSet<PoolKey> {
        let mut pools = BTreeSet::new();
        if let Some(backend) = view.statics.backends.get(name) {
            pools.extend(backend.models.iter().cloned().map(PoolKey::Static));
        } else {
            let circuit = circuit_of_name(name).and_then(|id| desired.circuits().get(&id));
            if let Some(endpoint) = circuit.and_then(|circuit| circuit.routable()) {
                self.touch_endpoint(desired, endpoint, true, &mut pools);
                // Of a circuit's pool and not of its endpoint's others'.
                pools.retain(|key| !matches!(key, PoolKey::Circuit(id) if circuit.is_some_and(|own| own.id != *id)));
            }
        }
        pools
    }
}

/// What is the same stays the same object: selection tells by it that nothing changed.
fn keep_same<T: PartialEq>(held: &BTreeMap<Arc<str>, Arc<T>>, fresh: &mut BTreeMap<Arc<str>, Arc<T>>) {
    for (name, one) in fresh {
        if let Some(same) = held.get(name).filter(|held| *held == one) {
            *one = same.clone();
        }
    }
}

/// Names of what came, went or is another one.
fn differing<T>(held: &BTreeMap<Arc<str>, Arc<T>>, fresh: &BTreeMap<Arc<str>, Arc<T>>) -> BTreeSet<Arc<str>> {
    let same = |name: &Arc<str>| match (held.get(name), fresh.get(name)) {
        (Some(held), Some(fresh)) => Arc::ptr_eq(held, fresh),
        _ => false,
    };
    held.keys().chain(fresh.keys()).filter(|name| !same(name)).cloned().collect()
}
