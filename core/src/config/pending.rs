//! What this version reads and checks but does not act on yet. A key leaves this table with the change that makes it
//! count; `run` and `check` name every one that a file sets.

use super::tree::{Node, Value};

/// When a key is worth naming.
enum When {
    /// Whenever it is given.
    Given,
    /// Unless it has this value.
    Not(&'static str),
}

/// Key (as in [`super::keys::KEYS`]; everything below it included), when, and what happens instead.
const PENDING: &[(&str, When, &str)] = &[
    ("backends[].retry_override", When::Given, "retry settings of one backend are not in effect yet"),
    ("backends[].role", When::Given, "disaggregated serving is not in effect yet; the backend serves everything"),
    (
        "fallback.fallback_chains",
        When::Given,
        "fallback chains are not in effect yet; a model without candidates is 503",
    ),
    ("journal.file", When::Given, "nothing is recorded yet"),
    ("request.max_retries", When::Given, "further candidates are tried after a failed connect only"),
    ("request.retry_buffer", When::Given, "further candidates are tried after a failed connect only"),
    ("routing.affinity_header", When::Given, "clients are not kept with a replica yet"),
    ("routing.max_in_flight", When::Given, "requests to a replica are not bounded yet"),
    ("routing.queue_timeout", When::Given, "requests do not queue yet"),
    ("routing.selection_strategy", When::Not("weighted"), "`weighted` is used until the other strategies are built"),
    ("selection_strategy", When::Not("weighted"), "`weighted` is used until the other strategies are built"),
    ("server.cors", When::Given, "pre-flights are not answered yet"),
    ("server.tls", When::Given, "listeners have no TLS yet: what clients send, keys included, is not encrypted"),
];

/// Why this key with this value has no effect yet; `None` when it has.
pub(super) fn reason(pattern: &str, node: &Node) -> Option<&'static str> {
    let (_, when, reason) = PENDING.iter().find(|(key, _, _)| *key == pattern)?;
    let worth_naming = match (&node.value, when) {
        (Value::Null, _) => false,
        (_, When::Given) => true,
        (Value::Scalar(text), When::Not(value)) => text != value,
        (Value::List(_) | Value::Map(_), When::Not(_)) => true,
    };
    worth_naming.then_some(*reason)
}

#[cfg(test)]
mod tests {
    use super::super::keys;
    use super::*;

    #[test]
    fn the_table_is_sorted_and_names_keys_of_ours() {
        assert!(PENDING.is_sorted_by_key(|(key, _, _)| *key));
        for (key, _, _) in PENDING {
            assert_eq!(keys::place(key), keys::Place::Known, "{key}");
        }
    }
}
