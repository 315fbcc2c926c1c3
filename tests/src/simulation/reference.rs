//! What a node must want to serve after everything it was told: worker-protocol 3.3 once more, in the shortest words.
//!
//! It decides nothing about when to pull; it follows the pulls that the worker makes and says what each comes to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use uuid::Uuid;

use super::broken::{Broken, broken};
use super::state::{Circuit, Key, Publication, State};

/// How long after a removal event requests are still mistrusted (rule 3), in milliseconds.
pub const GUARD: u64 = 5_000;

/// What a bus message says.
#[derive(Debug, Clone, PartialEq)]
pub enum Meaning {
    /// A circuit was created; acked.
    Created(Uuid, Arc<Circuit>),
    /// A circuit's routes changed.
    Routes(Uuid, Arc<Circuit>),
    /// A circuit is gone.
    Gone(Uuid),
    /// A publication changed.
    Model(String, Arc<Publication>),
    /// A publication is gone.
    ModelGone(String),
    /// A key changed.
    KeyNotice(String),
    /// A key is gone.
    KeyGone(String),
    /// Nothing readable.
    Garbage,
}

/// The circuits of an answer.
#[derive(Debug, Default)]
pub struct CircuitsAnswer {
    /// The readable ones.
    pub good: BTreeMap<Uuid, Arc<Circuit>>,
    /// The malformed ones whose id can be read.
    pub malformed: BTreeSet<Uuid>,
    /// Whether there was one whose id cannot be read.
    pub unreadable: bool,
}

/// The router-config of an answer.
#[derive(Debug, Default)]
pub struct ConfigAnswer {
    /// Its revision.
    pub revision: String,
    /// The readable publications.
    pub publications: BTreeMap<String, Arc<Publication>>,
    /// The malformed ones whose name can be read.
    pub malformed: BTreeSet<String>,
    /// Whether there was one whose name cannot be read.
    pub unreadable: bool,
    /// The readable keys.
    pub keys: BTreeMap<String, Arc<Key>>,
    /// The malformed ones whose id can be read.
    pub malformed_keys: BTreeSet<String>,
    /// Whether there was one whose id cannot be read.
    pub unreadable_key: bool,
}

/// What an answer to a request of a pull says.
#[derive(Debug, Clone)]
pub enum Answer {
    /// 200 to circuits.
    Circuits(Arc<CircuitsAnswer>),
    /// 200 to router-config.
    Config(Arc<ConfigAnswer>),
    /// 304 to router-config.
    NotModified,
}

/// Events heard since a request was sent; the last of each entity.
#[derive(Debug, Default, Clone)]
struct Heard {
    circuits: BTreeMap<Uuid, Option<Arc<Circuit>>>,
    publications: BTreeMap<String, Option<Arc<Publication>>>,
    keys_gone: BTreeSet<String>,
}

/// A pull under way.
#[derive(Debug)]
pub struct Flight {
    /// Counts pulls.
    pub number: u64,
    /// When it was sent.
    pub sent: u64,
    /// Whether circuits were asked for, and what was answered.
    pub circuits: Option<Option<Arc<CircuitsAnswer>>>,
    /// Whether router-config was asked for, and what was answered.
    pub config: Option<Option<Answer>>,
    /// The subscription that stood when it was sent.
    pub subscription: Option<u64>,
    /// Asked because the one before looked torn.
    pub confirming: bool,
    /// Whether the input at hand sent it.
    pub fresh: bool,
    /// Whether circuits are everything there is to ask for: the legacy worker.
    pub circuits_only: bool,
    heard: Heard,
}

impl Flight {
    /// A pull that is being sent.
    #[must_use]
    pub fn new(number: u64, sent: u64, subscription: Option<u64>, confirming: bool, circuits_only: bool) -> Self {
        let heard = Heard::default();
        let (circuits, config, fresh) = (None, None, true);
        Self { number, sent, circuits, config, subscription, confirming, fresh, circuits_only, heard }
    }

    /// Whether it asks everything.
    #[must_use]
    pub const fn full(&self) -> bool {
        self.circuits.is_some() && (self.config.is_some() || self.circuits_only)
    }
}

/// What a pull came to.
#[derive(Debug)]
pub struct Pulled {
    /// The pull.
    pub flight: Flight,
    /// A router-config that was applied.
    pub config: Option<Arc<ConfigAnswer>>,
    /// Keys whose removal was applied again on it.
    pub overruled_keys: BTreeSet<String>,
    /// Whether events were applied again on it.
    pub overlapped: bool,
    /// When the last guard ends that overruled it.
    pub guarded_until: Option<u64>,
}

/// The reference of one process.
#[derive(Debug)]
pub struct Reference {
    /// What must be wanted now.
    pub state: State,
    /// Until the first full pull: everything heard.
    early: Option<Heard>,
    /// The pull under way.
    pub flight: Option<Flight>,
    /// Removal events by circuit.
    guards: BTreeMap<Uuid, u64>,
    /// The snapshot that the state is, while it still is one (rule 7).
    pub clean: Option<String>,
    /// When the last whole answer was asked for.
    pub whole_at: u64,
    /// Counts what was heard and applied.
    pub version: u64,
}

