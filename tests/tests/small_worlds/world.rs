//! One worker, its coordinator, and what is under way between them.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use appproxy_core::config::worker::{EventDialect, Mode, RouterMode, WorkerConfig};
use appproxy_core::desired::{Desired, Rules};
use appproxy_core::secret::Secret;
use appproxy_core::seed::Seed;
use appproxy_core::serving::{Serving, ServingSettings, ServingView};
use appproxy_core::time::{Moment, Now, UnixMillis};
use appproxy_core::wire::circuit::parse_circuits_answer;
use appproxy_core::wire::event::BusEvent;
use appproxy_core::wire::snapshot::parse_snapshot;
use appproxy_core::worker::{Call, CallBody, CallResponse, Command, Deadline, Input, Output, WakeReason, Worker};
use appproxy_fixtures::ids::named;

use crate::coordinator::{AUTHORITY, Change, Message, State, circuit_id, key_id, model_name};
use crate::fingerprint::{Fingerprint, of_worker};

/// How often a message may arrive.
const DELIVERIES: u8 = 2;

/// A period, the guard of five seconds, and the pull after it.
const CLOSING: Duration = Duration::from_secs(7);

/// One step of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Change(Change),
    /// The removal announced before is committed.
    Commit,
    Deliver(Message),
    /// The periodic pull comes due.
    Pull,
    /// The call is answered with the state as it was when the call was sent, or as it is.
    Answer(Leg, When),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Leg {
    Circuits,
    Config,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Sent,
    Now,
}

impl Leg {
    /// Whether both states give the same answer.
    fn same(self, one: State, other: State) -> bool {
        match self {
            Self::Circuits => one.circuits == other.circuits,
            Self::Config => (one.models, one.keys) == (other.models, other.keys),
        }
    }

    fn answer(self, call: &Call, state: State) -> (u16, String) {
        let known = call.request().path_and_query.split_once("known_revision=").map(|(_, revision)| revision);
        match self {
            Self::Circuits => (200, state.circuits_body()),
            Self::Config if known == Some(state.revision().as_str()) => (304, String::new()),
            Self::Config => (200, state.config_body()),
        }
    }
}

/// What a worker must come to that knows nothing but the coordinator's state.
pub(crate) struct Expected {
    desired: Desired,
    served: Vec<String>,
}

impl Expected {
    pub(crate) fn of(state: State) -> Self {
        let mut desired = Desired::new(AUTHORITY);
        let circuits = parse_circuits_answer(state.circuits_body().as_bytes()).map(|answer| answer.good);
        let snapshot = parse_snapshot(state.config_body().as_bytes());
        let (Ok(circuits), Ok(snapshot)) = (circuits, snapshot) else { panic!("{state:?} cannot be read") };
        desired.replace_circuits(circuits.into_iter().map(|circuit| (circuit.id, circuit)).collect());
        let models = snapshot.models.good.into_iter();
        desired.replace_publications(models.map(|publication| (publication.model.clone(), publication)).collect());
        desired.replace_keys(snapshot.keys.good.into_iter().map(|key| (key.key_id.clone(), key)).collect());
        let settings = ServingSettings { rules: Rules::Router, ..ServingSettings::default() };
        let touched = desired.take_touched();
        let update = Serving::new(&settings).update(&desired, &touched);
        Self { desired, served: update.map(|update| served(&update.view)).unwrap_or_default() }
    }
}

/// Which replicas each model has, as requests see it.
fn served(view: &ServingView) -> Vec<String> {
    let models = view.published().map(|(name, pool)| {
        let replicas: Vec<&str> = pool.candidates().map(|candidate| &*candidate.backend.name).collect();
        format!("{name}: {}", replicas.join(" "))
    });
    models.collect()
}

/// A call that waits for its answer.
#[derive(Debug)]
struct Asked {
    leg: Leg,
    call: Call,
    /// The coordinator when it was sent.
    sent: State,
}

