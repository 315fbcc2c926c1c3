//! The manager's changes at the coordinator, and what is remembered of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use appproxy_core::exchange::token_hash;
use appproxy_core::secret::Secret;
use appproxy_core::seed::Draws;
use appproxy_fixtures::coordinator::{Coordinator, Handled, Ticket};
use appproxy_fixtures::{Request, Response};
use serde_json::json;
use uuid::Uuid;

use super::broken::{Broken, must};
use super::fault::Fault;
use super::node::SECRET;
use super::reference::Meaning;
use super::run::Kind;
use super::state::{AUTHORITY, Circuit, Key, Publication};
use super::world::{Message, World};

/// The names that may be published.
pub const MODELS: [&str; 4] = ["model-a", "model-b", "org/model-c", "model-d"];

/// The keys that come and go.
pub const KEYS: [&str; 5] = ["key-1", "key-2", "key-3", "key-4", "key-5"];

/// A strict revocation that waits for its answer.
#[derive(Debug, Clone)]
pub struct Strict {
    key: String,
    /// How often the key had changed by then, this removal included. The time would not tell: a key may be set anew in
    /// the millisecond in which it was revoked.
    changes: usize,
}

/// What a key was, from when on; `None`: it was not there.
type Past = Vec<(u64, Option<Arc<Key>>)>;

/// The manager.
#[derive(Debug)]
pub struct Manager {
    endpoints: Vec<Uuid>,
    version: u64,
    longest_pause: u64,
    /// The secrets of the keys as they were last set, with their hashes.
    pub secrets: BTreeMap<String, (String, [u8; 32])>,
    keys: BTreeMap<String, Arc<Key>>,
    history: BTreeMap<String, Past>,
    /// Keys that were malformed at some time.
    pub spoiled: BTreeSet<String>,
    /// Keys whose acks cannot be told apart for a while: a message of theirs went out twice or late, or an ack may have.
    pub doubtful: BTreeMap<String, u64>,
    /// A copy of the coordinator's state.
    pub backup: Option<Box<Coordinator>>,
    /// Below every revision so far.
    pub lowest_revision: u64,
    /// The answers of calls that waited, by status of propagation.
    pub answers: BTreeMap<Ticket, Response>,
}

impl Manager {
    /// A manager with its own pace.
    #[must_use]
    pub fn new(draws: &mut Draws) -> Self {
        let longest_pause = 300 + draws.below(4_000);
        Self {
            endpoints: (0..4).map(|_| draws.uuid()).collect(),
            version: 0,
            longest_pause,
            secrets: BTreeMap::new(),
            keys: BTreeMap::new(),
            history: BTreeMap::new(),
            spoiled: BTreeSet::new(),
            doubtful: BTreeMap::new(),
            backup: None,
            lowest_revision: 1_000_000,
            answers: BTreeMap::new(),
        }
    }

    /// The pause before the next change: bursts are common.
    pub fn pause(&self, draws: &mut Draws) -> u64 {
        if draws.below(3) == 0 { draws.below(30) } else { draws.below(self.longest_pause) }
    }

    /// Remembers how the coordinator's keys have changed.
    pub fn noticed(&mut self, coordinator: &Coordinator, now: u64) {
        let keys: BTreeMap<String, Arc<Key>> =
            coordinator.keys(AUTHORITY).map(|key| (key.key_id.clone(), Arc::new(Key::of_wire(key)))).collect();
        for id in keys.keys().chain(self.keys.keys()) {
            if keys.get(id) != self.keys.get(id) {
                let past = self.history.entry(id.clone()).or_default();
                if past.last().map(|(_, key)| key.as_ref()) != Some(keys.get(id)) {
                    past.push((now, keys.get(id).cloned()));
                }
            }
        }
        self.keys = keys;
    }

    /// Whether a key was like this at `since` or at some time after.
    #[must_use]
    pub fn was(&self, id: &str, key: Option<&Arc<Key>>, since: u64) -> bool {
        let Some(past) = self.history.get(id) else { return key.is_none() };
        let first_after = past.iter().position(|(at, _)| *at > since).unwrap_or(past.len());
        let then = first_after.checked_sub(1).and_then(|before| past.get(before));
        then.and_then(|(_, then)| then.as_ref()) == key
            || past.iter().skip(first_after).any(|(_, later)| later.as_ref() == key)
            || self.spoiled.contains(id)
    }