impl Default for Reference {
    fn default() -> Self {
        Self::new()
    }
}

impl Reference {
    /// A process that has heard nothing.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: State::default(),
            early: Some(Heard::default()),
            flight: None,
            guards: BTreeMap::new(),
            clean: None,
            whole_at: 0,
            version: 0,
        }
    }

    /// Whether the first full pull has not been applied.
    #[must_use]
    pub const fn early(&self) -> bool {
        self.early.is_some()
    }

    /// An event was heard.
    pub fn hear(&mut self, meaning: &Meaning, now: u64) {
        self.version += 1;
        let mut unused = Heard::default();
        let heard = match (&mut self.early, &mut self.flight) {
            (Some(early), _) => early,
            (None, Some(flight)) => &mut flight.heard,
            (None, None) => &mut unused,
        };
        let state = &mut self.state;
        let changed = match meaning {
            Meaning::Created(id, circuit) | Meaning::Routes(id, circuit) => {
                self.guards.remove(id);
                heard.circuits.insert(*id, Some(circuit.clone()));
                state.circuits.insert(*id, circuit.clone());
                false
            }
            Meaning::Gone(id) => {
                self.guards.insert(*id, now);
                heard.circuits.insert(*id, None);
                state.circuits.remove(id);
                false
            }
            Meaning::Model(name, publication) => {
                heard.publications.insert(name.clone(), Some(publication.clone()));
                state.publications.insert(name.clone(), publication.clone()).as_ref() != Some(publication)
            }
            Meaning::ModelGone(name) => {
                heard.publications.insert(name.clone(), None);
                state.publications.remove(name).is_some()
            }
            Meaning::KeyGone(id) => {
                heard.keys_gone.insert(id.clone());
                state.keys.remove(id).is_some()
            }
            Meaning::KeyNotice(_) | Meaning::Garbage => false,
        };
        if changed {
            self.clean = None;
        }
    }

    /// The pull under way is to be applied.
    ///
    /// # Errors
    /// When it may not be: an answer is missing, or it looks torn and was not asked again.
    pub fn apply(&mut self) -> Result<Pulled, Broken> {
        let Some(flight) = self.flight.take() else {
            return broken("a pull is applied only when one is under way", "none is");
        };
        if matches!(flight.circuits, Some(None)) || matches!(flight.config, Some(None)) {
            return broken("half a pull is never applied", format!("{flight:?}"));
        }
        let heard = self.early.clone().unwrap_or_else(|| flight.heard.clone());
        let mut next = self.state.clone();
        let mut guarded_until = None;
        if let Some(Some(answer)) = &flight.circuits {
            next.circuits = answer.good.clone();
            for (id, removed) in &self.guards {
                if flight.sent <= removed + GUARD && next.circuits.remove(id).is_some() {
                    guarded_until = guarded_until.max(Some(removed + GUARD));
                }
            }
            for (id, known) in &self.state.circuits {
                if answer.unreadable || answer.malformed.contains(id) {
                    next.circuits.entry(*id).or_insert_with(|| known.clone());
                }
            }
            edit(&mut next.circuits, &heard.circuits);
        }
        let config = match &flight.config {
            Some(Some(Answer::Config(config))) => Some(config.clone()),
            _ => None,
        };
        let mut clean = self.clean.clone();
        let mut overruled_keys = BTreeSet::new();
        if let Some(answer) = &config {
            next.publications = answer.publications.clone();
            for (name, known) in &self.state.publications {
                if answer.unreadable || answer.malformed.contains(name) {
                    next.publications.entry(name.clone()).or_insert_with(|| known.clone());
                }
            }
            let mut differs = edit(&mut next.publications, &heard.publications);
            next.keys = answer.keys.clone();
            next.keys_loaded = true;
            for id in &heard.keys_gone {
                differs |= next.keys.remove(id).is_some();
                overruled_keys.insert(id.clone());
            }
            clean = (!differs).then(|| answer.revision.clone());
        }
        let stranded = next.publications.iter().find(|(name, publication)| {
            let before = self.state.publications.get(*name);
            before.is_some_and(|before| self.state.has_circuit(before)) && !next.has_circuit(publication)
        });
        if let Some((name, _)) = stranded
            && !flight.confirming
        {
            return broken("a pull that strands a publication is asked again as a full one", name.clone());
        }
        if config.is_some() {
            self.whole_at = flight.sent;
        }
        if flight.full() {
            self.early = None;
        }
        self.version += 1;
        let overlapped = !heard.circuits.is_empty() || !heard.publications.is_empty() || !heard.keys_gone.is_empty();
        (self.state, self.clean) = (next, clean);
        Ok(Pulled { flight, config, overruled_keys, overlapped, guarded_until })
    }
}

/// Applies events to an answer; whether that changed it.
fn edit<K: Ord + Clone, V: Clone + PartialEq>(target: &mut BTreeMap<K, V>, heard: &BTreeMap<K, Option<V>>) -> bool {
    let mut changed = false;
    for (key, value) in heard {
        changed |= match value {
            Some(value) => target.insert(key.clone(), value.clone()).as_ref() != Some(value),
            None => target.remove(key).is_some(),
        };
    }
    changed
}
