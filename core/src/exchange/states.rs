//! The states that all requests of one node share.

use core::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::budget::RetryBudget;
use super::load::Loads;
use super::selection::Selection;
use crate::access::rate_ledger::{LedgerKey, RateLedger};
use crate::seed::Draws;
use crate::serving::{PoolKey, ServingView};

/// How many parts each state is cut into, so that threads do not queue at one lock.
pub(super) const PARTS: usize = 16;

/// What draws, counts and spends: one of each kind for every model, key or request, in a few parts. Each lock is to be
/// held for one call.
pub struct States {
    selections: [Mutex<Selection>; PARTS],
    loads: Loads,
    budget: Mutex<RetryBudget>,
    ledgers: [Mutex<RateLedger>; PARTS],
    draws: [Mutex<Draws>; PARTS],
    next_draw: AtomicUsize,
}

impl States {
    /// The states of a node that has not seen a request; all chance follows from `draws`.
    #[must_use]
    pub fn new(mut draws: Draws) -> Self {
        let loads = Loads::new();
        Self {
            selections: core::array::from_fn(|_| Mutex::new(Selection::counting_in(&loads))),
            loads,
            budget: Mutex::default(),
            ledgers: core::array::from_fn(|_| Mutex::default()),
            draws: core::array::from_fn(|_| Mutex::new(draws.child())),
            next_draw: AtomicUsize::new(0),
        }
    }

    /// The draw state that belongs to `pool`.
    pub fn selection(&self, pool: &PoolKey) -> MutexGuard<'_, Selection> {
        part(&self.selections, pool)
    }

    /// How busy the replicas are.
    #[must_use]
    pub const fn loads(&self) -> &Loads {
        &self.loads
    }

    /// What retries are left.
    pub fn budget(&self) -> MutexGuard<'_, RetryBudget> {
        lock(&self.budget)
    }

    /// The ledger that counts for `key`.
    pub fn ledger(&self, key: &LedgerKey) -> MutexGuard<'_, RateLedger> {
        part(&self.ledgers, key)
    }

    /// One of the streams of draws, each in its turn.
    pub fn draws(&self) -> MutexGuard<'_, Draws> {
        part(&self.draws, &self.next_draw.fetch_add(1, Ordering::Relaxed))
    }

    /// Lets go of the loads of backends that `view` has not.
    pub fn forget_absent(&self, view: &ServingView) {
        self.loads.forget_absent(view);
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("States").finish_non_exhaustive()
    }
}

pub(super) fn part<'a, T>(parts: &'a [Mutex<T>; PARTS], by: &impl Hash) -> MutexGuard<'a, T> {
    let mut hasher = DefaultHasher::new();
    by.hash(&mut hasher);
    let index = usize::try_from(hasher.finish() % (PARTS as u64)).unwrap_or(0);
    let [first, ..] = parts;
    lock(parts.get(index).unwrap_or(first))
}

/// A panic elsewhere must not close a part for ever: its plain data is usable at any moment.
pub(super) fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}
