//! A coordinator of two circuits, two publications and two keys, and what it says.

use std::collections::BTreeMap;

use appproxy_core::wire::envelope;
use appproxy_core::wire::event::{BusEvent, Decoded};
use appproxy_fixtures::ids::named;
use appproxy_fixtures::wire::{
    ApiKey, Circuit, Dialect, Publication, api_key, circuit, event, publication, route, snapshot,
};
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
    /// Two of each.
    pub(crate) const FULL: Self = Self::all(FIRST);
    /// Nothing yet.
    pub(crate) const EMPTY: Self = Self::all(ABSENT);

    const fn all(version: Version) -> Self {
        Self { circuits: [version; 2], models: [version; 2], keys: [version; 2], announced: None }
    }

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

    /// What it answers to a request for circuits.
    pub(crate) const fn circuits(self) -> Answer {
        Answer::Circuits(self.circuits)
    }

    /// What it answers to a request for router-config.
    pub(crate) fn config(self, known: Option<Revision>) -> Answer {
        if known == Some(self.revision()) { Answer::NotModified } else { Answer::Config(self.revision()) }
    }

    /// The same state, the same revision: a confirmation is given whenever one is possible.
    const fn revision(self) -> Revision {
        Revision([self.models[0], self.models[1], self.keys[0], self.keys[1]])
    }
}

/// Publications and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Revision([Version; 4]);

impl Revision {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits: Vec<Version> = text.bytes().filter_map(|byte| byte.checked_sub(b'0')).collect();
        digits.try_into().ok().map(Self)
    }
}

/// An answer to a pull's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Answer {
    Circuits([Version; 2]),
    Config(Revision),
    NotModified,
}

impl Answer {
    pub(crate) const fn status(self) -> u16 {
        if matches!(self, Self::NotModified) { 304 } else { 200 }
    }

    pub(crate) fn body(self) -> String {
        match self {
            Self::Circuits(versions) => {
                let there = (0..2).filter(|i| versions[*i] != ABSENT);
                json!({"circuits": there.map(|i| circuit_of(i, versions[i])).collect::<Vec<Circuit>>()}).to_string()
            }
            Self::Config(Revision([m0, m1, k0, k1])) => {
                let models = [m0, m1].into_iter().enumerate().filter(|(_, version)| *version != ABSENT);
                let models: Vec<Publication> = models.map(|(i, version)| publication_of(i, version)).collect();
                let keys = [k0, k1].into_iter().enumerate().filter(|(_, version)| *version != ABSENT);
                let keys: Vec<ApiKey> =
                    keys.map(|(i, version)| api_key(key_id(i), &format!("sk-{i}-{version}"))).collect();
                snapshot(&format!("{m0}{m1}{k0}{k1}"), &models, &keys).to_string()
            }
            Self::NotModified => String::new(),
        }
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

/// What can be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    Circuit(usize),
    Model(usize),
    Key(usize),
}

impl Change {
    pub(crate) const fn subject(self) -> Subject {
        match self {
            Self::UpdateKey(i) | Self::RemoveKey(i) => Subject::Key(i),
            Self::UpdateModel(i) | Self::RemoveModel(i) => Subject::Model(i),
            Self::Create(i) | Self::Reroute(i) | Self::RemoveCircuit(i) | Self::AnnounceRemoval(i) => {
                Subject::Circuit(i)
            }
        }
    }
}

/// Which kinds have been changed. Both starts stay what they are when the two keys change places, and when the two
/// circuits do together with the two publications: so the first change of each kind may as well be number 0's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Seen {
    keys: bool,
    others: bool,
}

impl Seen {
    /// Where no two places can be changed for each other.
    pub(crate) const NO_SYMMETRY: Self = Self { keys: true, others: true };

    /// Whether histories that begin so are not the mirror image of others.
    pub(crate) const fn first_of_its_kind(self, change: Change) -> bool {
        match change.subject() {
            Subject::Key(i) => i == 0 || self.keys,
            Subject::Circuit(i) | Subject::Model(i) => i == 0 || self.others,
        }
    }

    pub(crate) const fn note(&mut self, change: Change) {
        match change.subject() {
            Subject::Key(_) => self.keys = true,
            Subject::Circuit(_) | Subject::Model(_) => self.others = true,
        }
    }
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

/// A set of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Published(u32);

impl Published {
    pub(crate) fn add(&mut self, message: Message) {
        let at = Message::every().iter().position(|one| *one == message);
        self.0 |= at.map_or(0, |at| 1 << at);
    }

    pub(crate) fn messages(self) -> impl Iterator<Item = Message> {
        let every = Message::every().into_iter().enumerate();
        every.filter(move |(at, _)| self.0 & (1 << at) != 0).map(|(_, message)| message)
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
fn publication_of(i: usize, version: Version) -> Publication {
    let endpoint = endpoint(if version == FIRST { i } else { 1 - i });
    publication(model_name(i), &[(endpoint, 1.0)])
}
