//! The world: one clock that jumps to the next thing, and what happens there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use appproxy_core::config::worker::WorkerConfig;
use appproxy_core::seed::{Draws, Seed};
use appproxy_core::time::{Moment, Now, UnixMillis};
use appproxy_core::worker::{AckId, Apply, Call, CallEnded, Input, ProbeEnded};
use appproxy_fixtures::coordinator::{Coordinator, Settings, Ticket};

use super::broken::Broken;
use super::callers::{Callers, JWT_SECRET};
use super::changes::{Manager, Strict};
use super::clients::Clients;
use super::conduct::Ending;
use super::fault::{Fault, Mix};
use super::node::{Bus, Node, SECRET, config};
use super::reference::{Answer, Meaning};
use super::run::Kind;
use super::state::State;
use super::totals::Totals;

/// A message on its way.
#[derive(Debug, Clone)]
pub struct Message {
    /// Its bytes.
    pub bytes: Arc<[u8]>,
    /// What it says.
    pub meaning: Meaning,
}

/// Something that is going to happen.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields say which node and process, and carry what happens")]
pub enum Happening {
    /// A message reaches a node, if that subscription still stands.
    Message { node: usize, life: u64, subscription: u64, message: Message },
    /// An ack reaches the coordinator.
    Ack(Vec<u8>),
    /// A call reaches the coordinator.
    Call { node: usize, life: u64, call: Call, fate: Fate },
    /// A call ends.
    Ended {
        node: usize,
        life: u64,
        ended: CallEnded,
        ending: Ending,
        answer: Option<Answer>,
        told: Option<&'static str>,
    },
    /// The shell swaps a view in.
    Swap { node: usize, life: u64, apply: Apply },
    /// A replica has said which models it has, or nothing.
    Inquired { node: usize, life: u64, ended: ProbeEnded },
    /// The shell says what became of an ack.
    AckDone { node: usize, life: u64, ack: AckId, out: bool },
    /// The shell says what became of a subscription.
    Subscribed { node: usize, life: u64 },
    /// The last request of a leaving node ends.
    Drained { node: usize, life: u64 },
    /// A process starts in this place.
    Start { node: usize },
    /// The manager makes a change.
    Change,
    /// Something strikes the world as a whole.
    Strike,
    /// What struck is over.
    Over(Fault),
}

/// What is to become of a call, drawn when it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Answered.
    Answered,
    /// Fails; a number says how.
    Failed(u64),
    /// Its answer is cut off.
    Truncated,
    /// Its answer comes after its deadline.
    Late,
    /// No answer ever.
    Never,
}

/// One seed's world.
#[derive(Debug)]
pub struct World {
    /// Which workers live in it.
    pub kind: Kind,
    /// All draws.
    pub draws: Draws,
    /// The clock, in milliseconds.
    pub now: u64,
    /// How far the wall clock is ahead of it.
    pub wall_ahead: i64,
    /// What is going to happen, by time and then by age.
    pub agenda: BTreeMap<(u64, u64), Happening>,
    number: u64,
    /// The faults of this run.
    pub mix: Mix,
    /// Only these strikes and changes happen, by number; `None`: all.
    pub only: Option<Arc<BTreeSet<u64>>>,
    /// How many strikes and changes were drawn.
    pub strikes: u64,
    /// Those that happened.
    pub struck: Vec<u64>,
    /// Whether everything is printed as it happens.
    pub trace: bool,
    /// Whether the faults have ended.
    pub healing: bool,
    /// The coordinator.
    pub coordinator: Coordinator,
    /// Until when the coordinator cannot be reached.
    pub coordinator_down: bool,
    /// Until when the bus is away for all.
    pub bus_down: bool,
    /// The manager of the coordinator.
    pub manager: Manager,
    /// Strict revocations that wait for their answer.
    pub strict: BTreeMap<Ticket, Strict>,
    /// What each node is configured with.
    pub config: WorkerConfig,
    /// The nodes; a place may be empty for a while.
    pub nodes: Vec<Option<Node>>,
    /// Counts processes.
    pub lives: u64,
    /// The clients of ROUTER workers.
    pub clients: Clients,
    /// The callers of legacy workers.
    pub callers: Callers,
    /// What was seen.
    pub totals: Totals,
}

