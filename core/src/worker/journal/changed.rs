//! Answers as differences: in a large fleet two pulls differ in a few elements.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};

use super::super::answers::Answer;
use crate::wire::malformed::Elements;

/// What an answer does not list any more, by its ids. (What it lists anew stands in the answer itself.)
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Gone {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    circuits: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    models: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keys: Vec<String>,
}

/// What the last answer listed, by hashes of its elements.
#[derive(Debug, Default)]
pub(super) struct Listed {
    circuits: Hashes,
    models: Hashes,
    keys: Hashes,
}

type Hashes = BTreeMap<String, [u8; 32]>;

impl Listed {
    /// Leaves in `answer` what is new or differs, and says what is gone.
    pub(super) fn reduce(&mut self, answer: &mut Answer) -> serde_json::Result<Gone> {
        let mut gone = Gone::default();
        match answer {
            Answer::Registration(_) => {}
            Answer::Circuits(circuits) => {
                gone.circuits = reduce(&mut self.circuits, circuits, |circuit| circuit.id.to_string())?;
            }
            Answer::Config(snapshot) => {
                gone.models = reduce(&mut self.models, &mut snapshot.models, |model| model.model.to_string())?;
                gone.keys = reduce(&mut self.keys, &mut snapshot.keys, |key| key.key_id.to_string())?;
            }
        }
        Ok(gone)
    }
}

fn reduce<T: Serialize>(
    before: &mut Hashes,
    list: &mut Elements<T>,
    id_of: impl Fn(&T) -> String,
) -> serde_json::Result<Vec<String>> {
    let mut now = Hashes::new();
    let mut changed = Vec::new();
    for element in core::mem::take(&mut list.good) {
        let (id, hash) = (id_of(&element), Sha256::digest(serde_json::to_vec(&element)?).into());
        if before.get(&id) != Some(&hash) {
            changed.push(element);
        }
        now.insert(id, hash);
    }
    list.good = changed;
    let gone = before.keys().filter(|id| !now.contains_key(*id)).cloned().collect();
    *before = now;
    Ok(gone)
}

/// Puts back what [`Listed::reduce`] took out. `false`: these are answers to different calls.
pub(super) fn restore(before: Answer, answer: &mut Answer, gone: &Gone) -> bool {
    match (before, answer) {
        (Answer::Circuits(before), Answer::Circuits(circuits)) => {
            put_back(before, circuits, &gone.circuits, |circuit| circuit.id.to_string());
        }
        (Answer::Config(before), Answer::Config(snapshot)) => {
            put_back(before.models, &mut snapshot.models, &gone.models, |model| model.model.to_string());
            put_back(before.keys, &mut snapshot.keys, &gone.keys, |key| key.key_id.to_string());
        }
        _ => return false,
    }
    true
}

fn put_back<T>(before: Elements<T>, list: &mut Elements<T>, gone: &[String], id_of: impl Fn(&T) -> String) {
    let stale: BTreeSet<String> = list.good.iter().map(&id_of).chain(gone.iter().cloned()).collect();
    // Of no list the order counts.
    list.good.extend(before.good.into_iter().filter(|element| !stale.contains(&id_of(element))));
}
