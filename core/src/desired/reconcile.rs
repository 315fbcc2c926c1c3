//! Desired state to backends: pure, whole and canonical (worker-protocol 6).

use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::backend::{Backend, documented_weight};
use super::edit::Desired;
use super::report::{StateReport, circuit_report, publication_report, sub_domain_report};
use super::rules::{EndpointTerms, Rules};
use crate::wire::circuit::{Circuit, Protocol};
use crate::wire::ids::GroupId;

/// What follows from a desired state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reconciled {
    /// Every backend by name.
    pub backends: BTreeMap<Arc<str>, Backend>,
    /// What is odd, sorted. (What is odd about address lists is found where keys are read, in `serving`.)
    pub reports: Vec<StateReport>,
}

/// A route's backend, with its place among its siblings.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteBackend {
    /// The backend.
    pub backend: Backend,
    /// The route's own ratio, sanitised and above 0.
    pub traffic_ratio: f64,
    /// The replica group the circuit lists for it; `None` is the implicit one (worker-protocol 9).
    pub group: Option<GroupId>,
}

/// All backends of a desired state. `serving` keeps the same result step by step; this is what it is held against.
#[must_use]
pub fn reconcile(desired: &Desired, rules: Rules) -> Reconciled {
    let mut backends = BTreeMap::new();
    let mut reports = Vec::new();
    for circuit in desired.circuits().values() {
        reports.extend(circuit_report(circuit));
        let terms = circuit.routable().and_then(|endpoint| rules.endpoint_terms(desired, endpoint));
        for route in terms.iter().flat_map(|terms| circuit_backends(circuit, terms)) {
            backends.insert(route.backend.name.clone(), route.backend);
        }
    }
    reports.extend(rules.sub_domains(desired).filter_map(|label| sub_domain_report(desired, label)));
    reports.extend(desired.publications().values().filter_map(|one| publication_report(one)));
    reports.extend(desired.names().filter_map(|name| name_report(desired, name)));
    let mut by_hash: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for key in desired.keys().values() {
        by_hash.entry(key.token_hash).or_default().push(key.key_id.clone());
    }
    reports.extend(by_hash.into_values().filter(|keys| keys.len() > 1).map(|keys| StateReport::HashShared { keys }));
    reports.sort();
    Reconciled { backends, reports }
}

/// The backends of one circuit, sorted by name; a route that comes twice counts as it stands first.
#[must_use]
pub fn circuit_backends(circuit: &Circuit, terms: &EndpointTerms) -> Vec<RouteBackend> {
    let mut by_name: BTreeMap<Arc<str>, RouteBackend> = BTreeMap::new();
    for route in circuit.routes.iter().filter(|route| route.protocol == Protocol::Http) {
        let traffic_ratio = route.traffic_ratio.sanitised();
        let composed = terms.ratio * traffic_ratio;
        // Zero drains, and so does a product too small for a number.
        if composed > 0.0 {
            let backend = Backend::of_route(circuit, route, documented_weight(composed), terms.models.clone());
            let listed = |group: &GroupId| circuit.replica_groups.iter().any(|listed| listed.id == *group);
            let group = route.replica_group_id.filter(listed);
            by_name.entry(backend.name.clone()).or_insert(RouteBackend { backend, traffic_ratio, group });
        }
    }
    by_name.into_values().collect()
}

/// The conflict over a name, when several publications claim it.
#[must_use]
pub fn name_report(desired: &Desired, name: &Arc<str>) -> Option<StateReport> {
    let publications: Vec<Arc<str>> = desired.claims(name).map(|publication| publication.model.clone()).collect();
    (publications.len() > 1).then(|| StateReport::NameClaimed { name: name.clone(), publications })
}
