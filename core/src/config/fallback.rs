//! `fallback`: chains of models, without cycles (data-plane 3.6).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::forms;
use super::problem::Position;
use super::reader::{Reader, Section};
use super::routing::FallbackChains;

/// Reads `fallback`; no chains when it is not enabled.
pub(super) fn read(reader: &mut Reader<'_>, root: &Section<'_>) -> FallbackChains {
    let section = reader.section(root, "fallback");
    let enabled = reader.value(&section, "enabled", forms::boolean).unwrap_or(true);
    let mut chains = FallbackChains::new();
    let mut places: BTreeMap<Arc<str>, (Position, String)> = BTreeMap::new();
    for (entry, key) in reader.table(&section, "fallback_chains") {
        let model: Arc<str> = entry.key.as_str().into();
        let mut chain: Vec<Arc<str>> = Vec::new();
        for scalar in reader.scalars(&entry.node, &key).unwrap_or_default() {
            let Some(name) = reader.formed(&scalar, forms::text) else { continue };
            if chain.iter().any(|earlier| **earlier == *name) {
                let wrong = format!("{} is in this chain already", scalar.quoted());
                reader.problem(scalar.at, scalar.key, wrong, "name each model once");
            } else {
                chain.push(name.into());
            }
        }
        places.entry(Arc::clone(&model)).or_insert((entry.at, key));
        chains.entry(model).or_insert(chain);
    }
    // Every model on a cycle is reported once, at the first of them.
    let mut reported: BTreeSet<Arc<str>> = BTreeSet::new();
    for (model, (at, key)) in &places {
        let Some(cycle) = cycle_from(model, &chains) else { continue };
        if cycle.iter().any(|on_it| reported.contains(on_it)) {
            continue;
        }
        let shown = cycle.iter().chain(cycle.first()).map(AsRef::as_ref).collect::<Vec<&str>>().join(" -> ");
        reader.problem(*at, key, format!("the chains lead in a circle ({shown})"), "take one of these models out");
        reported.extend(cycle);
    }
    reader.finish(&section);
    if enabled { chains } else { FallbackChains::new() }
}

/// The shortest way from `start` back to itself, without the return.
fn cycle_from(start: &Arc<str>, chains: &FallbackChains) -> Option<Vec<Arc<str>>> {
    let mut came_from: BTreeMap<&Arc<str>, &Arc<str>> = BTreeMap::new();
    let mut queue = std::collections::VecDeque::from([start]);
    while let Some(model) = queue.pop_front() {
        for next in chains.get(model).into_iter().flatten() {
            if next == start {
                let mut way = vec![Arc::clone(model)];
                while let Some(before) = way.last().and_then(|last| came_from.get(last)) {
                    way.push(Arc::clone(before));
                }
                way.reverse();
                return Some(way);
            }
            if !came_from.contains_key(next) {
                came_from.insert(next, model);
                queue.push_back(next);
            }
        }
    }
    None
}