/// What the answer to the router-config request under way may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Grant {
    /// Bring these keys back: no removal of them was heard since it was sent.
    brings: [bool; 2],
    /// Let the notices of these keys be acked: none was heard since it was sent.
    acks: [bool; 2],
    answered: bool,
}

const NOTHING: Grant = Grant { brings: [false; 2], acks: [false; 2], answered: false };

pub(crate) struct World {
    worker: Worker,
    now: Now,
    wait: Option<Deadline>,
    view: Option<Arc<ServingView>>,
    /// An apply has been asked for and not been carried out yet.
    applying: bool,
    state: State,
    changes_left: u8,
    pulls_left: u8,
    /// How often each message may still arrive.
    on_the_way: BTreeMap<Message, u8>,
    asked: Vec<Asked>,
    grant: Grant,
    /// Keys whose removal has been applied, and that no later request has brought back.
    revoked: [bool; 2],
    /// Keys with a notice that has not been acked.
    noticed: [bool; 2],
    acks: Vec<String>,
    /// The first promise that was broken.
    broken: Option<String>,
}

fn config() -> WorkerConfig {
    WorkerConfig {
        mode: Mode::Router(RouterMode::default()),
        coordinator_url: "http://127.0.0.1:1".into(),
        api_secret: Secret::new("secret"),
        redis_url: Some(Secret::new("redis://127.0.0.1:1/4")),
        ca_file: None,
        authority: AUTHORITY.into(),
        hostname: "router.example.com".into(),
        tls_listen: false,
        tls_advertised: true,
        api_port: 8080,
        traffic_port: 443,
        heartbeat_period: Duration::from_secs(3600),
        reconcile_interval: Duration::from_secs(1),
        events_enabled: true,
        event_dialect: EventDialect::Payload,
        call_timeout: Duration::from_secs(10),
        pull_timeout: Duration::from_secs(30),
        max_staleness: None,
    }
}

impl World {
    /// A registered worker that has pulled the beginning.
    pub(crate) fn new(changes: u8, pulls: u8) -> Self {
        let now = Now { moment: Moment::START, wall: UnixMillis(0) };
        let mut world = Self {
            worker: Worker::new(config(), &ServingSettings::default(), Seed::from_number(1), now),
            now,
            wait: None,
            view: None,
            applying: false,
            state: State::BEGINNING,
            changes_left: changes,
            pulls_left: pulls,
            on_the_way: BTreeMap::new(),
            asked: Vec::new(),
            grant: NOTHING,
            revoked: [true; 2],
            noticed: [false; 2],
            acks: Vec::new(),
            broken: None,
        };
        world.input(Input::Started);
        world.input(Input::BusUp);
        world.answer_everything(State::BEGINNING);
        world
    }

