//! Another configuration under a running worker (data-plane 8): what it changes is made anew, all else stays.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::changes::ChangeSet;
use super::pool::PoolKey;
use super::serve::Serving;
use super::settings::{Reconfigured, ServingSettings, StaticBackend};
use super::view::ServingView;

impl Serving {
    /// The settings in force.
    #[must_use]
    pub fn settings(&self) -> ServingSettings {
        ServingSettings {
            rules: self.rules,
            weights: self.weights,
            backends: self.configured.to_vec(),
            checks: self.book.checks().clone(),
            passive: self.book.passive().clone(),
        }
    }

    /// Takes other settings in; which rules make backends of circuits stays as it is. The view follows with the next
    /// [`Self::update`]. Returns whether that has to be one of everything: shares are weighed otherwise.
    pub fn configure(&mut self, fresh: Reconfigured) -> bool {
        let Reconfigured { settings, rekeyed } = fresh;
        let ServingSettings { rules: _, weights, backends, checks, passive } = settings;
        let held = core::mem::replace(&mut self.configured, backends.into());
        for gone in held.iter().filter(|old| self.configured.iter().all(|new| new.name != old.name)) {
            self.book.forget(&gone.name);
        }
        let (before, now) = (held, self.configured.clone());
        self.book.configure(checks, passive, |name| wants(&before, name), |name| wants(&now, name));
        self.rekeyed = Some(rekeyed);
        core::mem::replace(&mut self.weights, weights) != weights
    }

    /// Puts other settings into the view, once.
    pub(super) fn refresh_configured(
        &mut self,
        next: &mut ServingView,
        changes: &mut ChangeSet,
        pools: &mut BTreeSet<PoolKey>,
    ) {
        if let Some(rekeyed) = self.rekeyed.take() {
            pools.extend(self.refresh_statics(next, changes));
            // Said here, not seen by comparing: a replayed worker has no credentials, and is to do the same.
            for name in rekeyed {
                changes
                    .names
                    .extend(next.statics.backends.get(&name).iter().flat_map(|one| one.models.iter().cloned()));
                changes.updated.push(name);
            }
            next.counts.static_backends = next.statics.backends.len();
        }
    }
}

/// Whether probes are wanted for a backend: for replicas always.
fn wants(configured: &[StaticBackend], name: &Arc<str>) -> bool {
    configured.iter().find(|one| one.name == *name).is_none_or(|one| one.probed)
}
