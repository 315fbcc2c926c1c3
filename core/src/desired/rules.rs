//! Which rules turn circuits into backends: the one place where the two workers part on this floor.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::edit::Desired;
#[cfg(feature = "appproxy-legacy")]
use super::legacy;
#[cfg(feature = "appproxy-router")]
use super::router;
use crate::wire::ids::EndpointId;
use crate::wire::publication::Publication;

/// The rules in force. One process keeps to one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rules {
    /// A plain router: only configured backends, circuits make none.
    #[default]
    StaticOnly,
    /// The ROUTER worker: publications say which endpoints serve which names (worker-protocol 6).
    #[cfg(feature = "appproxy-router")]
    Router,
    /// The legacy worker: every circuit serves what its replicas list (worker-protocol 4.3).
    #[cfg(feature = "appproxy-legacy")]
    Legacy,
}

/// What the rules say of one endpoint, for every circuit of it.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointTerms {
    /// The names its backends answer for, sorted, without repeats.
    pub models: Arc<[Arc<str>]>,
    /// Its ratio in the documented weight, sanitised.
    pub ratio: f64,
}

impl Rules {
    /// What to make of an endpoint's routes; `None`: its circuits are tracked, without backends.
    #[must_use]
    pub fn endpoint_terms(self, desired: &Desired, endpoint: EndpointId) -> Option<EndpointTerms> {
        match self {
            Self::StaticOnly => {
                let _ = (desired, endpoint);
                None
            }
            #[cfg(feature = "appproxy-router")]
            Self::Router => router::endpoint_terms(desired, endpoint),
            #[cfg(feature = "appproxy-legacy")]
            Self::Legacy => legacy::endpoint_terms(desired, endpoint),
        }
    }

    /// The publication with this primary name, when publications count.
    #[must_use]
    pub fn publication<'a>(self, desired: &'a Desired, model: &str) -> Option<&'a Publication> {
        match self {
            #[cfg(feature = "appproxy-router")]
            Self::Router => desired.publications().get(model).map(AsRef::as_ref),
            _ => {
                let _ = (desired, model);
                None
            }
        }
    }

    /// The sub-domains that circuits claim, when they count.
    pub(super) fn sub_domains(self, desired: &Desired) -> impl Iterator<Item = &Arc<str>> {
        self.has_registry().then(|| desired.sub_domains.keys()).into_iter().flatten()
    }

    /// Whether circuits are met by their sub-domains.
    #[must_use]
    pub const fn has_registry(self) -> bool {
        match self {
            #[cfg(feature = "appproxy-legacy")]
            Self::Legacy => true,
            #[cfg(feature = "appproxy-router")]
            Self::Router => false,
            Self::StaticOnly => false,
        }
    }

    /// The publications behind a name, by primary name.
    #[must_use]
    pub fn claims<'a>(self, desired: &'a Desired, name: &str) -> Vec<&'a Publication> {
        match self {
            #[cfg(feature = "appproxy-router")]
            Self::Router => desired.claims(name).collect(),
            _ => {
                let _ = (desired, name);
                Vec::new()
            }
        }
    }
}
