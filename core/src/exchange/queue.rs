//! Requests that wait for a replica below `routing.max_in_flight`: bounded, and fair by key (data-plane 3.3).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::access::rate_ledger::LedgerKey;
use crate::limits::QUEUED_PER_POOL;
use crate::serving::PoolKey;
use crate::time::Moment;

/// A place in a queue. The shell knows a waiting request by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(u64);

/// The queues of all pools of one shard. Keys take turns; of one key the first goes first.
#[derive(Debug, Default)]
pub(super) struct WaitQueue {
    lanes: BTreeMap<PoolKey, Lane>,
    next: u64,
}

#[derive(Debug, Default)]
struct Lane {
    waiting: BTreeMap<Option<LedgerKey>, VecDeque<Waiter>>,
    /// Keys that have waiters, in the order of their turns.
    turns: VecDeque<Option<LedgerKey>>,
    /// Whose turn has come, and who have not been back since.
    called: BTreeSet<Place>,
    len: usize,
}

#[derive(Debug, Clone, Copy)]
struct Waiter {
    place: Place,
    until: Moment,
}

/// How a place stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It may take what is free.
    Next,
    /// Others come first.
    Behind,
    /// It had to make room for another key, or is over.
    Out,
}

impl WaitQueue {
    /// Whether somebody waits for this pool, so that who comes now has to wait as well.
    pub(super) fn is_waited_for(&self, pool: &PoolKey) -> bool {
        self.lanes.get(pool).is_some_and(|lane| lane.len > 0)
    }

    /// Joins at the end of its key's line. `Err`: no room. A place that has to make room for it comes along: when the
    /// queue is full, the key with the longest line gives way to one with a shorter.
    pub(super) fn join(
        &mut self,
        pool: &PoolKey,
        key: Option<LedgerKey>,
        until: Moment,
        now: Moment,
    ) -> Result<(Place, Option<Place>), NoRoom> {
        let lane = self.lanes.entry(pool.clone()).or_default();
        let mut pushed_out = None;
        if lane.len >= QUEUED_PER_POOL {
            lane.expire(now);
        }
        if lane.len >= QUEUED_PER_POOL {
            pushed_out = Some(lane.make_room(&key).ok_or(NoRoom)?);
        }
        let place = Place(self.next);
        self.next += 1;
        lane.add(key, Waiter { place, until }, false);
        Ok((place, pushed_out))
    }

    /// How a place stands.
    pub(super) fn standing(&self, pool: &PoolKey, place: Place) -> Standing {
        let Some(lane) = self.lanes.get(pool) else { return Standing::Out };
        if lane.called.contains(&place) || lane.first() == Some(place) {
            Standing::Next
        } else if lane.waiting.values().flatten().any(|waiter| waiter.place == place) {
            Standing::Behind
        } else {
            Standing::Out
        }
    }

    /// Its turn had come, and somebody else was faster: it waits on, before all others.
    pub(super) fn wait_on(&mut self, pool: &PoolKey, key: Option<LedgerKey>, place: Place, until: Moment) {
        if let Some(lane) = self.lanes.get_mut(pool)
            && lane.called.remove(&place)
        {
            lane.add(key, Waiter { place, until }, true);
        }
    }

    /// Leaves for good, served or not. Whoever was called and leaves unserved should pass the call on by
    /// [`Self::freed`].
    pub(super) fn leave(&mut self, pool: &PoolKey, place: Place) {
        if let Some(lane) = self.lanes.get_mut(pool) {
            if !lane.called.remove(&place) {
                lane.retain(|waiter| waiter.place != place);
            }
            self.drop_if_empty(pool);
        }
    }

    /// A replica of this pool has room: who goes next.
    pub(super) fn freed(&mut self, pool: &PoolKey, now: Moment) -> Option<Place> {
        let lane = self.lanes.get_mut(pool)?;
        let place = lane.call(now);
        self.drop_if_empty(pool);
        place
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.lanes.values().map(|lane| lane.len).sum()
    }

    fn drop_if_empty(&mut self, pool: &PoolKey) {
        if self.lanes.get(pool).is_some_and(|lane| lane.len == 0 && lane.called.is_empty()) {
            self.lanes.remove(pool);
        }
    }
}

/// The queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoRoom;

impl Lane {
    fn add(&mut self, key: Option<LedgerKey>, waiter: Waiter, in_front: bool) {
        let line = self.waiting.entry(key.clone()).or_default();
        if in_front {
            line.push_front(waiter);
            self.turns.retain(|other| *other != key);
            self.turns.push_front(key);
        } else {
            line.push_back(waiter);
            if line.len() == 1 {
                self.turns.push_back(key);
            }
        }
        self.len += 1;
    }

    fn first(&self) -> Option<Place> {
        Some(self.waiting.get(self.turns.front()?)?.front()?.place)
    }

    /// Calls the first whose time is not over.
    fn call(&mut self, now: Moment) -> Option<Place> {
        while let Some(key) = self.turns.pop_front() {
            let Some(line) = self.waiting.get_mut(&key) else { continue };
            let mut called = None;
            while let Some(waiter) = line.pop_front() {
                self.len -= 1;
                if now < waiter.until {
                    called = Some(waiter.place);
                    break;
                }
            }
            if line.is_empty() {
                self.waiting.remove(&key);
            } else {
                self.turns.push_back(key);
            }
            if let Some(place) = called {
                self.called.insert(place);
                return Some(place);
            }
        }
        None
    }

    fn expire(&mut self, now: Moment) {
        self.retain(|waiter| now < waiter.until);
    }

    fn retain(&mut self, keep: impl Fn(&Waiter) -> bool) {
        for line in self.waiting.values_mut() {
            line.retain(&keep);
        }
        self.waiting.retain(|_, line| !line.is_empty());
        self.len = self.waiting.values().map(VecDeque::len).sum();
        let waiting = &self.waiting;
        self.turns.retain(|key| waiting.contains_key(key));
    }

    /// Sends away the last of the longest line, when that is longer than `key`'s own will be.
    fn make_room(&mut self, key: &Option<LedgerKey>) -> Option<Place> {
        let own = self.waiting.get(key).map_or(0, VecDeque::len);
        let (_, line) = self.waiting.iter_mut().max_by_key(|(_, line)| line.len())?;
        if line.len() <= own + 1 {
            return None;
        }
        let last = line.pop_back()?;
        self.len -= 1;
        Some(last.place)
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