    /// How often a key has changed.
    fn changes(&self, id: &str) -> usize {
        self.history.get(id).map_or(0, Vec::len)
    }

    /// Whether a key became this with a change after its first `changes`.
    fn became(&self, id: &str, key: &Arc<Key>, changes: usize) -> bool {
        let past = self.history.get(id).into_iter().flatten();
        past.skip(changes).any(|(_, then)| then.as_ref() == Some(key))
    }

    /// The acks of these keys cannot be told apart for a minute.
    pub fn doubt(&mut self, keys: impl IntoIterator<Item = String>, now: u64) {
        self.doubtful.extend(keys.into_iter().map(|key| (key, now + 60_000)));
    }

    /// A number that no version had before.
    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }
}

impl World {
    /// The manager changes something.
    pub(super) fn change(&mut self) {
        if !self.may_happen() {
            return;
        }
        if self.kind == Kind::Legacy {
            return self.change_wildcard();
        }
        match self.draws.below(100) {
            0..18 => self.create_circuit(None),
            18..30 => self.change_routes(),
            30..44 => self.remove_circuit(),
            44..58 => self.put_model(None),
            58..64 => self.remove_model(),
            64..70 => self.move_model(),
            70..88 => self.put_key(),
            _ => self.remove_key(),
        }
    }

    /// What is there from the start: most of what there can be.
    pub(super) fn settle_in(&mut self) {
        self.coordinator.set_revision(AUTHORITY, self.manager.lowest_revision);
        if self.kind == Kind::Legacy {
            return (0..3).for_each(|_| self.create_wildcard());
        }
        for endpoint in self.manager.endpoints.clone() {
            self.create_circuit(Some(endpoint));
        }
        for _ in 0..6 {
            self.put_model(None);
            self.put_key();
        }
    }

    pub(super) fn one_of<T: Clone>(&mut self, choices: &[T]) -> Option<T> {
        let at = self.draws.below(choices.len() as u64);
        choices.get(usize::try_from(at).ok()?).cloned()
    }

    pub(super) fn some_circuit(&mut self) -> Option<Uuid> {
        let ids: Vec<Uuid> = self.coordinator.circuits(AUTHORITY).map(|circuit| circuit.id).collect();
        self.one_of(&ids)
    }

    pub(super) fn routes(&mut self) -> serde_json::Value {
        let ports = (0..self.draws.below(8).div_ceil(3)).map(|_| 1024 + self.manager.next_version() % 60_000);
        let ports: Vec<u64> = ports.collect();
        json!(ports.iter().map(|port| json!({"kernel_host": "10.0.0.1", "kernel_port": port})).collect::<Vec<_>>())
    }

    fn create_circuit(&mut self, endpoint: Option<Uuid>) {
        if self.coordinator.circuits(AUTHORITY).count() >= 8 {
            return self.remove_circuit();
        }
        let endpoints = self.manager.endpoints.clone();
        let endpoint = endpoint.or_else(|| self.one_of(&endpoints)).unwrap_or_default();
        let (id, routes) = (self.draws.uuid(), self.routes());
        let body = json!({"authority": AUTHORITY, "id": id, "endpoint_id": endpoint, "routes": routes});
        let handled = self.ask(Request::post("/dev/circuits", &body));
        if let Some(circuit) = self.circuit(id) {
            self.publish(handled, &Meaning::Created(id, circuit));
        }
    }

    pub(super) fn change_routes(&mut self) {
        let Some(id) = self.some_circuit() else { return };
        let routes = self.routes();
        let handled = self.ask(Request::put(format!("/dev/circuits/{id}/routes"), &json!({"routes": routes})));
        if let Some(circuit) = self.circuit(id) {
            self.publish(handled, &Meaning::Routes(id, circuit));
        }
    }

    pub(super) fn circuit(&self, id: Uuid) -> Option<Arc<Circuit>> {
        let circuit = self.coordinator.circuits(AUTHORITY).find(|circuit| circuit.id == id)?;
        Some(Arc::new(Circuit::of_wire(circuit)))
    }

