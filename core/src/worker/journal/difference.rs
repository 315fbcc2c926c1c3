//! What changed between two points of a journal.

use serde_json::Value;
use std::collections::BTreeMap;

use super::super::Worker;
use super::replay::Step;
use super::shown;

/// Collects what changes from one point on.
#[derive(Debug)]
pub struct Difference {
    from: u64,
    before: BTreeMap<String, Value>,
    /// Which inputs created or removed which backends, in their order.
    backends: Vec<String>,
}

/// The lists of a state, and what names an element of each.
const LISTS: [(&str, &str, &str); 4] = [
    ("circuits", "circuit", "id"),
    ("publications", "publication", "model"),
    ("keys", "key", "key_id"),
    ("backends", "backend", "name"),
];

impl Difference {
    /// From here on: `worker` as it is after input `from`.
    #[must_use]
    pub fn from(worker: &Worker, from: u64) -> Self {
        Self { from, before: entities(worker), backends: Vec::new() }
    }

    /// Takes note of what an input brought about.
    pub fn step(&mut self, step: &Step) {
        for changes in &step.changes {
            let kinds = [("+", &changes.added), ("~", &changes.updated), ("-", &changes.removed)];
            for (sign, name) in kinds.iter().flat_map(|(sign, names)| names.iter().map(move |name| (sign, name))) {
                self.backends.push(format!("input {} ({}): {sign} backend {name}", step.number, step.input));
            }
        }
    }

    /// What differs in `worker`, as it is after input `to`; in words, one line each.
    #[must_use]
    pub fn to(&self, worker: &Worker, to: u64) -> String {
        let after = entities(worker);
        let mut lines = vec![format!("between input {} and input {to}:", self.from)];
        for (name, new) in &after {
            match self.before.get(name) {
                None => lines.push(format!("+ {name} {new}")),
                Some(old) if old != new => lines.push(format!("~ {name} {old}\n    now {new}")),
                Some(_) => {}
            }
        }
        let gone = self.before.iter().filter(|(name, _)| !after.contains_key(*name));
        lines.extend(gone.map(|(name, old)| format!("- {name} {old}")));
        if lines.len() == 1 {
            lines.push("nothing differs".to_owned());
        }
        lines.extend(self.backends.iter().cloned());
        lines.join("\n")
    }
}

/// Everything a state holds, by a name that sorts well.
fn entities(worker: &Worker) -> BTreeMap<String, Value> {
    let mut state = shown::state(worker);
    let mut entities = BTreeMap::new();
    for (list, kind, id) in LISTS {
        let Some(Value::Array(elements)) = state.get_mut(list).map(Value::take) else { continue };
        for element in elements {
            let name = element.get(id).and_then(Value::as_str).unwrap_or_default().to_owned();
            entities.insert(format!("{kind} {name}"), element);
        }
    }
    for field in ["lifecycle", "digest"] {
        entities.insert(field.to_owned(), state.get_mut(field).map(Value::take).unwrap_or_default());
    }
    entities
}
