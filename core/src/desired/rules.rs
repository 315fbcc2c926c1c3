//! Which rules turn circuits into backends: the one place where the two workers part on this floor.

use std::sync::Arc;

use super::edit::Desired;
#[cfg(feature = "appproxy-router")]
use super::router;
use crate::wire::ids::EndpointId;
use crate::wire::publication::Publication;

/// The rules in force. One process keeps to one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rules {
    /// A plain router: only configured backends, circuits make none.
    #[default]
    StaticOnly,
    /// The ROUTER worker: publications say which endpoints serve which names (worker-protocol 6).
    #[cfg(feature = "appproxy-router")]
    Router,
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
        }
    }

    /// The publication with this primary name, when publications count.
    #[must_use]
    pub fn publication<'a>(self, desired: &'a Desired, model: &str) -> Option<&'a Publication> {
        match self {
            Self::StaticOnly => {
                let _ = (desired, model);
                None
            }
            #[cfg(feature = "appproxy-router")]
            Self::Router => desired.publications().get(model).map(AsRef::as_ref),
        }
    }

    /// The publications behind a name, by primary name.
    #[must_use]
    pub fn claims<'a>(self, desired: &'a Desired, name: &str) -> Vec<&'a Publication> {
        match self {
            Self::StaticOnly => {
                let _ = (desired, name);
                Vec::new()
            }
            #[cfg(feature = "appproxy-router")]
            Self::Router => desired.claims(name).collect(),
        }
    }
}
