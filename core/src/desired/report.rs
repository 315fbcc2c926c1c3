//! What is odd about the desired state and worth an operator's look.

use core::fmt;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::edit::Desired;
use crate::wire::circuit::{AppMode, Circuit, Ratio};
use crate::wire::ids::{CircuitId, KeyId};
use crate::wire::publication::Publication;

/// One oddity. `Display` is the operator's text; none holds a secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateReport {
    /// Several publications claim one name: each gets an equal part of its requests (worker-protocol 9).
    NameClaimed {
        /// The name, primary or alias.
        name: Arc<str>,
        /// The primary names of the publications, sorted.
        publications: Vec<Arc<str>>,
    },
    /// Several keys share one hash: the first by id that is valid now is used (worker-protocol 9).
    HashShared {
        /// The keys, sorted.
        keys: Vec<KeyId>,
    },
    /// Entries of a key's address list could not be read.
    AddressesRejected {
        /// The key.
        key_id: KeyId,
        /// The entries as they came, each cut to [`crate::limits::QUOTED_CHARS`].
        entries: Vec<String>,
        /// Whether nothing readable is left, so that the key is refused everywhere.
        nobody: bool,
    },
    /// Several circuits claim one sub-domain: the others are kept aside (worker-protocol 9).
    SubDomainClaimed {
        /// The sub-domain.
        sub_domain: Arc<str>,
        /// The circuit that is served there.
        served: CircuitId,
        /// The others, sorted.
        aside: Vec<CircuitId>,
    },
    /// Entries of a circuit's address list could not be read.
    CircuitAddressesRejected {
        /// The circuit.
        circuit_id: CircuitId,
        /// The entries as they came, each cut to [`crate::limits::QUOTED_CHARS`].
        entries: Vec<String>,
        /// Whether nothing readable is left, so that nobody is let in.
        nobody: bool,
    },
    /// A circuit that is not for inference: tracked, never served (worker-protocol 9).
    CircuitIgnored {
        /// The circuit.
        circuit_id: CircuitId,
    },
    /// Ratios or weights of a circuit that are negative or no number count as 0: those replicas are drained.
    CircuitRatios {
        /// The circuit.
        circuit_id: CircuitId,
        /// Where they stand, as `routes[index]` and `replica_groups[id]`.
        places: Vec<String>,
    },
    /// Ratios of a publication that are negative or no number count as 0: those endpoints are drained.
    PublicationRatios {
        /// The primary name.
        model: Arc<str>,
        /// Where they stand, as `mappings[endpoint id]`.
        places: Vec<String>,
    },
}

impl StateReport {
    /// A stable word for counting and for the troubleshooting chapter.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NameClaimed { .. } => "name_claimed",
            Self::HashShared { .. } => "hash_shared",
            Self::AddressesRejected { .. } => "addresses_rejected",
            Self::SubDomainClaimed { .. } => "sub_domain_claimed",
            Self::CircuitAddressesRejected { .. } => "circuit_addresses_rejected",
            Self::CircuitIgnored { .. } => "circuit_ignored",
            Self::CircuitRatios { .. } => "circuit_ratios",
            Self::PublicationRatios { .. } => "publication_ratios",
        }
    }
}

