//! The worker section: how this process joins its coordinator (worker-protocol 8).

use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::secret::Secret;

/// A resolved `appproxy` or `appproxy_router` section. Serde is the journal's form: secrets, and what only the shell
/// uses, are left out and read back as empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerConfig {
    /// Which of the two workers this is, with what only that one has.
    pub mode: Mode,
    /// Base address of the coordinator, without a trailing slash. Only the shell uses it.
    #[serde(skip)]
    pub coordinator_url: String,
    /// `X-BackendAI-Token`; added by the shell, never in a command.
    #[serde(skip)]
    pub api_secret: Secret,
    /// Where the bus is; `None` only when events are off.
    #[serde(skip)]
    pub redis_url: Option<Secret>,
    /// PEM file with further roots for `https://` and `rediss://`.
    #[serde(skip)]
    pub ca_file: Option<String>,
    /// The logical worker name that several nodes share.
    pub authority: Arc<str>,
    /// The name under which clients reach us.
    pub hostname: String,
    /// Whether the first TCP listener has TLS.
    pub tls_listen: bool,
    /// Whether clients are told to use TLS.
    pub tls_advertised: bool,
    /// The port of the first TCP listener, or as configured.
    pub api_port: u16,
    /// The port clients use: `traffic_port` (ROUTER) or `wildcard_traffic_port` (legacy).
    pub traffic_port: u16,
    /// Time between heartbeats; 100 ms at the least.
    pub heartbeat_period: Duration,
    /// Time between periodic full pulls; 100 ms at the least.
    pub reconcile_interval: Duration,
    /// Whether the bus is used.
    pub events_enabled: bool,
    /// Which bodies our acks carry.
    pub event_dialect: EventDialect,
    /// Deadline of PUT, PATCH and DELETE.
    pub call_timeout: Duration,
    /// Deadline of each GET.
    pub pull_timeout: Duration,
    /// Past this without a successful full pull `/readyz` answers 503; `None` is no bound.
    pub max_staleness: Option<Duration>,
}

impl WorkerConfig {
    /// The name of its section.
    #[must_use]
    pub const fn section(&self) -> &'static str {
        match self.mode {
            Mode::Legacy(_) => "appproxy",
            Mode::Router(_) | Mode::Plain => "appproxy_router",
        }
    }

    /// What a plain router runs with: no coordinator is ever spoken to, and nothing but `mode` counts.
    #[must_use]
    pub fn plain() -> Self {
        Self {
            mode: Mode::Plain,
            coordinator_url: String::new(),
            api_secret: Secret::new(""),
            redis_url: None,
            ca_file: None,
            authority: Arc::default(),
            hostname: String::new(),
            tls_listen: false,
            tls_advertised: false,
            api_port: 0,
            traffic_port: 0,
            heartbeat_period: Duration::ZERO,
            reconcile_interval: Duration::ZERO,
            events_enabled: false,
            event_dialect: EventDialect::default(),
            call_timeout: Duration::ZERO,
            pull_timeout: Duration::ZERO,
            max_staleness: None,
        }
    }
}

/// The two workers, and the router without one. One process runs one of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// No worker section: static backends only. Never read from a file; see [`WorkerConfig::plain`].
    Plain,
    /// Model names and model API keys.
    Router(RouterMode),
    /// Sub-domains and access tokens.
    Legacy(LegacyMode),
}

/// What only the ROUTER worker has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RouterMode {
    /// Whether a model that is published but not allowed looks unpublished.
    pub hide_forbidden_models: bool,
    /// Past this without a successful full pull model API keys get 503; `None` is no bound.
    pub max_key_staleness: Option<Duration>,
}

/// What only the legacy worker has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegacyMode {
    /// Verifies access tokens (HS256).
    #[serde(skip)]
    pub jwt_secret: Secret,
    /// Tolerance of `exp` and `nbf`.
    pub jwt_leeway: Duration,
    /// With its leading dot, lower-case.
    pub wildcard_domain: String,
    /// Hosts that serve all circuits by model name, beside the apex; lower-case.
    pub aggregation_hosts: Vec<String>,
    /// Model names given instead of asked for, by endpoint id or sub-domain.
    pub model_names: Vec<(String, Arc<str>)>,
}

/// Which bodies our acks carry (worker-protocol 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventDialect {
    /// `args` and `payload` in one envelope: every released coordinator takes it.
    #[default]
    Both,
    /// Releases up to 26.8.
    Args,
    /// Releases from 26.9.
    Payload,
}
