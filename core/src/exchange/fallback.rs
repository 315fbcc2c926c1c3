//! Which models stand in for one whose candidates are spent, in order (data-plane 3.6).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::config::routing::FallbackChains;

/// For each model the models to try after it. A stand-in is treated as if it had been asked for, so its own chain comes
/// right after it; nothing stands in one list twice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fallbacks {
    orders: BTreeMap<Arc<str>, Arc<[Arc<str>]>>,
}

impl Fallbacks {
    /// The orders that these chains give. Chains that lead in a circle, which the configuration refuses, end where they
    /// would begin again.
    #[must_use]
    pub fn new(chains: &FallbackChains) -> Self {
        let orders = chains.keys().map(|model| (model.clone(), order(model, chains)));
        Self { orders: orders.filter(|(_, order)| !order.is_empty()).collect() }
    }

    /// What to try after `model`.
    #[must_use]
    pub fn after(&self, model: &str) -> Option<&Arc<[Arc<str>]>> {
        self.orders.get(model)
    }

    /// Whether there are no chains.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }
}

/// Depth first, without recursion: a chain may be as long as the file.
fn order(model: &Arc<str>, chains: &FallbackChains) -> Arc<[Arc<str>]> {
    let mut seen: BTreeSet<&str> = BTreeSet::from([&**model]);
    let mut order: Vec<Arc<str>> = Vec::new();
    let chain = |model: &str| chains.get(model).map(Vec::as_slice).unwrap_or_default();
    let mut waiting: Vec<&Arc<str>> = chain(model).iter().rev().collect();
    while let Some(next) = waiting.pop() {
        if seen.insert(next) {
            order.push(next.clone());
            waiting.extend(chain(next).iter().rev());
        }
    }
    order.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(chains: &[(&str, &[&str])]) -> Fallbacks {
        let chain = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect();
        Fallbacks::new(&chains.iter().map(|(model, names)| (Arc::from(*model), chain(names))).collect())
    }

    fn after(fallbacks: &Fallbacks, model: &str) -> Vec<String> {
        fallbacks.after(model).iter().flat_map(|order| order.iter()).map(ToString::to_string).collect()
    }

    #[test]
    fn r3_a_stand_ins_own_chain_comes_right_after_it() {
        let fallbacks = orders(&[("a", &["b", "c"]), ("b", &["d", "c"]), ("x", &[])]);
        assert_eq!(after(&fallbacks, "a"), ["b", "d", "c"]);
        assert_eq!(after(&fallbacks, "b"), ["d", "c"]);
        assert!(fallbacks.after("c").is_none() && fallbacks.after("x").is_none());
    }

    #[test]
    fn r3_circles_end() {
        let fallbacks = orders(&[("a", &["b", "a"]), ("b", &["a", "b"])]);
        assert_eq!(after(&fallbacks, "a"), ["b"]);
        assert_eq!(after(&fallbacks, "b"), ["a"]);
    }
}
