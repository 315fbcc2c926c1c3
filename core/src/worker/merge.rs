//! What an answer comes to, computed before anything is changed (worker-protocol 2, 3.3).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::defects::{Defect, has};
use super::guards::Guards;
use super::heard::{HeardCircuits, HeardConfig};
use crate::desired::Desired;
use crate::time::Moment;
use crate::wire::circuit::Circuit;
use crate::wire::ids::{CircuitId, EndpointId, KeyId};
use crate::wire::key::ApiKey;
use crate::wire::malformed::Elements;
use crate::wire::publication::Publication;

/// The circuits that hold once an answer is applied.
#[derive(Debug)]
pub(super) struct TargetCircuits {
    pub(super) circuits: BTreeMap<CircuitId, Circuit>,
    /// When the last of the guards that overruled the answer ends.
    pub(super) overruled_until: Option<Moment>,
}

/// An answer's circuits, without the guarded ones, with last good versions of malformed ones, and with what was heard
/// since the request was sent.
pub(super) fn circuits(
    answer: Elements<Circuit>,
    heard: &HeardCircuits,
    guards: &Guards,
    sent: Moment,
    desired: &Desired,
) -> TargetCircuits {
    let mut overruled_until: Option<Moment> = None;
    let mut circuits = BTreeMap::new();
    for circuit in answer.good {
        match guards.overrules(circuit.id, sent) {
            Some(end) => overruled_until = overruled_until.max(Some(end)),
            None => {
                circuits.insert(circuit.id, circuit);
            }
        }
    }
    // A malformed element keeps what we know of it; one without a readable id could be any of them.
    let malformed: BTreeSet<CircuitId> = answer.skipped_ids.iter().filter_map(|id| id.parse().ok()).collect();
    for (id, known) in desired.circuits() {
        let unreadable = answer.unreadable && !has(Defect::UnreadableRemovesCircuits);
        if (unreadable || malformed.contains(id)) && !circuits.contains_key(id) {
            circuits.insert(*id, known.clone());
        }
    }
    heard.apply(&mut circuits);
    TargetCircuits { circuits, overruled_until }
}

/// The publications and keys that hold once a 200 is applied.
#[derive(Debug)]
pub(super) struct TargetConfig {
    pub(super) publications: BTreeMap<Arc<str>, Publication>,
    pub(super) keys: BTreeMap<KeyId, ApiKey>,
    /// Whether what was heard changed the answer: then the state is not that snapshot any more (rule 7).
    pub(super) heard_changed: bool,
}

/// An answer's publications and keys, with last good versions of malformed publications (a malformed key is refused),
/// and with what was heard since the request was sent.
pub(super) fn config(
    publications: Elements<Publication>,
    keys: Elements<ApiKey>,
    heard: &HeardConfig,
    desired: &Desired,
) -> TargetConfig {
    let mut target: BTreeMap<Arc<str>, Publication> =
        publications.good.into_iter().map(|publication| (publication.model.clone(), publication)).collect();
    let malformed: BTreeSet<&str> = publications.skipped_ids.iter().map(String::as_str).collect();
    for (model, known) in desired.publications() {
        if (publications.unreadable || malformed.contains(&**model)) && !target.contains_key(model) {
            target.insert(model.clone(), Publication::clone(known));
        }
    }
    let mut keys: BTreeMap<KeyId, ApiKey> = keys.good.into_iter().map(|key| (key.key_id.clone(), key)).collect();
    let mut heard_changed = heard.apply_publications(&mut target);
    heard_changed |= heard.apply_keys(&mut keys);
    TargetConfig { publications: target, keys, heard_changed }
}

/// Whether applying these would leave some publication, servable until now, without any circuit: a sign of two
/// answers torn apart by a change between them (rule 2).
pub(super) fn strands(
    desired: &Desired,
    circuits: Option<&BTreeMap<CircuitId, Circuit>>,
    publications: Option<&BTreeMap<Arc<str>, Publication>>,
) -> bool {
    let before = endpoints(desired.circuits());
    let after = circuits.map(endpoints);
    let after = after.as_ref().unwrap_or(&before);
    desired.publications().iter().any(|(model, known)| {
        let then = match publications {
            Some(publications) => publications.get(model),
            None => Some(&**known),
        };
        then.is_some_and(|publication| has_circuit(known, &before) && !has_circuit(publication, after))
    })
}

fn endpoints(circuits: &BTreeMap<CircuitId, Circuit>) -> BTreeSet<EndpointId> {
    circuits.values().filter_map(|circuit| circuit.endpoint_id).collect()
}

fn has_circuit(publication: &Publication, endpoints: &BTreeSet<EndpointId>) -> bool {
    publication.mappings.iter().any(|mapping| endpoints.contains(&mapping.endpoint_id))
}