    pub(super) fn remove_circuit(&mut self) {
        let Some(id) = self.some_circuit() else { return };
        if self.strikes(Fault::EarlyRemoval) {
            self.coordinator.faults.announce_removal_first_ms = Some(50 + self.draws.below(4_500));
        }
        let handled = self.ask(Request::delete(format!("/dev/circuits/{id}")));
        self.coordinator.faults.announce_removal_first_ms = None;
        self.publish(handled, &Meaning::Gone(id));
    }

    fn put_model(&mut self, endpoint: Option<Uuid>) {
        let Some(model) = self.one_of(&MODELS) else { return };
        let endpoints = self.manager.endpoints.clone();
        let first = endpoint.or_else(|| self.one_of(&endpoints)).unwrap_or_default();
        let mut mapped = vec![first];
        if endpoint.is_none() && self.draws.below(2) == 0 {
            mapped.extend(self.one_of(&endpoints).filter(|second| *second != first));
        }
        let aliases: Vec<String> = if self.draws.below(3) == 0 { vec![format!("{model}-alias")] } else { Vec::new() };
        let ratio = self.manager.next_version();
        let mappings: Vec<_> = mapped.iter().map(|it| json!({"endpoint_id": it, "ratio": ratio})).collect();
        let path = format!("/v2/routers/{AUTHORITY}/models/{model}");
        let handled = self.ask(Request::put(path, &json!({"aliases": aliases, "mappings": mappings})));
        let publication = self.coordinator.publications(AUTHORITY).find(|it| it.model == model);
        if let Some(publication) = publication.map(Publication::of_wire) {
            self.publish(handled, &Meaning::Model(model.to_owned(), Arc::new(publication)));
        }
    }

    fn remove_model(&mut self) {
        let names: Vec<String> = self.coordinator.publications(AUTHORITY).map(|it| it.model.clone()).collect();
        let Some(model) = self.one_of(&names) else { return };
        let handled = self.ask(Request::delete(format!("/v2/routers/{AUTHORITY}/models/{model}")));
        self.publish(handled, &Meaning::ModelGone(model));
    }

    /// A model moves to another endpoint, whose circuit is made for it, and its old circuit goes.
    fn move_model(&mut self) {
        let old = self.some_circuit();
        let endpoint = self.draws.uuid();
        self.manager.endpoints.rotate_left(1);
        if let Some(last) = self.manager.endpoints.last_mut() {
            *last = endpoint;
        }
        self.create_circuit(Some(endpoint));
        self.put_model(Some(endpoint));
        if let Some(id) = old {
            let handled = self.ask(Request::delete(format!("/dev/circuits/{id}")));
            self.publish(handled, &Meaning::Gone(id));
        }
    }

    fn put_key(&mut self) {
        let Some(id) = self.one_of(&KEYS) else { return };
        let token = format!("secret-{id}-{}", self.manager.next_version());
        let hash = token_hash(&Secret::new(token.clone())).0;
        let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        self.manager.secrets.insert(id.to_owned(), (token, hash));
        let allowed: Vec<&str> = if self.draws.below(3) == 0 { MODELS[..2].to_vec() } else { Vec::new() };
        let ends = (self.draws.below(4) == 0).then(|| self.wall() / 1000 + self.draws.below(60).cast_signed());
        let expires_at = ends.and_then(|at| jiff::Timestamp::from_second(at).ok()).map(|at| at.to_string());
        let body = json!({"token_hash": hex, "allowed_models": allowed, "expires_at": expires_at});
        let handled = self.ask(Request::put(format!("/v2/routers/{AUTHORITY}/api-keys/{id}"), &body));
        self.publish(handled, &Meaning::KeyNotice(id.to_owned()));
    }

    fn remove_key(&mut self) {
        let Some(id) = self.one_of(&KEYS) else { return };
        let strict = self.draws.below(2) == 0;
        let handled = self.ask(Request::delete(format!("/v2/routers/{AUTHORITY}/api-keys/{id}?strict={strict}")));
        if let Some(ticket) = handled.ticket.filter(|_| strict) {
            let changes = self.manager.changes(id);
            self.strict.insert(ticket, Strict { key: id.to_owned(), changes });
        }
        self.publish(handled, &Meaning::KeyGone(id.to_owned()));
    }

    pub(super) fn ask(&mut self, request: Request) -> Handled {
        let wall = self.wall().cast_unsigned();
        let handled = self.coordinator.handle(&request.with_token(SECRET), self.now, wall);
        self.manager.noticed(&self.coordinator, self.now);
        self.totals.changes += 1;
        handled
    }

