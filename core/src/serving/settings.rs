//! What of the configuration shapes the serving view.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::config::health::{HealthChecks, Passive};
use crate::desired::{BackendKind, Rules};
use crate::secret::Secret;

/// Static backends, how candidates are weighed and judged, and which rules make backends of circuits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServingSettings {
    /// Which rules turn circuits into backends.
    pub rules: Rules,
    /// `routing.weights`.
    pub weights: RoutingWeights,
    /// The configured backends; names are unique and never start with `appproxy-` (checked when the file is read).
    pub backends: Vec<StaticBackend>,
    /// `health_checks`.
    pub checks: HealthChecks,
    /// `passive`.
    pub passive: Passive,
}

/// Settings that take the place of those a worker was made with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reconfigured {
    /// The new settings; which rules make backends of circuits stays as it is.
    pub settings: ServingSettings,
    /// Static backends whose credential is another one, which a journal could not see otherwise.
    pub rekeyed: Vec<Arc<str>>,
}

/// How a model's candidates are weighed (worker-protocol 6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoutingWeights {
    /// Each level normalised over its own serving children: the split that operators asked for.
    #[default]
    Normalised,
    /// The documented integer as it stands, over all replicas at once.
    Literal,
}

/// A configured backend (data-plane 3.7).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticBackend {
    /// Its name.
    pub name: Arc<str>,
    /// What it speaks.
    pub kind: BackendKind,
    /// Whether its address is `https://`.
    pub tls: bool,
    /// Host name or address; IPv6 literals without brackets.
    pub host: Arc<str>,
    /// TCP port.
    pub port: u16,
    /// Path of its address, without a trailing slash; empty for none.
    pub base_path: Arc<str>,
    /// Replaces the client's credential. Never serialised.
    #[serde(skip)]
    pub credential: Option<Secret>,
    /// Its part among the static backends of a model; 0 drains.
    pub weight: u32,
    /// The models it serves; empty: those that it lists itself.
    pub models: Vec<StaticModel>,
    /// Whether it is probed.
    pub probed: bool,
}

/// A model of a configured backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticModel {
    /// Its name, as the backend knows it.
    pub name: Arc<str>,
    /// Further names clients may use.
    pub aliases: Vec<Arc<str>>,
}