    /// Everything that can happen next.
    pub(crate) fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.changes_left > 0 {
            actions.extend(self.state.changes().into_iter().map(Action::Change));
        }
        if self.state.announced.is_some() {
            actions.push(Action::Commit);
        }
        actions.extend(self.on_the_way.keys().copied().map(Action::Deliver));
        if self.pulls_left > 0 && self.wait.is_some_and(|deadline| deadline.reason == WakeReason::Reconcile) {
            actions.push(Action::Pull);
        }
        for asked in &self.asked {
            actions.push(Action::Answer(asked.leg, When::Now));
            if !asked.leg.same(asked.sent, self.state) {
                actions.push(Action::Answer(asked.leg, When::Sent));
            }
        }
        actions
    }

    pub(crate) fn act(&mut self, action: Action, decoded: &BTreeMap<Message, BusEvent>) {
        match action {
            Action::Change(change) => {
                let (state, message) = self.state.after(change);
                self.state = state;
                self.changes_left -= 1;
                *self.on_the_way.entry(message).or_default() += DELIVERIES;
            }
            Action::Commit => self.state = self.state.committed(),
            Action::Deliver(message) => {
                if let Some(left) = self.on_the_way.get_mut(&message) {
                    *left -= 1;
                }
                self.on_the_way.retain(|_, left| *left > 0);
                self.deliver(message, &decoded[&message]);
            }
            Action::Pull => {
                self.pulls_left -= 1;
                self.wake();
            }
            Action::Answer(leg, when) => {
                if let Some(at) = self.asked.iter().position(|asked| asked.leg == leg) {
                    let asked = self.asked.remove(at);
                    let state = if when == When::Sent { asked.sent } else { self.state };
                    self.answer(asked, state);
                }
            }
        }
    }

    fn deliver(&mut self, message: Message, event: &BusEvent) {
        match message {
            Message::KeyRemoved(i) => (self.revoked[i], self.grant.brings[i]) = (true, false),
            Message::KeyUpdated(i) => (self.noticed[i], self.grant.acks[i]) = (true, false),
            _ => {}
        }
        self.input(Input::Bus(event.clone()));
        self.check_keys(NOTHING);
        let desired = self.worker.desired();
        let circuit = |i: usize| desired.circuits().keys().any(|id| id.0 == circuit_id(i));
        let model = |i: usize| self.view.as_ref().is_some_and(|view| view.model(model_name(i)).is_some());
        let (so, ack) = match message {
            Message::Created(i) => (circuit(i), Some(format!("1 circuit(s), first {}", circuit_id(i)))),
            Message::Rerouted(i, _) => (circuit(i), None),
            Message::Removed(i) => (!circuit(i), None),
            Message::ModelUpdated(i, _) => (model(i), Some(format!("model {}", model_name(i)))),
            Message::ModelRemoved(i) => (!model(i), Some(format!("model {}", model_name(i)))),
            Message::KeyUpdated(_) => (true, None),
            Message::KeyRemoved(i) => (true, Some(format!("key {}", key_id(i)))),
        };
        if !so || self.acks.first() != ack.as_ref() || self.acks.len() > 1 {
            self.break_promise(format!("after {message:?} it is not in force, or the acks are wrong: {:?}", self.acks));
        }
    }

    fn answer(&mut self, asked: Asked, state: State) {
        let (status, body) = asked.leg.answer(&asked.call, state);
        if asked.leg == Leg::Config {
            self.grant = if status == 200 { Grant { answered: true, ..self.grant } } else { NOTHING };
        }
        let grant = if self.grant.answered { self.grant } else { NOTHING };
        let response = CallResponse { status, body: CallBody(body.into_bytes()) };
        self.input(Input::CallEnded(asked.call.answered(response)));
        self.check_keys(grant);
        for ack in core::mem::take(&mut self.acks) {
            match (0..2).find(|i| ack == format!("key {}", key_id(*i))) {
                Some(i) if self.noticed[i] && grant.acks[i] => self.noticed[i] = false,
                _ => self.break_promise(format!("`{ack}` is acked by an answer that does not say so")),
            }
        }
    }

    /// No revoked key is there, but one that this answer may bring.
    fn check_keys(&mut self, grant: Grant) {
        for i in 0..2 {
            let there = self.worker.desired().keys().keys().any(|id| id.as_str() == key_id(i));
            if there && self.revoked[i] && !grant.brings[i] {
                self.break_promise(format!("key {} is back without a request that could bring it", key_id(i)));
            }
            self.revoked[i] = !there;
        }
    }

    fn wake(&mut self) {
        if let Some(deadline) = self.wait {
            self.now.moment = self.now.moment.max(deadline.at);
            self.input(Input::Tick);
        }
    }

    fn input(&mut self, input: Input) {
        self.acks.clear();
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            self.applying &= !matches!(input, Input::Applied(_));
            self.worker.handle_input(input, self.now);
            loop {
                match self.worker.poll_output() {
                    Output::Wait(deadline) => {
                        self.wait = deadline;
                        break;
                    }
                    Output::Event(_) => {}
                    Output::Command(command) => inputs.extend(self.command(command)),
                }
            }
        }
    }

    fn command(&mut self, command: Command) -> Option<Input> {
        match command {
            Command::Apply(apply) => {
                let generation = apply.view.generation;
                self.view = Some(apply.view);
                self.applying = true;
                return Some(Input::Applied(generation));
            }
            Command::Call(call) => return self.call(call),
            Command::Abandon(id) => self.asked.retain(|asked| asked.call.id() != id),
            Command::SendAck(ticket) => {
                if self.applying {
                    self.break_promise(format!("`{}` is acked before it is in force", ticket.about));
                }
                self.acks.push(ticket.about);
                return Some(Input::AckSent(ticket.id));
            }
            Command::Subscribe | Command::Unsubscribe | Command::Stop => {}
        }
        None
    }

    /// Registrations and heartbeats are answered at once, pulls when the history says so.
    fn call(&mut self, call: Call) -> Option<Input> {
        let request = call.request();
        if request.method != "GET" {
            let body = format!("{{\"id\":\"{}\"}}", named(1, "worker"));
            let response = CallResponse { status: 200, body: CallBody(body.into_bytes()) };
            return Some(Input::CallEnded(call.answered(response)));
        }
        let leg = if request.path_and_query.ends_with("/circuits") { Leg::Circuits } else { Leg::Config };
        if leg == Leg::Config {
            self.grant = Grant { brings: [true; 2], acks: self.noticed, answered: false };
        }
        self.asked.push(Asked { leg, call, sent: self.state });
        None
    }

    fn answer_everything(&mut self, state: State) {
        while !self.asked.is_empty() {
            let asked = self.asked.remove(0);
            self.answer(asked, state);
        }
    }

    /// What is under way is answered, then the closing pull, and what guards ask for after it. Then the worker must be
    /// as the coordinator; `told` is what the coordinator answers, its own state unless it lies.
    pub(crate) fn close(&mut self, told: State, expected: &Expected) -> Result<(), String> {
        self.answer_everything(told);
        let end = self.now.moment.after(CLOSING);
        let began = self.now.moment;
        while let Some(deadline) = self.wait.filter(|deadline| deadline.at <= end) {
            self.wake();
            self.answer_everything(told);
            if deadline.at > began && deadline.reason == WakeReason::Reconcile && self.equals(expected) {
                break;
            }
        }
        match &self.broken {
            Some(broken) => Err(broken.clone()),
            None if self.equals(expected) => Ok(()),
            None => Err("after the closing pull the worker is not as its coordinator".into()),
        }
    }

    fn equals(&self, expected: &Expected) -> bool {
        let (desired, wanted) = (self.worker.desired(), &expected.desired);
        desired.digest() == wanted.digest()
            && desired.circuits() == wanted.circuits()
            && desired.publications() == wanted.publications()
            && desired.keys() == wanted.keys()
            && self.view.as_ref().is_some_and(|view| view.digest() == wanted.digest() && served(view) == expected.served)
    }

    fn break_promise(&mut self, text: String) {
        self.broken.get_or_insert(text);
    }

    pub(crate) fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    pub(crate) const fn state(&self) -> State {
        self.state
    }

    /// Everything that the rest of the history depends on.
    pub(crate) fn fingerprint(&self) -> (Fingerprint, Fingerprint) {
        let worker = of_worker(&self.worker, self.now);
        let legs: Vec<Leg> = self.asked.iter().map(|asked| asked.leg).collect();
        let ghosts = (self.grant, self.revoked, self.noticed);
        let closing = Fingerprint::of(&(worker, self.state, &legs, ghosts));
        let sent: Vec<State> = self.asked.iter().map(|asked| asked.sent).collect();
        let budgets = (self.changes_left, self.pulls_left, &self.on_the_way);
        (Fingerprint::of(&(closing, sent, budgets)), closing)
    }
}
