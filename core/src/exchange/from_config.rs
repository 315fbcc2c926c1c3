//! The part of the configuration that exchanges depend on.

use super::cors::AllowedOrigins;
use super::fallback::Fallbacks;
use super::operator_keys::{OperatorKey, OperatorKeys};
use super::rules::{ExchangeRules, KeyGate, RewriteModel};
use crate::access::address::TrustedProxies;
use crate::config::Config;
use crate::config::api_keys::{ApiKeys, KeyMode};
use crate::config::routing;
#[cfg(feature = "appproxy-router")]
use crate::config::worker::Mode;

impl From<&Config> for ExchangeRules {
    fn from(config: &Config) -> Self {
        let Config { server, request, routing, api_keys, fallback, .. } = config;
        let proxies = server.trusted_proxies.iter().map(String::as_str);
        Self {
            // The file's reader has checked the entries; trusting nobody is the safe side of a mistake there.
            trusted_proxies: TrustedProxies::parse(proxies).unwrap_or_default(),
            key_gate: key_gate(config),
            operator_keys: operator_keys(api_keys),
            hide_forbidden_models: hide_forbidden_models(config),
            rewrite_model: match routing.rewrite_model {
                routing::RewriteModel::Auto => RewriteModel::Auto,
                routing::RewriteModel::Never => RewriteModel::Never,
            },
            forward_credentials: routing.forward_credentials,
            allowed_origins: AllowedOrigins::new(server.cors_allowed_origins.iter().map(String::as_str)),
            max_body_size: server.max_body_size,
            max_retries: request.max_retries,
            retry_buffer: request.retry_buffer,
            strategy: routing.strategy,
            // The file's reader has checked the name.
            affinity_header: routing.affinity_header.as_deref().and_then(|name| name.parse().ok()),
            max_in_flight: routing.max_in_flight,
            queue_timeout: routing.queue_timeout,
            fallbacks: Fallbacks::new(fallback),
            connect_timeout: request.connect_timeout,
            first_byte_timeout: request.first_byte_timeout,
            idle_timeout: request.idle_timeout,
        }
    }
}

fn key_gate(config: &Config) -> KeyGate {
    match (&config.worker, config.api_keys.mode) {
        (Some(_), _) => KeyGate::Published,
        (None, KeyMode::Blocking) => KeyGate::Blocking,
        (None, KeyMode::Permissive) if config.api_keys.keys.is_empty() => KeyGate::Open,
        (None, KeyMode::Permissive) => KeyGate::Permissive,
    }
}

fn operator_keys(api_keys: &ApiKeys) -> OperatorKeys {
    OperatorKeys::new(api_keys.keys.iter().filter(|key| key.enabled).map(|entry| {
        let key = entry.key.clone();
        OperatorKey {
            id: key.key_id.0,
            hash: key.token_hash,
            allowed_models: key.allowed_models,
            rate_limit: key.rate_limit,
            allowed_client_ips: key.allowed_client_ips,
            expires_at: key.expires_at,
        }
    }))
}

fn hide_forbidden_models(config: &Config) -> bool {
    match config.worker.as_ref().map(|worker| &worker.mode) {
        #[cfg(feature = "appproxy-router")]
        Some(Mode::Router(router)) => router.hide_forbidden_models,
        _ => false,
    }
}
