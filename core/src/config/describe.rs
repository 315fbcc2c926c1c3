//! The effective configuration as text, for `check`: the same for the same configuration, without any secret.

use core::fmt::{Display, Write};
use core::time::Duration;

use super::api_keys::{self, OperatorKey};
use super::backends::{self, StaticBackend};
use super::routing::{self, Routing};
use super::server::Server;
use super::worker::{Mode, WorkerConfig};
use super::{Config, addresses, logging, worker_section};

/// What stands in for a secret.
const HIDDEN: &str = "\"***\"";

/// `config` as YAML, defaults filled in, secrets redacted. Not meant to be loaded again.
#[must_use]
pub fn describe(config: &Config) -> String {
    let mut page = Page::default();
    if let Some(worker) = &config.worker {
        describe_worker(&mut page, worker);
    }
    describe_server(&mut page, &config.server);
    page.section(0, "admin");
    page.text(1, "bind_address", &config.admin.bind);
    page.secret(1, "token", config.admin.token.is_some());
    describe_routing(&mut page, &config.routing);
    page.section(0, "request");
    page.duration(1, "connect_timeout", config.request.connect_timeout);
    page.duration(1, "first_byte_timeout", config.request.first_byte_timeout);
    page.duration(1, "idle_timeout", config.request.idle_timeout);
    page.plain(1, "max_retries", config.request.max_retries);
    page.size(1, "retry_buffer", config.request.retry_buffer);
    if !config.fallback.is_empty() {
        page.section(0, "fallback");
        page.section(1, "fallback_chains");
        for (model, chain) in &config.fallback {
            page.list(2, &quoted(model), chain);
        }
    }
    if !config.backends.is_empty() {
        page.section(0, "backends");
        config.backends.iter().for_each(|backend| describe_backend(&mut page, backend));
    }
    page.section(0, "api_keys");
    page.word(1, "mode", api_keys::MODES, config.api_keys.mode);
    if !config.api_keys.keys.is_empty() {
        page.section(1, "keys");
        config.api_keys.keys.iter().for_each(|key| describe_key(&mut page, key));
    }
    page.section(0, "health_checks");
    let health = &config.health_checks;
    page.plain(1, "enabled", health.enabled);
    page.duration(1, "interval", health.interval);
    page.duration(1, "timeout", health.timeout);
    page.plain(1, "unhealthy_threshold", health.unhealthy_threshold);
    page.plain(1, "healthy_threshold", health.healthy_threshold);
    page.text(1, "endpoint", &health.endpoint);
    page.duration(1, "warmup_check_interval", health.warmup_check_interval);
    page.duration(1, "max_warmup_duration", health.max_warmup_duration);
    page.section(0, "passive");
    page.plain(1, "failures", config.passive.failures);
    page.duration(1, "ejection", config.passive.ejection);
    page.section(0, "logging");
    page.word(1, "level", logging::LEVELS, config.logging.level);
    page.word(1, "format", logging::FORMATS, config.logging.format);
    if let Some(file) = &config.journal.file {
        page.section(0, "journal");
        page.text(1, "file", file);
        page.size(1, "part_size", config.journal.part_size);
        page.plain(1, "older_parts", config.journal.older_parts);
    }
    page.text
}