impl World {
    /// The world of a seed.
    #[must_use]
    pub fn new(seed: u64, kind: Kind, nodes: usize, off: &[Fault], aim: &[Fault]) -> Self {
        let mut draws = Draws::new(Seed::from_number(seed));
        let mix = Mix::swarm(&mut draws, aim).without(off);
        let config = config(&mut draws, kind);
        let manager = Manager::new(&mut draws);
        let jwt_secret = JWT_SECRET.to_owned();
        let mut world = Self {
            kind,
            now: 1_000,
            wall_ahead: 1_800_000_000_000,
            agenda: BTreeMap::new(),
            number: 0,
            mix,
            only: None,
            strikes: 0,
            struck: Vec::new(),
            trace: false,
            healing: false,
            coordinator: Coordinator::new(Settings { jwt_secret, ..Settings::new(SECRET) }, seed),
            coordinator_down: false,
            bus_down: false,
            manager,
            strict: BTreeMap::new(),
            config,
            nodes: core::iter::repeat_with(|| None).take(nodes).collect(),
            lives: 0,
            clients: Clients::new(),
            callers: Callers::new(),
            totals: Totals::default(),
            draws,
        };
        for node in 0..nodes {
            let at = world.draws.below(300);
            world.later(at, Happening::Start { node });
        }
        world.settle_in();
        world.later(50, Happening::Change);
        world.later(100, Happening::Strike);
        world
    }

    /// Both clocks.
    #[must_use]
    pub const fn clocks(&self) -> Now {
        Now { moment: Moment::from_millis(self.now), wall: UnixMillis(self.wall()) }
    }

    /// The wall clock.
    #[must_use]
    pub const fn wall(&self) -> i64 {
        self.wall_ahead + self.now.cast_signed()
    }

    /// Puts something on the agenda.
    pub fn later(&mut self, after: u64, happening: Happening) {
        self.number += 1;
        self.agenda.insert((self.now + after, self.number), happening);
    }

    /// Whether a fault of this kind strikes the thing at hand.
    pub fn strikes(&mut self, fault: Fault) -> bool {
        let permille = self.mix.permille(fault);
        permille > 0 && self.draws.below(1000) < permille && self.may_happen() && {
            self.totals.struck(fault);
            true
        }
    }

    /// Whether the next strike or change is among those that happen.
    pub fn may_happen(&mut self) -> bool {
        let number = self.strikes;
        self.strikes += 1;
        let happens = self.healing || self.only.as_ref().is_none_or(|only| only.contains(&number));
        if happens && !self.healing {
            self.struck.push(number);
        }
        happens
    }

    /// When the next thing happens; `None` when nothing ever does.
    #[must_use]
    pub fn next_time(&self) -> Option<u64> {
        let agenda = self.agenda.first_key_value().map(|((at, _), _)| *at);
        let nodes = self.nodes.iter().flatten().filter_map(|node| node.wait);
        nodes.chain(agenda).chain(self.coordinator.next_deadline()).min()
    }

    /// Lets the next thing happen, and the clients ask.
    ///
    /// # Errors
    /// When a rule does not hold.
    pub fn step(&mut self) -> Result<(), Broken> {
        self.totals.steps += 1;
        let Some(next) = self.next_time() else { return Ok(()) };
        self.now = next.max(self.now);
        if self.coordinator.next_deadline().is_some_and(|at| at <= self.now) {
            let answers = self.coordinator.tick(self.now);
            self.answered(answers)?;
            self.manager.noticed(&self.coordinator, self.now);
        }
        let woken = (0..self.nodes.len()).find(|node| {
            let wait = self.nodes.get(*node).and_then(Option::as_ref).and_then(|node| node.wait);
            wait.is_some_and(|wait| wait <= self.now)
        });
        if let Some(node) = woken {
            self.feed(node, Input::Tick)?;
        } else if let Some(first) = self.agenda.first_entry().filter(|first| first.key().0 <= self.now) {
            let happening = first.remove();
            self.happen(happening)?;
        }
        self.clients_ask()
    }

