//! Connections to replicas that wait for their next request, for each replica apart.

use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::executor::{Instant, Timer, detach};
use crate::lane::Lane;
use crate::peer::Peer;

/// Below the 5 s after which uvicorn, which most LLM servers stand on, closes an idle connection.
const IDLE: Duration = Duration::from_secs(4);
/// Idle connections kept per replica; bursts beyond it connect anew.
const IDLE_PER_REPLICA: usize = 256;
/// How many parts the replicas are cut into, so that requests do not queue at one lock.
const PARTS: usize = 16;

/// The idle connections of one replica.
pub(crate) struct Slot {
    peer: Peer,
    /// The newest last; `None` once the replica is gone.
    idle: Mutex<Option<Vec<(Instant, Lane)>>>,
}

impl Slot {
    fn idle(&self) -> MutexGuard<'_, Option<Vec<(Instant, Lane)>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where it leads.
    pub(crate) const fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The connection that was used last; none that has been idle too long or is known to be closed.
    pub(crate) fn take(&self) -> Option<Lane> {
        loop {
            let (since, mut lane) = self.idle().as_mut()?.pop()?;
            if since.elapsed() < IDLE && lane.is_open() {
                return Some(lane);
            }
        }
    }

    /// Keeps a connection; one of a replica that is gone is closed.
    pub(crate) fn put(&self, lane: Lane) {
        let mut idle = self.idle();
        if let Some(idle) = idle.as_mut().filter(|idle| idle.len() < IDLE_PER_REPLICA) {
            idle.push((Instant::now(), lane));
        }
    }

    /// Closes what is idle, and what will be.
    fn close(&self) {
        // Closed when the lock is free again.
        let idle = self.idle().take();
        drop(idle);
    }

    fn sweep(&self) {
        if let Some(idle) = self.idle().as_mut() {
            idle.retain_mut(|(since, lane)| since.elapsed() < IDLE && lane.is_open());
        }
    }
}

type Slots = [Mutex<HashMap<Arc<str>, Arc<Slot>>>; PARTS];

/// The idle connections of all replicas. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Pool(Arc<Slots>);

impl Pool {
    /// An empty pool, which closes what has been idle for too long.
    pub(crate) fn start() -> Self {
        let pool = Self(Arc::new(Slots::default()));
        detach(sweep(Arc::downgrade(&pool.0)));
        pool
    }

    /// Those of the backend of this name, which is at `peer`.
    pub(crate) fn slot(&self, backend: &Arc<str>, peer: Peer) -> Arc<Slot> {
        let mut slots = lock(part(&self.0, backend));
        match slots.get(backend) {
            Some(slot) if slot.peer == peer => slot.clone(),
            _ => {
                let slot = Arc::new(Slot { peer, idle: Mutex::new(Some(Vec::new())) });
                if let Some(moved) = slots.insert(backend.clone(), slot.clone()) {
                    moved.close();
                }
                slot
            }
        }
    }

    /// Closes the connections of backends that are gone; those under way end with their answers.
    pub(crate) fn forget<'a>(&self, backends: impl Iterator<Item = &'a Arc<str>>) {
        for backend in backends {
            if let Some(slot) = lock(part(&self.0, backend)).remove(backend) {
                slot.close();
            }
        }
    }
}

fn part<'a>(slots: &'a Slots, backend: &str) -> &'a Mutex<HashMap<Arc<str>, Arc<Slot>>> {
    let sum = backend.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let [first, ..] = slots;
    slots.get(sum % PARTS).unwrap_or(first)
}

fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn sweep(slots: Weak<Slots>) {
    loop {
        Timer::after(IDLE).await;
        let Some(slots) = slots.upgrade() else { return };
        slots.iter().for_each(|part| lock(part).values().for_each(|slot| slot.sweep()));
    }
}
