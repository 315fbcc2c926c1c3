//! A coordinator of two circuits, two publications and two keys, and what it says.

use std::collections::BTreeMap;

use appproxy_core::wire::envelope;
use appproxy_core::wire::event::{BusEvent, Decoded};
use appproxy_fixtures::ids::named;
use appproxy_fixtures::wire::{Circuit, Dialect, Publication, api_key, circuit, event, publication, route, snapshot};
use serde_json::json;
use uuid::Uuid;

pub(crate) const AUTHORITY: &str = "continuum-router-1";

/// Absent, or in one of two versions.
pub(crate) type Version = u8;
pub(crate) const ABSENT: Version = 0;
const FIRST: Version = 1;

/// What the coordinator's database holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct State {
    pub(crate) circuits: [Version; 2],
    pub(crate) models: [Version; 2],
    pub(crate) keys: [Version; 2],
    /// The circuit whose removal has been announced and is not committed yet.
    pub(crate) announced: Option<usize>,
}

impl State {
    /// One of each is there, one is not: everything can be created, changed and removed by one change.
    pub(crate) const BEGINNING: Self =
        Self { circuits: [FIRST, ABSENT], models: [FIRST, ABSENT], keys: [FIRST, ABSENT], announced: None };

    /// Every change that is one.
    pub(crate) fn changes(self) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.announced.is_some() {
            return changes;
        }
        for i in 0..2 {
            match self.circuits[i] {
                ABSENT => changes.push(Change::Create(i)),
                _ => changes.extend([Change::Reroute(i), Change::RemoveCircuit(i), Change::AnnounceRemoval(i)]),
            }
            changes.push(Change::UpdateModel(i));
            if self.models[i] != ABSENT {
                changes.push(Change::RemoveModel(i));
            }
            changes.push(Change::UpdateKey(i));
            if self.keys[i] != ABSENT {
                changes.push(Change::RemoveKey(i));
            }
        }
        changes
    }

    /// The state after a change, and the message that announces it.
    pub(crate) fn after(mut self, change: Change) -> (Self, Message) {
        let message = match change {
            Change::Create(i) => {
                self.circuits[i] = FIRST;
                Message::Created(i)
            }
            Change::Reroute(i) => {
                self.circuits[i] = other(self.circuits[i]);
                Message::Rerouted(i, self.circuits[i])
            }
            Change::RemoveCircuit(i) => {
                self.circuits[i] = ABSENT;
                Message::Removed(i)
            }
            Change::AnnounceRemoval(i) => {
                self.announced = Some(i);
                Message::Removed(i)
            }
            Change::UpdateModel(i) => {
                self.models[i] = other(self.models[i]);
                Message::ModelUpdated(i, self.models[i])
            }
            Change::RemoveModel(i) => {
                self.models[i] = ABSENT;
                Message::ModelRemoved(i)
            }
            Change::UpdateKey(i) => {
                self.keys[i] = other(self.keys[i]);
                Message::KeyUpdated(i)
            }
            Change::RemoveKey(i) => {
                self.keys[i] = ABSENT;
                Message::KeyRemoved(i)
            }
        };
        (self, message)
    }

    /// The announced removal is committed.
    pub(crate) fn committed(mut self) -> Self {
        if let Some(i) = self.announced.take() {
            self.circuits[i] = ABSENT;
        }
        self
    }

    /// The same state, the same revision: a confirmation is given whenever one is possible.
    pub(crate) fn revision(self) -> String {
        format!("{}{}-{}{}", self.models[0], self.models[1], self.keys[0], self.keys[1])
    }

    pub(crate) fn circuits_body(self) -> String {
        let circuits: Vec<Circuit> =
            (0..2).filter(|i| self.circuits[*i] != ABSENT).map(|i| circuit_of(i, self.circuits[i])).collect();
        json!({ "circuits": circuits }).to_string()
    }

    pub(crate) fn config_body(self) -> String {
        let models: Vec<Publication> =
            (0..2).filter(|i| self.models[*i] != ABSENT).map(|i| publication_of(i, self.models[i])).collect();
        let keys = (0..2).filter(|i| self.keys[*i] != ABSENT);
        let keys: Vec<_> = keys.map(|i| api_key(key_id(i), &format!("sk-{i}-{}", self.keys[i]))).collect();
        snapshot(&self.revision(), &models, &keys).to_string()
    }
}

