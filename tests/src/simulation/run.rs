//! One run: a seed, its world, and what came of it.

use core::fmt;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::broken::Broken;
use super::fault::Fault;
use super::totals::Totals;
use super::world::World;

/// Which workers live in a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// ROUTER workers: publications and keys.
    Router,
    /// Legacy wildcard workers: sub-domains and access tokens.
    Legacy,
}

/// Which worlds there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kinds {
    /// Of this kind.
    Only(Kind),
    /// Of both: the seed chooses.
    Both,
}

impl Kinds {
    /// The kind of a seed's world.
    #[must_use]
    pub const fn of(self, seed: u64) -> Kind {
        match self {
            Self::Only(kind) => kind,
            Self::Both if seed.is_multiple_of(2) => Kind::Router,
            Self::Both => Kind::Legacy,
        }
    }
}

/// How runs are made; everything but the seed.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Which workers live in the worlds.
    pub kinds: Kinds,
    /// Nodes of the authority.
    pub nodes: usize,
    /// Steps before the faults end.
    pub steps: u64,
    /// Kinds of fault that are always on, and strong.
    pub aim: Vec<Fault>,
    /// Kinds that are off.
    pub off: Vec<Fault>,
    /// Only these strikes and changes happen, by number; `None`: all.
    pub only: Option<Arc<BTreeSet<u64>>>,
    /// Whether everything is printed as it happens.
    pub trace: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            kinds: Kinds::Only(Kind::Router),
            nodes: 3,
            steps: 300,
            aim: Vec::new(),
            off: Vec::new(),
            only: None,
            trace: false,
        }
    }
}

/// A run in which a rule did not hold.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The step at which it was seen.
    pub step: u64,
    /// The time, in milliseconds.
    pub at: u64,
    /// The rule.
    pub broken: Broken,
    /// The strikes and changes that had happened.
    pub struck: Vec<u64>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Broken { invariant, detail } = &self.broken;
        writeln!(f, "seed {} FAILED at step {}, {}.{:03} s", self.seed, self.step, self.at / 1000, self.at % 1000)?;
        writeln!(f, "  rule:   {invariant}")?;
        write!(f, "  seen:   {detail}")
    }
}

/// Runs one seed.
///
/// # Errors
/// The failure, and what was seen up to it.
pub fn run(seed: u64, plan: &Plan) -> Result<Totals, Box<(Failure, Totals)>> {
    let mut world = World::new(seed, plan.kinds.of(seed), plan.nodes, &plan.off, &plan.aim);
    world.only.clone_from(&plan.only);
    world.trace = plan.trace;
    let result = (0..plan.steps).try_for_each(|_| world.step()).and_then(|()| world.heals());
    match result {
        Ok(()) => Ok(world.totals),
        Err(broken) => {
            let failure = Failure { seed, step: world.totals.steps, at: world.now, broken, struck: world.struck };
            Err(Box::new((failure, world.totals)))
        }
    }
}

/// Cuts a failing run down: fewer strikes and changes that still break the same rule.
#[must_use]
pub fn shrink(failure: &Failure, plan: &Plan) -> (Failure, Plan) {
    let (mut best, mut plan) = (failure.clone(), Plan { trace: false, ..plan.clone() });
    let mut size = best.struck.len().div_ceil(2).max(1);
    loop {
        let mut from = 0;
        let mut cut = false;
        while from < best.struck.len() {
            let kept = best.struck.iter().enumerate().filter(|(at, _)| !(from..from + size).contains(at));
            let only: BTreeSet<u64> = kept.map(|(_, number)| *number).collect();
            let smaller = Plan { only: Some(Arc::new(only)), ..plan.clone() };
            match run(failure.seed, &smaller) {
                Err(found) if found.0.broken.invariant == failure.broken.invariant => {
                    (best, plan, cut) = (found.0, smaller, true);
                }
                _ => from += size,
            }
        }
        if size == 1 && !cut {
            return (best, plan);
        }
        size = (size / 2).max(1);
    }
}
