//! What replicas said of the models behind an endpoint, where no publication says it (worker-protocol 4.2).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::edit::Desired;
use crate::wire::ids::EndpointId;

/// What is known of an endpoint's models. Nothing known: its circuits are held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Learned {
    /// A replica's list, or a configured name.
    Models {
        /// The first of the list: what the circuits serve.
        canonical: Arc<str>,
        /// The whole list, sorted, the canonical name included.
        listed: Arc<[Arc<str>]>,
    },
    /// A replica answered, and it was no model list: everything passes untouched.
    Opaque,
}

impl Learned {
    /// What a list says; `None` for an empty one.
    #[must_use]
    pub fn of_list(names: impl IntoIterator<Item = Arc<str>>) -> Option<Self> {
        let mut names: Vec<Arc<str>> = names.into_iter().collect();
        let canonical = names.first()?.clone();
        names.sort_unstable();
        names.dedup();
        Some(Self::Models { canonical, listed: names.into() })
    }

    /// The canonical name, when there is one.
    #[must_use]
    pub const fn canonical(&self) -> Option<&Arc<str>> {
        match self {
            Self::Models { canonical, .. } => Some(canonical),
            Self::Opaque => None,
        }
    }
}

impl Desired {
    /// Takes in what is known of an endpoint now; `None` forgets it. Whether that is another thing than before.
    pub fn learn(&mut self, endpoint: EndpointId, learned: Option<Learned>) -> bool {
        if self.learned.get(&endpoint) == learned.as_ref() {
            return false;
        }
        match learned {
            Some(learned) => self.learned.insert(endpoint, learned),
            None => self.learned.remove(&endpoint),
        };
        self.touched.endpoints.insert(endpoint);
        true
    }

    /// What is known of an endpoint.
    #[must_use]
    pub fn learned_of(&self, endpoint: EndpointId) -> Option<&Learned> {
        self.learned.get(&endpoint)
    }

    /// Everything that is known of endpoints.
    #[must_use]
    pub const fn learned(&self) -> &BTreeMap<EndpointId, Learned> {
        &self.learned
    }
}
