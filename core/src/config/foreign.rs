//! Features of Continuum Router that do not exist here, so that its users' files load (worker-protocol 9). Each is
//! accepted with a warning. Nothing in a worker section is ever listed.

/// Key (as in [`super::keys::KEYS`]; everything below it included) and what to know.
const FOREIGN: &[(&str, &str)] = &[
    ("acp", "agents are not spoken to over ACP"),
    ("admin.auth", "the admin listener has one `admin.token`"),
    ("admin.cors", "the admin listener grants no pre-flights"),
    ("api_keys.api_keys_file", "keys stand under `api_keys.keys`, or come from the coordinator"),
    ("api_keys.keys[].description", "keys have an id only"),
    ("api_keys.keys[].name", "keys have an id only"),
    ("api_keys.keys[].organization_id", "keys have an id only"),
    ("api_keys.keys[].scopes", "a key may use models and nothing else"),
    ("api_keys.keys[].user_id", "keys have an id only"),
    ("api_keys.persistence_file", "keys come from this file and, in ROUTER mode, from the coordinator at every start"),
    ("backends[].headers", "no headers are added for a backend"),
    ("backends[].model_configs[].metadata", "models have names only"),
    ("backends[].org_id", "no organisation header is sent"),
    ("backends[].owned_by", "model lists say nothing of owners"),
    ("cache", "model lists are not cached by time"),
    ("circuit_breaker", "replicas are quarantined by `passive`"),
    ("fallback.fallback_policy", "a chain is taken when a model has no candidate left, and only then"),
    ("fallback.model_settings", "a chain is taken when a model has no candidate left, and only then"),
    ("files", "this version has no files API"),
    ("global_prompts", "requests are not rewritten"),
    ("guardrails", "requests are not inspected"),
    ("kv_index", "this version has no KV index"),
    ("logging.enable_colors", "lines have no colours"),
    ("mcp", "tools are not served"),
    ("metrics", "metrics are always on, at `admin.bind_address`"),
    ("model_aliases", "aliases stand under `backends[].model_configs`"),
    ("model_metadata_file", "models have names only"),
    ("prompts", "requests are not rewritten"),
    ("rate_limiting", "rate limits exist for keys only"),
    ("rate_limits", "rate limits exist for keys only"),
    ("request.retry", "see `request.max_retries`"),
    ("request.timeout", "see `request.first_byte_timeout` and `request.idle_timeout`"),
    ("response_cache", "this version has no response cache"),
    ("retry", "see `request.max_retries`"),
    ("server.connection_pool_size", "idle connections are bounded by time"),
    ("server.workers", "one thread for each processor"),
    ("smart_routing", "see `selection_strategy`"),
    ("timeouts", "see `request`"),
    ("tracing", "spans are not exported"),
    ("webui", "the status page is at `admin.bind_address`"),
];

/// All of them, sorted.
pub(super) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    FOREIGN.iter().copied()
}

/// Why this key has no effect; `None` when it is not one of those.
pub(super) fn reason(pattern: &str) -> Option<&'static str> {
    FOREIGN.iter().find(|(key, _)| *key == pattern).map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::super::keys::{self, KEYS};
    use super::*;

    #[test]
    fn the_table_is_sorted_and_apart_from_the_keys() {
        assert!(FOREIGN.is_sorted_by_key(|(key, _)| *key));
        for (key, _) in FOREIGN {
            assert_eq!(keys::place(key), keys::Place::Unknown, "{key} is a key of ours");
            assert!(!key.starts_with("appproxy"), "{key}: nothing unknown is accepted in a worker section");
            assert!(!KEYS.iter().any(|doc| doc.key.starts_with(&format!("{key}."))));
        }
    }
}
