//! Every key of the file, in one table: what the reader accepts, what the reference documents, what a schema would say.

use std::collections::BTreeSet;

/// What a value looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text on one line.
    Text,
    /// Text that is never shown.
    Secret,
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Number,
    /// `10s`, `500ms`, `1m`.
    Duration,
    /// `64KiB`, `100MiB`, `1GiB`.
    Size,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of texts; a single one may stand for a list of one.
    List,
    /// Names of the operator's choosing, each with a text or a list of texts.
    Table,
}

/// What it takes for a changed value to count (data-plane 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applies {
    /// Reloading the file.
    Reload,
    /// Starting the worker anew.
    Restart,
}

/// One key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyDoc {
    /// The whole key; `[]` stands for each entry of a list.
    pub key: &'static str,
    /// What its value looks like.
    pub kind: Kind,
    /// What counts when it is not given; `required`, or `-` for nothing.
    pub default: &'static str,
    /// What it is for.
    pub meaning: &'static str,
    /// When a change counts.
    pub applies: Applies,
}

/// Whether the table has a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is a key, or a section or list that holds keys.
    Known,
    /// It is not.
    Unknown,
}

/// Spellings of Continuum Router for keys of ours.
pub(super) const ALIASES: &[(&str, &str)] = &[("api_keys.api_keys", "api_keys.keys")];

/// The table's spelling of `pattern`.
pub(super) fn canonical(pattern: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == pattern).map_or(pattern, |(_, key)| key)
}

/// Where `pattern` stands in the table.
pub(super) fn place(pattern: &str) -> Place {
    let pattern = canonical(pattern);
    let known = KEYS.iter().any(|doc| {
        doc.key
            .strip_prefix(pattern)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || rest.starts_with("[]."))
    });
    if known { Place::Known } else { Place::Unknown }
}

/// The names that may stand in the section `pattern`.
pub(super) fn names_in(pattern: &str) -> BTreeSet<&'static str> {
    let inside = |doc: &KeyDoc| {
        if pattern.is_empty() { Some(doc.key) } else { doc.key.strip_prefix(pattern)?.strip_prefix('.') }
    };
    KEYS.iter().filter_map(inside).filter_map(|rest| rest.split(['.', '[']).next()).collect()
}

const fn live(key: &'static str, kind: Kind, default: &'static str, meaning: &'static str) -> KeyDoc {
    KeyDoc { key, kind, default, meaning, applies: Applies::Reload }
}

const fn fixed(key: &'static str, kind: Kind, default: &'static str, meaning: &'static str) -> KeyDoc {
    KeyDoc { key, kind, default, meaning, applies: Applies::Restart }
}

const STRATEGIES: Kind = Kind::Choice(&[
    "weighted",
    "round_robin",
    "random",
    "least_latency",
    "least_loaded",
    "consistent_hash",
    "prefix_aware",
]);