fn describe_worker(page: &mut Page, worker: &WorkerConfig) {
    let traffic_key = match &worker.mode {
        // It is no section of the file.
        Mode::Plain => return,
        Mode::Router(router) => {
            page.section(0, "appproxy_router");
            page.plain(1, "enabled", true);
            page.plain(1, "hide_forbidden_models", router.hide_forbidden_models);
            page.duration(1, "max_key_staleness", router.max_key_staleness.unwrap_or_default());
            "traffic_port"
        }
        Mode::Legacy(legacy) => {
            page.section(0, "appproxy");
            page.plain(1, "enabled", true);
            page.secret(1, "jwt_secret", true);
            page.duration(1, "jwt_leeway", legacy.jwt_leeway);
            page.plain(1, "frontend_mode", "wildcard");
            page.text(1, "wildcard_domain", &legacy.wildcard_domain);
            page.list(1, "aggregation_hosts", &legacy.aggregation_hosts);
            if !legacy.model_names.is_empty() {
                page.section(1, "model_names");
                legacy.model_names.iter().for_each(|(place, name)| page.text(2, &quoted(place), name));
            }
            "wildcard_traffic_port"
        }
    };
    page.text(1, "coordinator_url", &worker.coordinator_url);
    page.secret(1, "api_secret", true);
    if let Some(url) = &worker.redis_url {
        page.text(1, "redis_url", addresses::redacted(url.expose()));
    }
    if let Some(file) = &worker.ca_file {
        page.text(1, "ca_file", file);
    }
    page.text(1, "authority", &worker.authority);
    page.text(1, "hostname", &worker.hostname);
    page.plain(1, "api_port", worker.api_port);
    page.plain(1, traffic_key, worker.traffic_port);
    page.plain(1, "tls_advertised", worker.tls_advertised);
    page.duration(1, "heartbeat_period", worker.heartbeat_period);
    page.duration(1, "reconcile_interval", worker.reconcile_interval);
    page.plain(1, "events_enabled", worker.events_enabled);
    page.word(1, "event_dialect", worker_section::DIALECTS, worker.event_dialect);
    page.duration(1, "call_timeout", worker.call_timeout);
    page.duration(1, "pull_timeout", worker.pull_timeout);
    page.duration(1, "max_staleness", worker.max_staleness.unwrap_or_default());
}

fn describe_server(page: &mut Page, server: &Server) {
    page.section(0, "server");
    page.list(1, "bind_address", &server.bind);
    if let Some(mode) = server.socket_mode {
        page.text(1, "socket_mode", format_args!("{mode:04o}"));
    }
    if let Some(tls) = &server.tls {
        page.section(1, "tls");
        page.text(2, "cert_file", &tls.cert_file);
        page.text(2, "key_file", &tls.key_file);
    }
    page.size(1, "max_body_size", server.max_body_size);
    page.size(1, "max_buffered", server.max_buffered);
    page.size(1, "max_header_size", server.max_header_size);
    page.duration(1, "header_timeout", server.header_timeout);
    page.duration(1, "idle_timeout", server.idle_timeout);
    page.plain(1, "max_connections", server.max_connections);
    page.list(1, "trusted_proxies", &server.trusted_proxies);
    page.section(1, "cors");
    page.list(2, "allowed_origins", &server.cors_allowed_origins);
    page.duration(1, "shutdown_timeout", server.shutdown_timeout);
    page.duration(1, "drain_notice", server.drain_notice);
}

fn describe_routing(page: &mut Page, routing: &Routing) {
    page.section(0, "routing");
    page.word(1, "selection_strategy", routing::STRATEGIES, routing.strategy);
    page.word(1, "weights", routing::WEIGHTS, routing.weights);
    page.word(1, "rewrite_model", routing::REWRITES, routing.rewrite_model);
    page.plain(1, "forward_credentials", routing.forward_credentials);
    if let Some(header) = &routing.affinity_header {
        page.text(1, "affinity_header", header);
    }
    if let Some(bound) = routing.max_in_flight {
        page.plain(1, "max_in_flight", bound);
    }
    page.duration(1, "queue_timeout", routing.queue_timeout);
}

