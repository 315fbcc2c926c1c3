//! The legacy worker's rules (worker-protocol 4.2, 4.3).

use std::sync::Arc;

use super::edit::Desired;
use super::learned::Learned;
use super::rules::EndpointTerms;
use crate::wire::ids::EndpointId;

/// The canonical model, once it is known. An opaque circuit's replicas answer for no model, and are there all the same.
pub(super) fn endpoint_terms(desired: &Desired, endpoint: EndpointId) -> Option<EndpointTerms> {
    let models = match desired.learned_of(endpoint)? {
        Learned::Models { canonical, .. } => Arc::from([canonical.clone()]),
        Learned::Opaque => Arc::default(),
    };
    Some(EndpointTerms { models, ratio: 1.0 })
}