/// Updating the absent creates its first version.
const fn other(version: Version) -> Version {
    if version == FIRST { FIRST + 1 } else { FIRST }
}

/// One step of the coordinator's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Create(usize),
    Reroute(usize),
    RemoveCircuit(usize),
    /// The removal is announced first and committed later, as released coordinators do.
    AnnounceRemoval(usize),
    UpdateModel(usize),
    RemoveModel(usize),
    UpdateKey(usize),
    RemoveKey(usize),
}

/// What is published of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Message {
    Created(usize),
    Rerouted(usize, Version),
    Removed(usize),
    ModelUpdated(usize, Version),
    ModelRemoved(usize),
    KeyUpdated(usize),
    KeyRemoved(usize),
}

impl Message {
    fn every() -> Vec<Self> {
        let mut every = Vec::new();
        for i in 0..2 {
            every.extend([Self::Created(i), Self::Removed(i), Self::ModelRemoved(i)]);
            every.extend([Self::KeyUpdated(i), Self::KeyRemoved(i)]);
            for version in [FIRST, FIRST + 1] {
                every.extend([Self::Rerouted(i, version), Self::ModelUpdated(i, version)]);
            }
        }
        every
    }

    fn bytes(self) -> Vec<u8> {
        let envelope = match self {
            Self::Created(i) => event::circuit_created(AUTHORITY, &[circuit_of(i, FIRST)]),
            Self::Rerouted(i, version) => event::route_updated(AUTHORITY, &circuit_of(i, version)),
            Self::Removed(i) => event::circuit_removed(AUTHORITY, &[circuit_of(i, FIRST)]),
            Self::ModelUpdated(i, version) => event::model_updated(AUTHORITY, &publication_of(i, version)),
            Self::ModelRemoved(i) => event::model_removed(AUTHORITY, model_name(i)),
            Self::KeyUpdated(i) => event::key_updated(AUTHORITY, key_id(i)),
            Self::KeyRemoved(i) => event::key_removed(AUTHORITY, key_id(i)),
        };
        envelope.bytes(Dialect::Payload)
    }
}

/// Every message as core decodes it.
pub(crate) fn decoded() -> BTreeMap<Message, BusEvent> {
    let event = |message: Message| match envelope::decode(&message.bytes(), AUTHORITY) {
        Decoded::Event(event) => (message, event),
        other => panic!("{message:?}: {other:?}"),
    };
    Message::every().into_iter().map(event).collect()
}

pub(crate) const fn key_id(i: usize) -> &'static str {
    ["k0", "k1"][i]
}

pub(crate) const fn model_name(i: usize) -> &'static str {
    ["m0", "m1"][i]
}

pub(crate) fn circuit_id(i: usize) -> Uuid {
    named(1, &format!("circuit {i}"))
}

fn endpoint(i: usize) -> Uuid {
    named(1, &format!("endpoint {i}"))
}

/// Its two versions have different replicas.
fn circuit_of(i: usize, version: Version) -> Circuit {
    let replica = route(named(1, &format!("route {i} {version}")), "10.0.0.1", 8000 + u16::from(version));
    circuit(circuit_id(i), named(1, "worker"), endpoint(i)).with_routes(vec![replica])
}

/// Its first version stands on its own circuit's endpoint, its second on the other one.
pub(crate) fn publication_of(i: usize, version: Version) -> Publication {
    let endpoint = endpoint(if version == FIRST { i } else { 1 - i });
    publication(model_name(i), &[(endpoint, 1.0)])
}
