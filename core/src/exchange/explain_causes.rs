//! Why nothing of a pool takes requests, and what would change each cause.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::serving::{EndpointPool, EndpointShare, Health, ModelPool, PoolKey};

/// One thing that keeps requests from replicas; several may be true of one replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    NothingMapped,
    NoCircuit,
    NoReplica,
    EndpointRatio,
    GroupWeight,
    ReplicaRatio,
    WarmingUp,
    Down,
    Quarantined,
    Drained,
}

/// What keeps requests from the replicas of `pools` and what would change it, each cause once. `None`: nothing does.
pub(super) fn causes<'a>(pools: impl Iterator<Item = &'a ModelPool>) -> Option<Cow<'static, str>> {
    let mut counts = BTreeMap::new();
    for pool in pools {
        if pool.endpoints.is_empty() && pool.no_circuit.is_empty() {
            count(&mut counts, Cause::NothingMapped, 1);
        }
        count(&mut counts, Cause::NoCircuit, pool.no_circuit.len());
        for share in pool.endpoints.iter() {
            of_endpoint(share, matches!(pool.key, PoolKey::Contested(_)), &mut counts);
        }
    }
    let told: Vec<String> = counts.into_iter().map(|(cause, many)| cure(cause, many)).collect();
    (!told.is_empty()).then(|| told.join("; ").into())
}

fn of_endpoint(share: &EndpointShare, contested: bool, counts: &mut BTreeMap<Cause, usize>) {
    let EndpointPool { groups, .. } = &*share.endpoint;
    // Under a contested name what cannot serve is given a ratio of 0 here, whatever its publications say.
    let told = !contested || share.endpoint.can_serve();
    count(counts, Cause::EndpointRatio, (told && share.ratio <= 0.0).into());
    count(counts, Cause::NoReplica, groups.is_empty().into());
    for group in groups {
        count(counts, Cause::GroupWeight, (group.traffic_weight <= 0.0).into());
        for candidate in &group.candidates {
            count(counts, Cause::ReplicaRatio, (candidate.ratio <= 0.0).into());
            if let Some(cause) = out(candidate.health).filter(|_| !candidate.serves()) {
                count(counts, cause, 1);
            }
        }
    }
}

fn count(counts: &mut BTreeMap<Cause, usize>, cause: Cause, more: usize) {
    if more > 0 {
        *counts.entry(cause).or_default() += more;
    }
}

const fn out(health: Health) -> Option<Cause> {
    match health {
        Health::Unknown | Health::Ready => None,
        Health::WarmingUp => Some(Cause::WarmingUp),
        Health::Down => Some(Cause::Down),
        Health::Quarantined => Some(Cause::Quarantined),
        Health::Drained => Some(Cause::Drained),
    }
}

/// A cause, how much of what it is true of, and what would change it.
fn cure(cause: Cause, many: usize) -> String {
    let (why, what, cure) = match cause {
        Cause::NothingMapped => ("no endpoint is mapped", "publication", "map one"),
        Cause::NoCircuit => {
            ("no circuit here", "mapped endpoint", "create the endpoint, or map one that has a circuit")
        }
        Cause::NoReplica => ("no replica", "endpoint", "start one"),
        Cause::EndpointRatio => ("ratio 0", "endpoint", "raise it in the mapping of the publication"),
        Cause::GroupWeight => ("weight 0", "replica group", "raise its traffic weight"),
        Cause::ReplicaRatio => ("ratio 0", "replica", "raise its traffic ratio, or its weight in `backends`"),
        Cause::WarmingUp => ("answers its probes with 503", "replica", "wait while it is starting"),
        Cause::Down => ("down, its probes fail", "replica", "start or mend it"),
        Cause::Quarantined => {
            ("quarantined, requests to it failed", "replica", "mend it; it is tried again when its quarantine is over")
        }
        Cause::Drained => {
            ("drained by an operator on this node", "replica", "POST /admin/backends/NAME/undrain, with admin.token")
        }
    };
    format!("{why} ({many} {what}{}): {cure}", if many == 1 { "" } else { "s" })
}

#[cfg(test)]
#[cfg(feature = "appproxy-router")]
#[path = "explain_causes_tests.rs"]
mod tests;
