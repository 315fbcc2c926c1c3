//! What this version reads and checks but does not act on yet. A key leaves this table with the change that makes it
//! count; `run` and `check` name every one that a file sets.

use super::tree::{Node, Value};

/// Key (as in [`super::keys::KEYS`]; everything below it included), and what happens instead.
const PENDING: &[(&str, &str)] =
    &[("backends[].role", "disaggregated serving is not in effect yet; the backend serves everything")];

/// Why this key has no effect yet; `None` when it has.
pub(super) fn reason(pattern: &str, node: &Node) -> Option<&'static str> {
    let (_, reason) = PENDING.iter().find(|(key, _)| *key == pattern)?;
    (!matches!(node.value, Value::Null)).then_some(*reason)
}

#[cfg(test)]
mod tests {
    use super::super::keys;
    use super::*;

    #[test]
    fn the_table_is_sorted_and_names_keys_of_ours() {
        assert!(PENDING.is_sorted_by_key(|(key, _)| *key));
        for (key, _) in PENDING {
            assert_eq!(keys::place(key), keys::Place::Known, "{key}");
        }
    }
}
