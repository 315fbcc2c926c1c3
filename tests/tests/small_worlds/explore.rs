//! Every history, each world of it visited once.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::automaton::{Automaton, Content};
use crate::coordinator::{State, Subject};
use crate::world::{Action, World};

/// Where histories begin, and how far they go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) start: State,
    pub(crate) changes: u8,
    pub(crate) pulls: u8,
    /// What is changed; anything, unless it says.
    pub(crate) subjects: Option<[Subject; 2]>,
}

/// What an exploration came to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Explored {
    /// Worlds that differ in something the future depends on.
    pub(crate) worlds: usize,
    /// Steps from one to another.
    pub(crate) steps: usize,
    /// Worlds that were closed: those that differ in what a closing depends on.
    pub(crate) closings: usize,
    /// States of the real worker, and what it did in them.
    pub(crate) automaton: (usize, usize),
    /// Histories that have room for every message twice: sequences of at most this many steps ...
    pub(crate) length: usize,
    /// ... and the number of them.
    pub(crate) histories: u128,
}

pub(crate) struct Explorer {
    bounds: Bounds,
    automaton: Automaton,
    expected: BTreeMap<State, Content>,
    /// What the coordinator says at the end, of its state at the end.
    tells: fn(State) -> State,
    numbers: HashMap<World, usize>,
    visited: Vec<Visited>,
    closed: HashSet<World>,
}

/// A world, by the first way to it, which is one of the shortest.
struct Visited {
    world: World,
    from: usize,
    by: Option<Action>,
    /// The worlds that follow it.
    next: Vec<u32>,
}

impl Explorer {
    pub(crate) fn new(bounds: Bounds, tells: fn(State) -> State) -> Self {
        Self {
            bounds,
            automaton: Automaton::new(bounds.start),
            expected: BTreeMap::new(),
            tells,
            numbers: HashMap::new(),
            visited: Vec::new(),
            closed: HashSet::new(),
        }
    }

    /// All of them, or the shortest history that goes wrong, in words.
    pub(crate) fn explore(mut self) -> Result<Explored, String> {
        let bounds = self.bounds;
        let world = World::new(&bounds, &self.automaton);
        self.visit(world, 0, None)?;
        let mut number = 0;
        while let Some(visited) = self.visited.get(number) {
            let world = visited.world;
            for action in world.actions(&bounds, &self.automaton) {
                let after = world.after(action, &mut self.automaton);
                let after = after.map_err(|wrong| self.told(number, Some(action), &wrong))?;
                let next = self.visit(after, number, Some(action))?;
                self.visited[number].next.push(u32::try_from(next).unwrap_or(u32::MAX));
            }
            number += 1;
        }
        // Change, two arrivals; pull, two answers; and one commit.
        let length = usize::from(bounds.changes) * 3 + usize::from(bounds.pulls) * 3 + 1;
        Ok(Explored {
            worlds: self.visited.len(),
            steps: self.visited.iter().map(|visited| visited.next.len()).sum(),
            closings: self.closed.len(),
            automaton: self.automaton.size(),
            length,
            histories: self.histories(length),
        })
    }

    /// Visits a world unless it has been visited; its number.
    fn visit(&mut self, world: World, from: usize, by: Option<Action>) -> Result<usize, String> {
        if let Some(number) = self.numbers.get(&world) {
            return Ok(*number);
        }
        let number = self.visited.len();
        self.numbers.insert(world, number);
        self.visited.push(Visited { world, from, by, next: Vec::new() });
        let end = world.to_close();
        if self.closed.insert(end) {
            self.close(end).map_err(|wrong| self.told(number, None, &wrong))?;
        }
        Ok(number)
    }

    fn close(&mut self, end: World) -> Result<(), String> {
        let state = end.state();
        let expected = self.expected.entry(state).or_insert_with(|| Content::expected(state));
        end.close((self.tells)(state), expected, &mut self.automaton)
    }

    /// How many sequences of at most `length` steps there are.
    fn histories(&self, length: usize) -> u128 {
        let mut counts = vec![1_u128; self.visited.len()];
        for _ in 0..length {
            let after = |visited: &Visited| visited.next.iter().map(|number| counts[*number as usize]).sum::<u128>();
            counts = self.visited.iter().map(|visited| 1 + after(visited)).collect();
        }
        counts.first().copied().unwrap_or_default()
    }

    fn told(&self, mut number: usize, last: Option<Action>, wrong: &str) -> String {
        let mut steps: Vec<String> = last.iter().map(|action| format!("  {action:?}")).collect();
        while let Some(Visited { from, by: Some(action), .. }) = self.visited.get(number) {
            steps.push(format!("  {action:?}"));
            number = *from;
        }
        steps.reverse();
        format!("{wrong}, after\n{}", steps.join("\n"))
    }
}