fn describe_backend(page: &mut Page, backend: &StaticBackend) {
    page.item(1, "name", quoted(&backend.name));
    page.word(2, "type", backends::TYPES, backend.kind);
    page.text(2, "url", &backend.url);
    page.secret(2, "api_key", backend.api_key.is_some());
    page.plain(2, "weight", backend.weight);
    page.list(2, "models", &backend.models);
    if !backend.aliases.is_empty() {
        page.section(2, "model_configs");
        for (alias, model) in &backend.aliases {
            page.item(3, "id", quoted(model));
            page.list(4, "aliases", core::slice::from_ref(alias));
        }
    }
    if let Some(role) = backend.role {
        page.word(2, "role", backends::ROLES, role);
    }
    if !backend.probed {
        page.section(2, "health_checks");
        page.plain(3, "enabled", false);
    }
    if let Some(retry) = &backend.retry_override {
        page.section(2, "retry_override");
        retry.max_attempts.into_iter().for_each(|value| page.plain(3, "max_attempts", value));
        retry.base_delay.into_iter().for_each(|value| page.duration(3, "base_delay", value));
        retry.max_delay.into_iter().for_each(|value| page.duration(3, "max_delay", value));
        retry.exponential_backoff.into_iter().for_each(|value| page.plain(3, "exponential_backoff", value));
        retry.jitter.into_iter().for_each(|value| page.plain(3, "jitter", value));
    }
}

fn describe_key(page: &mut Page, operator: &OperatorKey) {
    let key = &operator.key;
    page.item(2, "id", quoted(key.key_id.as_str()));
    page.secret(3, "key_hash", true);
    page.list(3, "allowed_models", &key.allowed_models);
    if let Some(limit) = key.rate_limit {
        page.plain(3, "rate_limit", limit);
    }
    if let Some(ips) = &key.allowed_client_ips {
        page.list(3, "allowed_client_ips", ips);
    }
    if let Some(at) = key.expires_at {
        match jiff::Timestamp::from_millisecond(at.0) {
            Ok(at) => page.text(3, "expires_at", at),
            Err(_) => page.plain(3, "expires_at", at.0),
        }
    }
    page.plain(3, "enabled", operator.enabled);
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn line(&mut self, depth: usize, line: core::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{:width$}{line}", "", width = depth * 2);
    }

    fn section(&mut self, depth: usize, name: &str) {
        self.line(depth, format_args!("{name}:"));
    }

    fn item(&mut self, depth: usize, name: &str, value: impl Display) {
        self.line(depth, format_args!("- {name}: {value}"));
    }

    fn plain(&mut self, depth: usize, name: &str, value: impl Display) {
        self.line(depth, format_args!("{name}: {value}"));
    }

    fn text(&mut self, depth: usize, name: &str, value: impl Display) {
        self.plain(depth, name, quoted(&value.to_string()));
    }

    fn secret(&mut self, depth: usize, name: &str, given: bool) {
        if given {
            self.plain(depth, name, HIDDEN);
        }
    }

    fn list<T: Display>(&mut self, depth: usize, name: &str, values: &[T]) {
        let values: Vec<_> = values.iter().map(|value| quoted(&value.to_string())).collect();
        self.plain(depth, name, format_args!("[{}]", values.join(", ")));
    }

    fn word<T: Copy + PartialEq>(&mut self, depth: usize, name: &str, words: &[(&'static str, T)], value: T) {
        let word = words.iter().find(|(_, candidate)| *candidate == value).map_or("-", |(word, _)| *word);
        self.plain(depth, name, word);
    }

    fn duration(&mut self, depth: usize, name: &str, value: Duration) {
        let millis = value.as_millis();
        if millis.is_multiple_of(1000) {
            self.plain(depth, name, format_args!("{}s", millis / 1000));
        } else {
            self.plain(depth, name, format_args!("{millis}ms"));
        }
    }

    fn size(&mut self, depth: usize, name: &str, bytes: u64) {
        let units = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match units.into_iter().find(|(unit, _)| bytes.is_multiple_of(*unit)) {
            Some((unit, suffix)) => self.plain(depth, name, format_args!("{}{suffix}", bytes / unit)),
            None => self.plain(depth, name, format_args!("{bytes}B")),
        }
    }
}

fn quoted(text: &str) -> String {
    format!("{text:?}")
}