    pub(super) fn publish(&mut self, handled: Handled, meaning: &Meaning) {
        for bytes in handled.publish {
            self.broadcast(&Message { bytes: bytes.into(), meaning: meaning.clone() });
        }
    }

    /// Calls of the manager's are answered: a strict revocation says which nodes refuse the key by now.
    pub(super) fn answered(&mut self, answers: Vec<(Ticket, Response)>) -> Result<(), Broken> {
        for (ticket, response) in answers {
            if let Some(strict) = self.strict.remove(&ticket) {
                self.judge_revocation(&strict, &response)?;
            }
            if self.healing {
                self.manager.answers.insert(ticket, response);
            }
        }
        Ok(())
    }

    /// What the answer to a strict revocation promises of each node that it calls confirmed (worker-protocol 3.2, 3.3, 7):
    /// it admits nothing that the coordinator had under this key before the revocation. What the key was made
    /// afterwards (set anew, or restored from a backup) it may admit, and rightly: its ack of the revocation is true of
    /// the moment at which it was sent, and the coordinator's answer waits for the slowest node.
    ///
    /// Nothing is promised while the key's acks may be taken for each other, which the protocol accepts: an ack does not
    /// say which change it answers, so one too many (a message that came twice, or an ack sent again after a bus loss) or
    /// one too late for the coordinator's memory is counted for the wrong one.
    fn judge_revocation(&mut self, strict: &Strict, response: &Response) -> Result<(), Broken> {
        if self.manager.doubtful.get(&strict.key).is_some_and(|until| self.now < *until) {
            return Ok(());
        }
        let value = response.value();
        let confirmed: Vec<&str> =
            value["confirmed"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_str).collect();
        self.totals.revocations += 1;
        for node in self.nodes.iter().flatten() {
            let id = node.worker.node_id().to_string();
            let admitted = node.in_force.keys.get(&strict.key);
            let admits_revoked = admitted.is_some_and(|key| !self.manager.became(&strict.key, key, strict.changes));
            let lied = confirmed.contains(&id.as_str()) && admits_revoked;
            must(!lied, "a node that confirmed a revocation refuses the key", || format!("{strict:?} on {id}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::state::State;

    /// Sets `key-1`, in the millisecond at hand.
    fn set(world: &mut World, hash: u8) -> Arc<Key> {
        let body = json!({"token_hash": format!("{hash:02x}").repeat(32)});
        world.ask(Request::put(format!("/v2/routers/{AUTHORITY}/api-keys/key-1"), &body));
        world.manager.keys["key-1"].clone()
    }

    #[test]
    fn a_node_that_confirmed_a_revocation_may_admit_only_what_the_key_became_since() {
        let mut world = World::new(1, Kind::Router, 1, &[], &[]);
        world.start(0).unwrap();
        let node = world.nodes[0].as_ref().unwrap().worker.node_id().to_string();
        let response = Response::json(200, &json!({"confirmed": [node]}));
        let admitting = |world: &mut World, key: Option<&Arc<Key>>, strict: &Strict| {
            let keys = key.map(|key| ("key-1".to_owned(), key.clone())).into_iter().collect();
            world.nodes[0].as_mut().unwrap().in_force = Arc::new(State { keys, ..State::default() });
            world.judge_revocation(strict, &response).is_ok()
        };
        let [older, revoked] = [1, 2].map(|hash| set(&mut world, hash));
        world.ask(Request::delete(format!("/v2/routers/{AUTHORITY}/api-keys/key-1?strict=true")));
        let strict = Strict { key: "key-1".to_owned(), changes: world.manager.changes("key-1") };
        assert!(admitting(&mut world, None, &strict));
        assert!(!admitting(&mut world, Some(&revoked), &strict));
        assert!(!admitting(&mut world, Some(&older), &strict));

        let anew = set(&mut world, 3);
        assert!(admitting(&mut world, Some(&anew), &strict), "set anew in the same millisecond");
        assert!(!admitting(&mut world, Some(&revoked), &strict), "set anew, but not to this");
        let restored = set(&mut world, 2);
        assert_eq!(restored, revoked);
        assert!(admitting(&mut world, Some(&restored), &strict), "it came back");
    }
}
