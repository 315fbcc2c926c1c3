//! The part of the configuration that exchanges depend on.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cors::AllowedOrigins;
use super::fallback::Fallbacks;
#[cfg(feature = "appproxy-legacy")]
use super::legacy::Doors;
use super::operator_keys::{OperatorKey, OperatorKeys};
use super::rules::{Entrance, ExchangeRules, KeyGate, RewriteModel};
use crate::access::address::TrustedProxies;
use crate::config::Config;
use crate::config::api_keys::{ApiKeys, KeyMode};
use crate::config::backends::RetryOverride;
use crate::config::routing;
#[cfg(any(feature = "appproxy-router", feature = "appproxy-legacy"))]
use crate::config::worker::Mode;
#[cfg(feature = "appproxy-legacy")]
use crate::config::worker::WorkerConfig;

impl From<&Config> for ExchangeRules {
    fn from(config: &Config) -> Self {
        let Config { server, request, routing, api_keys, fallback, .. } = config;
        let proxies = server.trusted_proxies.iter().map(String::as_str);
        Self {
            // The file's reader has checked the entries; trusting nobody is the safe side of a mistake there.
            trusted_proxies: TrustedProxies::parse(proxies).unwrap_or_default(),
            entrance: entrance(config),
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
            retry_overrides: retry_overrides(config),
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

fn entrance(config: &Config) -> Entrance {
    match config.worker.as_ref() {
        #[cfg(feature = "appproxy-legacy")]
        Some(WorkerConfig { mode: Mode::Legacy(mode), hostname, .. }) => {
            Entrance::Circuits(std::sync::Arc::new(Doors::new(mode, hostname)))
        }
        _ => Entrance::Anywhere,
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

fn retry_overrides(config: &Config) -> Arc<BTreeMap<Arc<str>, RetryOverride>> {
    let given = config.backends.iter().filter_map(|one| Some((one.name.clone(), one.retry_override.clone()?)));
    Arc::new(given.collect())
}

fn hide_forbidden_models(config: &Config) -> bool {
    match config.worker.as_ref().map(|worker| &worker.mode) {
        #[cfg(feature = "appproxy-router")]
        Some(Mode::Router(router)) => router.hide_forbidden_models,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::selection::Strategy;
    use core::time::Duration;

    #[test]
    fn what_the_file_says_of_retry_choice_and_chains_is_in_the_rules() {
        let text = "selection_strategy: prefix_aware\n\
                    routing: {affinity_header: X-Session, max_in_flight: 7, queue_timeout: 3s}\n\
                    request: {max_retries: 4, retry_buffer: 2KiB}\n\
                    fallback: {fallback_chains: {a: [b], b: [c]}}\n";
        let rules = ExchangeRules::from(&crate::config::load(text, &|_| None).unwrap().config);
        assert_eq!((rules.strategy, rules.max_retries, rules.retry_buffer), (Strategy::PrefixAware, 4, 2048));
        assert_eq!(rules.affinity_header.as_ref().map(http::HeaderName::as_str), Some("x-session"));
        assert_eq!((rules.max_in_flight, rules.queue_timeout), (Some(7), Duration::from_secs(3)));
        assert_eq!(rules.fallbacks.after("a").map(|order| order.len()), Some(2));
        // Nothing said: as documented.
        let rules = ExchangeRules::from(&crate::config::load("", &|_| None).unwrap().config);
        let default = ExchangeRules::default();
        assert_eq!((rules.strategy, rules.max_retries), (default.strategy, default.max_retries));
        assert_eq!((rules.retry_buffer, rules.max_in_flight), (default.retry_buffer, default.max_in_flight));
        assert_eq!((rules.queue_timeout, rules.fallbacks.is_empty()), (default.queue_timeout, true));
    }
}
