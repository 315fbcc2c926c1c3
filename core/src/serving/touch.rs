//! What has to be made anew when a circuit or an endpoint changed: where the two workers part on this floor.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::changes::ChangeSet;
#[cfg(feature = "appproxy-legacy")]
use super::legacy;
use super::pool::PoolKey;
use super::serve::Serving;
use super::view::ServingView;
use crate::desired::{Desired, Rules};
use crate::wire::circuit::Circuit;
use crate::wire::ids::{CircuitId, EndpointId};

impl Serving {
    /// A circuit came, changed or went.
    pub(super) fn touch_circuit(&mut self, id: CircuitId, circuit: Option<&Circuit>, pools: &mut BTreeSet<PoolKey>) {
        match self.rules {
            #[cfg(feature = "appproxy-legacy")]
            Rules::Legacy => {
                let report = circuit.and_then(legacy::addresses_report);
                self.reports.set(super::reports::Subject::CircuitAddresses(id), report);
                pools.insert(PoolKey::Circuit(id));
            }
            _ => {
                let _ = (id, circuit, pools);
            }
        }
    }

    /// An endpoint was looked at; `changed`: its replicas are others than before.
    pub(super) fn touch_endpoint(
        &self,
        desired: &Desired,
        endpoint: EndpointId,
        changed: bool,
        pools: &mut BTreeSet<PoolKey>,
    ) {
        match self.rules {
            // What is known of its models may have changed alone.
            #[cfg(feature = "appproxy-legacy")]
            Rules::Legacy => pools.extend(desired.circuits_of(endpoint).map(|circuit| PoolKey::Circuit(circuit.id))),
            _ if changed => publications_pools(desired, endpoint, pools),
            _ => {}
        }
    }

    pub(super) fn refresh_sub_domains(
        &mut self,
        next: &mut ServingView,
        changes: &mut ChangeSet,
        desired: &Desired,
        labels: &BTreeSet<Arc<str>>,
        pools: &mut BTreeSet<PoolKey>,
    ) {
        match self.rules {
            #[cfg(feature = "appproxy-legacy")]
            Rules::Legacy => labels.iter().for_each(|label| {
                let report = crate::desired::sub_domain_report(desired, label);
                self.reports.set(super::reports::Subject::SubDomain(label.clone()), report);
                Self::refresh_sub_domain(next, changes, desired, label, pools);
            }),
            _ => {
                let _ = (next, changes, desired, labels, pools);
            }
        }
    }

    pub(super) fn refresh_registry(
        &self,
        next: &mut ServingView,
        changes: &mut ChangeSet,
        desired: &Desired,
        id: CircuitId,
    ) {
        match self.rules {
            #[cfg(feature = "appproxy-legacy")]
            Rules::Legacy => self.refresh_circuit(next, changes, desired, id),
            _ => {
                let _ = (next, changes, desired, id);
            }
        }
    }
}

/// The pools of the publications that an endpoint is in.
fn publications_pools(desired: &Desired, endpoint: EndpointId, pools: &mut BTreeSet<PoolKey>) {
    for publication in desired.publications_of(endpoint) {
        pools.insert(PoolKey::Publication(publication.model.clone()));
        let contested = publication.names().filter(|name| desired.contested(name));
        pools.extend(contested.cloned().map(PoolKey::Contested));
    }
}
