//! Publications: model names bound to endpoints (worker-protocol 5.1).

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::circuit::Ratio;
use super::ids::EndpointId;
#[cfg(feature = "appproxy-common")]
pub use super::read_publication::parse_publication;

/// A model name, with its aliases, bound to endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    /// The primary name.
    pub model: Arc<str>,
    /// Further names of the same model.
    pub aliases: Vec<Arc<str>>,
    /// The endpoints behind it, with their relative parts.
    pub mappings: Vec<Mapping>,
    /// Who sets the ratios.
    pub control_mode: ControlMode,
}

impl Publication {
    /// Its names, the primary first; may repeat.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        core::iter::once(&self.model).chain(&self.aliases)
    }
}

/// One endpoint of a publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    /// The endpoint.
    pub endpoint_id: EndpointId,
    /// Its part, relative to the others, not sanitised yet.
    pub ratio: Ratio,
}

/// Who sets a publication's ratios. Informational; an unknown word is kept and treated as manual.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlMode {
    /// An operator.
    Manual,
    /// A deployment strategy.
    StrategyManaged,
    /// A word we do not know.
    Unknown(String),
}
