//! What the configuration says about exchanges, resolved to plain data.

use core::time::Duration;
use http::HeaderName;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::cors::AllowedOrigins;
use super::fallback::Fallbacks;
use super::operator_keys::OperatorKeys;
use super::selection::Strategy;
use crate::access::address::TrustedProxies;
use crate::config::backends::RetryOverride;

/// Everything of the configuration that a request's way depends on. Swapped whole on a reload.
#[derive(Debug, Clone)]
pub struct ExchangeRules {
    /// `server.trusted_proxies`.
    pub trusted_proxies: TrustedProxies,
    /// `server.cors.allowed_origins`.
    pub allowed_origins: AllowedOrigins,
    /// What the host of a request says.
    pub entrance: Entrance,
    /// Who needs a key.
    pub key_gate: KeyGate,
    /// `api_keys.keys`.
    pub operator_keys: OperatorKeys,
    /// `appproxy_router.hide_forbidden_models`: a model that is not allowed looks unpublished.
    pub hide_forbidden_models: bool,
    /// `routing.rewrite_model`.
    pub rewrite_model: RewriteModel,
    /// `routing.forward_credentials`: the client's credential reaches the replica. Legacy mode only; the configuration
    /// refuses it elsewhere.
    pub forward_credentials: bool,
    /// `server.max_body_size`, in bytes. Above: 413.
    pub max_body_size: u64,
    /// `request.max_retries`: further candidates after the first, for each model that is tried.
    pub max_retries: u32,
    /// `request.retry_buffer`, in bytes: a larger body is sent once.
    pub retry_buffer: u64,
    /// `backends[].retry_override`, by backend.
    pub retry_overrides: Arc<BTreeMap<Arc<str>, RetryOverride>>,
    /// `selection_strategy`.
    pub strategy: Strategy,
    /// `routing.affinity_header`.
    pub affinity_header: Option<HeaderName>,
    /// `routing.max_in_flight`: requests at once to one replica.
    pub max_in_flight: Option<u32>,
    /// `routing.queue_timeout`: how long a request waits for a replica below that; zero: not at all.
    pub queue_timeout: Duration,
    /// `fallback.fallback_chains`.
    pub fallbacks: Fallbacks,
    /// `request.connect_timeout`.
    pub connect_timeout: Duration,
    /// `request.first_byte_timeout`.
    pub first_byte_timeout: Duration,
    /// `request.idle_timeout`, between two chunks of an answer.
    pub idle_timeout: Duration,
}

impl Default for ExchangeRules {
    /// The documented defaults of a plain router: no key needed (data-plane 2, 3).
    fn default() -> Self {
        Self {
            trusted_proxies: TrustedProxies::default(),
            allowed_origins: AllowedOrigins::Nobody,
            entrance: Entrance::Anywhere,
            key_gate: KeyGate::Open,
            operator_keys: OperatorKeys::default(),
            hide_forbidden_models: false,
            rewrite_model: RewriteModel::Auto,
            forward_credentials: false,
            max_body_size: 100 * 1024 * 1024,
            max_retries: 2,
            retry_buffer: 1024 * 1024,
            retry_overrides: Arc::default(),
            strategy: Strategy::Weighted,
            affinity_header: None,
            max_in_flight: None,
            queue_timeout: Duration::ZERO,
            fallbacks: Fallbacks::default(),
            connect_timeout: Duration::from_secs(5),
            first_byte_timeout: Duration::from_secs(300),
            idle_timeout: Duration::from_secs(300),
        }
    }
}

/// What the host of a request says (worker-protocol 4.4).
#[derive(Debug, Clone, Default)]
pub enum Entrance {
    /// Nothing: every host is the same.
    #[default]
    Anywhere,
    /// Which circuit is asked, or all of them by model name: the legacy worker.
    #[cfg(feature = "appproxy-legacy")]
    Circuits(std::sync::Arc<super::legacy::Doors>),
}

/// Who needs a key (worker-protocol 5.2, 5.3; 9, Gate).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyGate {
    /// A plain router without `api_keys`: nobody; keys are not looked at.
    Open,
    /// `api_keys.mode: permissive`: none is needed, but one that is shown must be valid.
    Permissive,
    /// `api_keys.mode: blocking`: everybody needs an operator key.
    Blocking,
    /// The ROUTER worker: everybody needs an operator key or a model API key.
    Published,
}

/// `routing.rewrite_model` (data-plane 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RewriteModel {
    /// Where the replica is known not to list the requested name, it gets the first one it lists.
    #[default]
    Auto,
    /// The name is never touched.
    Never,
}