impl fmt::Display for StateReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameClaimed { name, publications } => write!(
                f,
                "model name {name:?} is claimed by several publications ({}); each gets an equal part of its requests. \
                 Give the name to one of them",
                list(publications.iter().map(AsRef::as_ref))
            ),
            Self::HashShared { keys } => write!(
                f,
                "API keys {} have the same hash; a request is judged by the first of them that is valid. Issue \
                 different keys",
                list(keys.iter().map(KeyId::as_str))
            ),
            Self::AddressesRejected { key_id, entries, nobody } => write!(
                f,
                "API key {key_id}: entries of allowed_client_ips are neither an address nor a network (192.0.2.7, \
                 192.0.2.0/24, 2001:db8::/32): {}{}",
                list(entries.iter().map(|entry| entry.as_str())),
                if *nobody { "; no entry is left, so the key is refused everywhere" } else { "" }
            ),
            Self::SubDomainClaimed { sub_domain, served, aside } => write!(
                f,
                "several circuits claim the sub-domain {sub_domain:?}: {served} is served there, and not {}. Remove the \
                 others from the coordinator",
                list(aside.iter().map(ToString::to_string).collect::<Vec<_>>().iter().map(String::as_str))
            ),
            Self::CircuitAddressesRejected { circuit_id, entries, nobody } => write!(
                f,
                "circuit {circuit_id}: entries of allowed_client_ips are neither an address nor a network (192.0.2.7, \
                 192.0.2.0/24, 2001:db8::/32): {}{}",
                list(entries.iter().map(String::as_str)),
                if *nobody { "; no entry is left, so nobody is let in" } else { "" }
            ),
            Self::CircuitIgnored { circuit_id } => {
                write!(f, "circuit {circuit_id} is not for inference and is not served here")
            }
            Self::CircuitRatios { circuit_id, places } => write!(
                f,
                "circuit {circuit_id}: ratios below 0 or no number count as 0 and drain: {}",
                list(places.iter().map(String::as_str))
            ),
            Self::PublicationRatios { model, places } => write!(
                f,
                "publication {model:?}: ratios below 0 or no number count as 0 and drain: {}",
                list(places.iter().map(String::as_str))
            ),
        }
    }
}

/// The most entries quoted in one text; the data keeps them all.
const QUOTED_ENTRIES: usize = 8;

fn list<'a>(entries: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = entries.len().saturating_sub(QUOTED_ENTRIES);
    let mut text = entries.take(QUOTED_ENTRIES).map(|entry| format!("{entry:?}")).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

/// What is odd about one circuit.
#[must_use]
pub fn circuit_report(circuit: &Circuit) -> Option<StateReport> {
    if circuit.app_mode != AppMode::Inference {
        return Some(StateReport::CircuitIgnored { circuit_id: circuit.id });
    }
    let routes = circuit.routes.iter().filter(|route| odd(route.traffic_ratio));
    let groups = circuit.replica_groups.iter().filter(|group| odd(group.traffic_weight));
    let mut places: Vec<String> = routes.map(|route| format!("routes[{}]", route.index)).collect();
    places.extend(groups.map(|group| format!("replica_groups[{}]", group.id)));
    places.sort();
    (!places.is_empty()).then_some(StateReport::CircuitRatios { circuit_id: circuit.id, places })
}

/// What is odd about one publication by itself.
#[must_use]
pub fn publication_report(publication: &Publication) -> Option<StateReport> {
    let odd_ones = publication.mappings.iter().filter(|mapping| odd(mapping.ratio));
    let mut places: Vec<String> = odd_ones.map(|mapping| format!("mappings[{}]", mapping.endpoint_id)).collect();
    places.sort();
    (!places.is_empty()).then(|| StateReport::PublicationRatios { model: publication.model.clone(), places })
}

/// The conflict over a sub-domain, when several circuits claim it.
#[must_use]
pub fn sub_domain_report(desired: &Desired, sub_domain: &Arc<str>) -> Option<StateReport> {
    let served = desired.holder(sub_domain)?.id;
    let aside: Vec<CircuitId> =
        desired.claimants(sub_domain).map(|circuit| circuit.id).filter(|id| *id != served).collect();
    (!aside.is_empty()).then(|| StateReport::SubDomainClaimed { sub_domain: sub_domain.clone(), served, aside })
}

fn odd(ratio: Ratio) -> bool {
    !ratio.0.is_finite() || ratio.0 < 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut_and_says_so() {
        let text = |entries: usize| {
            let places = (0..entries).map(|at| format!("mappings[{at}]")).collect();
            StateReport::PublicationRatios { model: "m".into(), places }.to_string()
        };
        assert!(text(QUOTED_ENTRIES).ends_with("\"mappings[7]\""), "{}", text(QUOTED_ENTRIES));
        assert!(text(QUOTED_ENTRIES + 3).ends_with("\"mappings[7]\" and 3 more"), "{}", text(QUOTED_ENTRIES + 3));
    }
}