    fn happen(&mut self, happening: Happening) -> Result<(), Broken> {
        match happening {
            Happening::Message { node, life, subscription, message } => {
                let there = self.lives(node, life).is_some_and(|it| it.bus == Bus::Up(subscription));
                if there { self.hear(node, &message) } else { Ok(()) }
            }
            Happening::Ack(bytes) => {
                if self.coordinator_down || self.bus_down {
                    return Ok(());
                }
                let answers = self.coordinator.bus_message(&bytes, self.now);
                self.answered(answers)
            }
            Happening::Call { node, life, call, fate } => {
                self.call_arrives(node, life, call, fate);
                Ok(())
            }
            Happening::Ended { node, life, ended, ending, answer, told } => {
                if self.lives(node, life).is_some() {
                    self.call_ends(node, ended, ending, answer, told)
                } else {
                    Ok(())
                }
            }
            Happening::Swap { node, life, apply } => self.swap(node, life, &apply),
            Happening::Inquired { node, life, ended } => match self.lives(node, life) {
                Some(_) => self.feed(node, Input::ProbeEnded(ended)),
                None => Ok(()),
            },
            Happening::AckDone { node, life, ack, out } => match self.lives(node, life) {
                Some(_) if out => self.feed(node, Input::AckSent(ack)),
                Some(_) => self.feed(node, Input::AckFailed(ack)),
                None => Ok(()),
            },
            Happening::Subscribed { node, life } => self.subscribed(node, life),
            Happening::Drained { node, life } => {
                let Some(it) = self.lives(node, life) else { return Ok(()) };
                it.leaving.1 = true;
                self.feed(node, Input::Drained)
            }
            Happening::Start { node } => self.start(node),
            Happening::Change => {
                if !self.healing {
                    self.change();
                    let pause = self.manager.pause(&mut self.draws);
                    self.later(pause, Happening::Change);
                }
                Ok(())
            }
            Happening::Strike => self.strike(),
            Happening::Over(fault) => self.over(fault),
        }
    }

    /// The process in this place, if it still is that one.
    pub fn lives(&mut self, node: usize, life: u64) -> Option<&mut Node> {
        self.nodes.get_mut(node)?.as_mut().filter(|it| it.life == life)
    }

    /// A process starts in this place, if it is empty.
    pub fn start(&mut self, place: usize) -> Result<(), Broken> {
        if self.nodes.get(place).is_none_or(Option::is_some) {
            return Ok(());
        }
        self.lives += 1;
        let seed = self.draws.next_u64();
        let node = Node::new(&self.config, self.lives, seed, self.clocks());
        if let Some(empty) = self.nodes.get_mut(place) {
            *empty = Some(node);
        }
        self.feed(place, Input::Started)
    }

    fn swap(&mut self, node: usize, life: u64, apply: &Apply) -> Result<(), Broken> {
        let generation = apply.view.generation;
        let Some(it) = self.lives(node, life) else { return Ok(()) };
        it.view = apply.view.clone();
        it.issued.retain(|issued, state| {
            if *issued == generation.0 {
                it.in_force = state.clone();
            }
            *issued > generation.0
        });
        it.selection.forget_absent(&it.view);
        self.feed(node, Input::Applied(generation))?;
        self.everybody_asks(node)
    }

    /// What the coordinator wants now, and its revision.
    #[must_use]
    pub fn wanted(&self) -> State {
        State::of_coordinator(&self.coordinator)
    }
}