/// Every key, section by section.
#[rustfmt::skip]
pub const KEYS: &[KeyDoc] = &[
    fixed("server.bind_address", Kind::List, "0.0.0.0:8080", "where the data plane listens: host:port, [v6]:port or unix:/path"),
    fixed("server.socket_mode", Kind::Number, "-", "permission bits of unix sockets, in octal"),
    fixed("server.tls.cert_file", Kind::Text, "-", "PEM certificate chain of the TCP listeners; needs key_file"),
    fixed("server.tls.key_file", Kind::Text, "-", "PEM private key; needs cert_file"),
    live("server.max_body_size", Kind::Size, "100MiB", "largest request body; above it 413"),
    live("server.max_buffered", Kind::Size, "1GiB", "bodies held in memory over all requests; above it 503 overloaded"),
    live("server.max_header_size", Kind::Size, "64KiB", "largest request head"),
    live("server.header_timeout", Kind::Duration, "10s", "time for a request head to arrive"),
    live("server.idle_timeout", Kind::Duration, "75s", "time a connection may stay without a request"),
    live("server.max_connections", Kind::Number, "10000", "connections at once; above it they wait, then 503"),
    live("server.trusted_proxies", Kind::List, "[]", "addresses, networks or `unix` whose X-Forwarded-* are believed"),
    live("server.cors.allowed_origins", Kind::List, "[], in legacy mode [\"*\"]", "origins whose pre-flights are granted"),
    live("server.shutdown_timeout", Kind::Duration, "30s", "time for running requests to end at shutdown"),
    live("server.drain_notice", Kind::Duration, "2s", "time between /readyz turning 503 and the listeners closing"),
    fixed("admin.bind_address", Kind::Text, "127.0.0.1:9464", "metrics, status page, explain"),
    live("admin.token", Kind::Secret, "-", "bearer token of the admin listener; required when it is not on loopback"),
    live("selection_strategy", STRATEGIES, "weighted", "how a replica is chosen; the same as routing.selection_strategy"),
    live("routing.selection_strategy", STRATEGIES, "weighted", "how a replica is chosen"),
    live("routing.weights", Kind::Choice(&["normalised", "literal"]), "normalised", "exact shares, or the documented integer"),
    live("routing.rewrite_model", Kind::Choice(&["auto", "never"]), "auto", "whether `model` becomes the name that the replica lists"),
    live("routing.forward_credentials", Kind::Boolean, "false", "legacy mode: the client's credential goes on to the replica"),
    live("routing.affinity_header", Kind::Text, "-", "request header that keeps a client with its replica"),
    live("routing.max_in_flight", Kind::Number, "-", "requests at once to one replica"),
    live("routing.queue_timeout", Kind::Duration, "0s", "time a request waits for a replica below max_in_flight"),
    live("request.connect_timeout", Kind::Duration, "5s", "time to connect to a replica"),
    live("request.first_byte_timeout", Kind::Duration, "300s", "time to the first byte of its answer; over it 504"),
    live("request.idle_timeout", Kind::Duration, "300s", "time between two chunks of an answer"),
    live("request.max_retries", Kind::Number, "2", "further candidates after the first, while the retry budget lasts: 20 % of the node's requests of the last 10 s, at least 10"),
    live("request.retry_buffer", Kind::Size, "1MiB", "bodies up to this are kept for another candidate"),
    live("fallback.enabled", Kind::Boolean, "true", "false: fallback_chains are not used"),
    live("fallback.fallback_chains", Kind::Table, "{}", "for a model the models to try when it has no candidate left"),
    live("backends[].name", Kind::Text, "required", "unique; not beginning with appproxy-"),
    live("backends[].type", Kind::Choice(&["generic", "vllm", "openai", "anthropic", "gemini"]), "generic", "what it speaks"),
    live("backends[].url", Kind::Text, "required, but for openai, anthropic, gemini", "its http or https address"),
    live("backends[].api_key", Kind::Secret, "-", "replaces the client's credential"),
    live("backends[].weight", Kind::Number, "1", "its weight among the backends of a model, 0 to 1000"),
    live("backends[].models", Kind::List, "those it lists itself", "the names it serves; beside a worker section to the keys of api_keys.keys and in fallback.fallback_chains only"),
    live("backends[].model_configs[].id", Kind::Text, "required", "a name it serves, also when not in `models`"),
    live("backends[].model_configs[].aliases", Kind::List, "[]", "further names for that one"),
    live("backends[].role", Kind::Choice(&["prefill", "decode"]), "-", "its part in disaggregated serving"),
    live("backends[].health_checks.enabled", Kind::Boolean, "true", "whether this one is probed"),
    live("backends[].retry_override.max_attempts", Kind::Number, "-", "attempts in all for this backend"),
    live("backends[].retry_override.base_delay", Kind::Duration, "-", "first pause"),
    live("backends[].retry_override.max_delay", Kind::Duration, "-", "longest pause"),
    live("backends[].retry_override.exponential_backoff", Kind::Boolean, "-", "whether pauses double"),
    live("backends[].retry_override.jitter", Kind::Boolean, "-", "whether pauses vary"),
    live("api_keys.mode", Kind::Choice(&["blocking", "permissive"]), "permissive without the section, blocking with it", "whether a plain router's requests need a key; always blocking with a worker section"),
    live("api_keys.keys[].id", Kind::Text, "required", "unique; shown in logs"),
    live("api_keys.keys[].key", Kind::Secret, "this or key_hash", "the key itself; only its hash is kept"),
    live("api_keys.keys[].key_hash", Kind::Secret, "this or key", "SHA-256 of the key, 64 hex digits"),
    live("api_keys.keys[].allowed_models", Kind::List, "[]", "names it may use; empty: all"),
    live("api_keys.keys[].rate_limit", Kind::Number, "-", "requests a minute; 0 blocks the key"),
    live("api_keys.keys[].allowed_client_ips", Kind::List, "[]", "addresses or networks it may be used from; empty: anywhere"),
    live("api_keys.keys[].expires_at", Kind::Text, "-", "RFC 3339 time from which it is refused"),
    live("api_keys.keys[].enabled", Kind::Boolean, "true", "false: the key is refused"),
    live("health_checks.enabled", Kind::Boolean, "true", "whether replicas are probed"),
    live("health_checks.interval", Kind::Duration, "30s", "time between two probes"),
    live("health_checks.timeout", Kind::Duration, "10s", "time a probe may take"),
    live("health_checks.unhealthy_threshold", Kind::Number, "3", "failures in a row that put a replica down"),
    live("health_checks.healthy_threshold", Kind::Number, "2", "successes in a row that bring it back"),
    live("health_checks.endpoint", Kind::Text, "/v1/models", "the path that is asked"),
    live("health_checks.warmup_check_interval", Kind::Duration, "1s", "time between probes of a replica that warms up"),
    live("health_checks.max_warmup_duration", Kind::Duration, "300s", "longest time to warm up"),
    live("passive.failures", Kind::Number, "3", "failures of live traffic in a row that quarantine a replica"),
    live("passive.ejection", Kind::Duration, "10s", "first time in quarantine; grows to 300s"),
    live("logging.level", Kind::Choice(&["off", "error", "warn", "info", "debug", "trace"]), "info", "what is logged"),
    live("logging.format", Kind::Choice(&["text", "json"]), "text", "how a line looks"),
    fixed("journal.file", Kind::Text, "-", "where control-plane inputs are recorded, without secrets"),
    fixed("journal.part_size", Kind::Size, "64MiB", "inputs recorded in one part; then another is begun"),
    fixed("journal.older_parts", Kind::Number, "4", "parts kept beside the one being written, the newest as FILE.1"),
    fixed("appproxy_router.enabled", Kind::Boolean, "required", "whether this process is a ROUTER worker"),
    fixed("appproxy_router.coordinator_url", Kind::Text, "required", "http or https address of the coordinator"),
    fixed("appproxy_router.api_secret", Kind::Secret, "required", "X-BackendAI-Token, the same in the whole cluster"),
    fixed("appproxy_router.redis_url", Kind::Secret, "required unless events_enabled is false", "the bus: redis:// or rediss://, with the database of the stream role"),
    fixed("appproxy_router.ca_file", Kind::Text, "-", "PEM file with further roots for https:// and rediss://"),
    fixed("appproxy_router.authority", Kind::Text, "required", "the worker name that all nodes share"),
    fixed("appproxy_router.hostname", Kind::Text, "required", "the public name; of the load balancer where there is one"),
    fixed("appproxy_router.api_port", Kind::Number, "port of the first TCP bind_address", "the port of this worker's socket"),
    fixed("appproxy_router.traffic_port", Kind::Number, "api_port", "the public port; 0 is api_port"),
    fixed("appproxy_router.tls_advertised", Kind::Boolean, "false", "whether clients are told to use https"),
    fixed("appproxy_router.heartbeat_period", Kind::Duration, "10s", "time between heartbeats, 100ms at the least"),
    fixed("appproxy_router.reconcile_interval", Kind::Duration, "15s", "time between pulls, 100ms at the least"),
    fixed("appproxy_router.events_enabled", Kind::Boolean, "true", "whether the bus is used; pulls alone are enough"),
    fixed("appproxy_router.event_dialect", Kind::Choice(&["both", "args", "payload"]), "both", "which bodies our acks carry"),
    fixed("appproxy_router.call_timeout", Kind::Duration, "10s", "deadline of PUT, PATCH and DELETE"),
    fixed("appproxy_router.pull_timeout", Kind::Duration, "30s", "deadline of each GET"),
    fixed("appproxy_router.max_staleness", Kind::Duration, "0", "past it without a pull /readyz answers 503; 0 is no bound"),
    fixed("appproxy_router.max_key_staleness", Kind::Duration, "0", "past it without a pull model API keys get 503; 0 is no bound"),
    fixed("appproxy_router.hide_forbidden_models", Kind::Boolean, "false", "a published model that a key may not use looks unpublished"),
    fixed("appproxy.enabled", Kind::Boolean, "required", "whether this process is a legacy wildcard worker"),
    fixed("appproxy.coordinator_url", Kind::Text, "required", "http or https address of the coordinator"),
    fixed("appproxy.api_secret", Kind::Secret, "required", "X-BackendAI-Token, the same in the whole cluster"),
    fixed("appproxy.jwt_secret", Kind::Secret, "required", "verifies access tokens (HS256)"),
    fixed("appproxy.jwt_leeway", Kind::Duration, "60s", "tolerance of exp and nbf"),
    fixed("appproxy.redis_url", Kind::Secret, "required unless events_enabled is false", "the bus: redis:// or rediss://, with the database of the stream role"),
    fixed("appproxy.ca_file", Kind::Text, "-", "PEM file with further roots for https:// and rediss://"),
    fixed("appproxy.authority", Kind::Text, "required", "the worker name that all nodes share"),
    fixed("appproxy.hostname", Kind::Text, "required", "the router's own name"),
    fixed("appproxy.frontend_mode", Kind::Choice(&["wildcard"]), "wildcard", "port is not supported"),
    fixed("appproxy.wildcard_domain", Kind::Text, "required", "with its leading dot: .models.example.com"),
    fixed("appproxy.aggregation_hosts", Kind::List, "[]", "hosts beside the apex that serve all circuits by model name"),
    fixed("appproxy.wildcard_traffic_port", Kind::Number, "api_port", "the public port; 0 is api_port"),
    fixed("appproxy.api_port", Kind::Number, "port of the first TCP bind_address", "the port of this worker's socket"),
    fixed("appproxy.tls_advertised", Kind::Boolean, "false", "whether clients are told to use https"),
    fixed("appproxy.heartbeat_period", Kind::Duration, "10s", "time between heartbeats, 100ms at the least"),
    fixed("appproxy.reconcile_interval", Kind::Duration, "15s", "time between pulls, 100ms at the least"),
    fixed("appproxy.events_enabled", Kind::Boolean, "true", "whether the bus is used"),
    fixed("appproxy.event_dialect", Kind::Choice(&["both", "args", "payload"]), "both", "which bodies our acks carry"),
    fixed("appproxy.call_timeout", Kind::Duration, "10s", "deadline of PUT, PATCH and DELETE"),
    fixed("appproxy.pull_timeout", Kind::Duration, "30s", "deadline of each GET"),
    fixed("appproxy.max_staleness", Kind::Duration, "0", "past it without a pull /readyz answers 503; 0 is no bound"),
    fixed("appproxy.model_names", Kind::Table, "{}", "model names given, not asked for, by endpoint id or sub-domain"),
];
