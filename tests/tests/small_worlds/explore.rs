//! Every history, each world of it visited once.

use std::collections::{BTreeMap, HashMap, HashSet};

use appproxy_core::wire::event::BusEvent;

use crate::coordinator::{Message, State, decoded};
use crate::fingerprint::Fingerprint;
use crate::world::{Action, Expected, World};

/// How far a history may go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) changes: u8,
    pub(crate) pulls: u8,
}

/// What an exploration came to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Explored {
    /// Different sequences of actions, each a history that may end there.
    pub(crate) histories: u128,
    /// Worlds that differ in something the future depends on.
    pub(crate) worlds: usize,
    pub(crate) steps: u64,
    /// Worlds that were closed: those that differ in what a closing depends on.
    pub(crate) closings: usize,
}

pub(crate) struct Explorer {
    bounds: Bounds,
    decoded: BTreeMap<Message, BusEvent>,
    expected: BTreeMap<State, Expected>,
    /// What the coordinator says at the end, of its state at the end.
    tells: fn(State) -> State,
    histories: HashMap<Fingerprint, u128>,
    closed: HashSet<Fingerprint>,
    path: Vec<Action>,
    steps: u64,
}

impl Explorer {
    pub(crate) fn new(bounds: Bounds, tells: fn(State) -> State) -> Self {
        Self {
            bounds,
            decoded: decoded(),
            expected: BTreeMap::new(),
            tells,
            histories: HashMap::new(),
            closed: HashSet::new(),
            path: Vec::new(),
            steps: 0,
        }
    }

    /// All of them, or the first history that goes wrong, in words.
    pub(crate) fn explore(mut self) -> Result<Explored, String> {
        let world = World::new(self.bounds.changes, self.bounds.pulls);
        let histories = self.visit(world)?;
        Ok(Explored { histories, worlds: self.histories.len(), steps: self.steps, closings: self.closed.len() })
    }

    /// How many histories go on from this world, the one that ends here included.
    fn visit(&mut self, world: World) -> Result<u128, String> {
        let (whole, closing) = world.fingerprint();
        if let Some(histories) = self.histories.get(&whole) {
            return Ok(*histories);
        }
        let mut histories = 1_u128;
        for action in world.actions() {
            let mut next = self.replay();
            next.act(action, &self.decoded);
            self.steps += 1;
            self.path.push(action);
            if let Some(broken) = next.broken() {
                return Err(self.told(broken));
            }
            histories += self.visit(next)?;
            self.path.pop();
        }
        if self.closed.insert(closing) {
            self.close(world).map_err(|wrong| self.told(&wrong))?;
        }
        self.histories.insert(whole, histories);
        Ok(histories)
    }

    fn close(&mut self, mut world: World) -> Result<(), String> {
        let state = world.state().committed();
        let expected = self.expected.entry(state).or_insert_with(|| Expected::of(state));
        world.close((self.tells)(state), expected)
    }

    /// The world at the end of the path, made anew: a worker is no value that could be copied.
    fn replay(&self) -> World {
        let mut world = World::new(self.bounds.changes, self.bounds.pulls);
        for action in &self.path {
            world.act(*action, &self.decoded);
        }
        world
    }

    fn told(&self, wrong: &str) -> String {
        let steps: Vec<String> = self.path.iter().map(|action| format!("  {action:?}")).collect();
        format!("{wrong}, after\n{}", steps.join("\n"))
    }
}
