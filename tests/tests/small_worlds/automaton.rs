//! The worker as an automaton: what it does on an input, found out once for every state it can be in.
//!
//! A state is everything the worker's future depends on; many histories lead to the same one. The real worker is asked
//! only for what has not been seen yet, by playing the inputs on the first way to that state again.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use appproxy_core::desired::{Desired, Rules};
use appproxy_core::serving::{Serving, ServingSettings, ServingView};
use appproxy_core::wire::circuit::parse_circuits_answer;
use appproxy_core::wire::event::BusEvent;
use appproxy_core::wire::snapshot::parse_snapshot;
use appproxy_core::worker::WakeReason;

use crate::coordinator::{AUTHORITY, Answer, Message, Revision, State, decoded};
use crate::fingerprint::Fingerprint;
use crate::run::Run;

/// What the worker can be told in a small world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Told {
    Event(Message),
    Answer(Answer),
    /// Its next deadline has come.
    Wake,
}

/// What it did.
#[derive(Debug, Clone)]
pub(crate) struct Reaction {
    pub(crate) to: usize,
    pub(crate) did: Did,
}

/// Everything it did in one step, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Did {
    pub(crate) acks: Vec<Ack>,
    /// Requests of a new pull; for router-config with the revision it knows.
    pub(crate) asked: Vec<Asked>,
    pub(crate) gave_up: bool,
    /// An ack was sent before what it confirms was in force.
    pub(crate) hasty: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ack {
    Circuit(usize),
    Model(usize),
    Key(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Asked {
    Circuits,
    Config(Option<Revision>),
}

/// How the worker is in a state.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    /// Its next deadline, in milliseconds from now.
    pub(crate) wait: Option<(WakeReason, u64)>,
    pub(crate) circuits: [bool; 2],
    pub(crate) models: [bool; 2],
    pub(crate) keys: [bool; 2],
    pub(crate) content: Content,
    /// The first way here.
    from: Option<(usize, Told)>,
}

/// What is wanted and what is served, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    wanted: Fingerprint,
    served: Vec<String>,
}

impl Content {
    pub(crate) fn of(desired: &Desired, view: Option<&Arc<ServingView>>) -> Self {
        let wanted = (desired.circuits(), desired.publications(), desired.keys(), desired.digest());
        let models = view.into_iter().flat_map(|view| view.published()).map(|(name, pool)| {
            let replicas: Vec<&str> = pool.candidates().map(|candidate| &*candidate.backend.name).collect();
            format!("{name}: {}", replicas.join(" "))
        });
        let digest = view.map(|view| format!("digest {}", view.digest()));
        Self { wanted: Fingerprint::of(&format!("{wanted:?}")), served: models.chain(digest).collect() }
    }

    /// What a worker must come to that knows nothing but the coordinator's state.
    pub(crate) fn expected(state: State) -> Self {
        let mut desired = Desired::new(AUTHORITY);
        let circuits = parse_circuits_answer(state.circuits().body().as_bytes()).map(|answer| answer.good);
        let snapshot = parse_snapshot(state.config(None).body().as_bytes());
        let (Ok(circuits), Ok(snapshot)) = (circuits, snapshot) else { panic!("{state:?} cannot be read") };
        desired.replace_circuits(circuits.into_iter().map(|circuit| (circuit.id, circuit)).collect());
        let models = snapshot.models.good.into_iter();
        desired.replace_publications(models.map(|publication| (publication.model.clone(), publication)).collect());
        desired.replace_keys(snapshot.keys.good.into_iter().map(|key| (key.key_id.clone(), key)).collect());
        let settings = ServingSettings { rules: Rules::Router, ..ServingSettings::default() };
        let touched = desired.take_touched();
        let view = Serving::new(&settings).update(&desired, &touched).map(|update| update.view);
        Self::of(&desired, view.as_ref())
    }
}

pub(crate) struct Automaton {
    start: State,
    events: BTreeMap<Message, BusEvent>,
    bodies: HashMap<Answer, Vec<u8>>,
    numbers: HashMap<Fingerprint, usize>,
    states: Vec<Standing>,
    reactions: HashMap<(usize, Told), Arc<Reaction>>,
}

impl Automaton {
    /// A worker that is registered, subscribed and has pulled `start` is in state 0.
    pub(crate) fn new(start: State) -> Self {
        let mut automaton = Self {
            start,
            events: decoded(),
            bodies: HashMap::new(),
            numbers: HashMap::new(),
            states: Vec::new(),
            reactions: HashMap::new(),
        };
        let run = automaton.replay(None);
        automaton.number(&run, None);
        automaton
    }

    pub(crate) fn standing(&self, state: usize) -> &Standing {
        &self.states[state]
    }

    /// How many states and how many reactions the real worker was asked for.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.states.len(), self.reactions.len())
    }

    pub(crate) fn react(&mut self, state: usize, told: Told) -> Arc<Reaction> {
        if let Some(reaction) = self.reactions.get(&(state, told)) {
            return Arc::clone(reaction);
        }
        let mut run = self.replay(Some(state));
        let did = self.tell(&mut run, told);
        let to = self.number(&run, Some((state, told)));
        let reaction = Arc::new(Reaction { to, did });
        self.reactions.insert((state, told), Arc::clone(&reaction));
        reaction
    }

    fn number(&mut self, run: &Run, from: Option<(usize, Told)>) -> usize {
        let fresh = self.states.len();
        let number = *self.numbers.entry(run.fingerprint()).or_insert(fresh);
        if number == fresh {
            self.states.push(run.standing(from));
        }
        number
    }

    /// The real worker in a state: it is no value that could be copied, so the way there is gone again.
    fn replay(&mut self, state: Option<usize>) -> Run {
        let mut path = Vec::new();
        let mut at = state;
        while let Some((from, told)) = at.and_then(|at| self.states[at].from) {
            path.push(told);
            at = Some(from);
        }
        let mut run = Run::new();
        for answer in [self.start.circuits(), self.start.config(None)] {
            self.tell(&mut run, Told::Answer(answer));
        }
        for told in path.into_iter().rev() {
            self.tell(&mut run, told);
        }
        run
    }

    fn tell(&mut self, run: &mut Run, told: Told) -> Did {
        match told {
            Told::Event(message) => run.event(&self.events[&message]),
            Told::Answer(answer) => {
                let body = self.bodies.entry(answer).or_insert_with(|| answer.body().into_bytes());
                run.answer(matches!(answer, Answer::Circuits(_)), answer.status(), body)
            }
            Told::Wake => run.wake(),
        }
    }
}

impl Standing {
    pub(crate) const fn new(
        wait: Option<(WakeReason, u64)>,
        there: [[bool; 2]; 3],
        content: Content,
        from: Option<(usize, Told)>,
    ) -> Self {
        let [circuits, models, keys] = there;
        Self { wait, circuits, models, keys, content, from }
    }
}
