//! The ROUTER worker's rules (worker-protocol 6).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::edit::Desired;
use super::rules::EndpointTerms;
use crate::wire::ids::EndpointId;

/// The union of the names of all publications that map the endpoint, and the largest ratio any of them gives it.
pub(super) fn endpoint_terms(desired: &Desired, endpoint: EndpointId) -> Option<EndpointTerms> {
    let mut models: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut ratio = 0.0_f64;
    for publication in desired.publications_of(endpoint) {
        models.extend(publication.names().cloned());
        for mapping in publication.mappings.iter().filter(|mapping| mapping.endpoint_id == endpoint) {
            ratio = ratio.max(mapping.ratio.sanitised());
        }
    }
    if models.is_empty() { None } else { Some(EndpointTerms { models: models.into_iter().collect(), ratio }) }
}
