//! How busy and how fast each replica is, as this node sees it. What strategies compare (data-plane 3.3).

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::serving::ServingView;
use crate::time::Moment;

/// A new sample moves the average by this part, as a shift: a quarter.
const SAMPLE_SHIFT: u32 = 2;

/// One replica's load. A cell of counters, so that a request that ends anywhere, by whatever way, gives its place back.
#[derive(Debug, Default)]
pub struct Load {
    in_flight: AtomicU32,
    /// Moving average of the time to first byte in microseconds; 0 is none yet.
    first_byte: AtomicU64,
    /// When the last sample came, in milliseconds.
    sampled: AtomicU64,
}

impl Load {
    /// Requests that it has not finished answering.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Moving average of its time to first byte; `None`: it has not answered yet.
    #[must_use]
    pub fn first_byte(&self) -> Option<Duration> {
        let micros = self.first_byte.load(Ordering::Relaxed);
        (micros > 0).then(|| Duration::from_micros(micros))
    }

    /// When that average last moved.
    pub(super) fn sampled(&self) -> Moment {
        Moment::from_millis(self.sampled.load(Ordering::Relaxed))
    }

    /// Adds a sample. Of two at once one may be lost, which an average can bear.
    pub(super) fn note_first_byte(&self, took: Duration, now: Moment) {
        let sample = u64::try_from(took.as_micros()).unwrap_or(u64::MAX >> SAMPLE_SHIFT).max(1);
        let before = self.first_byte.load(Ordering::Relaxed);
        let after = match before {
            0 => sample,
            _ => (before - (before >> SAMPLE_SHIFT)).saturating_add(sample >> SAMPLE_SHIFT).max(1),
        };
        self.first_byte.store(after, Ordering::Relaxed);
        self.sampled.store(now.as_millis(), Ordering::Relaxed);
    }
}

/// One request's place at a replica. Dropping it gives the place back.
#[derive(Debug)]
#[must_use = "dropping a ticket gives the place back"]
pub struct Ticket {
    load: Arc<Load>,
}

impl Ticket {
    pub(super) fn take(load: &Arc<Load>) -> Self {
        load.in_flight.fetch_add(1, Ordering::Relaxed);
        Self { load: load.clone() }
    }

    /// Whose place it is.
    pub(super) fn load(&self) -> &Load {
        &self.load
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.load.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The loads of all replicas by backend name. Copies are handles to the same loads: one for each shard of
/// [`super::selection::Selection`], so that a replica in several pools is counted once.
///
/// The lock is held while a pool that changed is gone through, and for pages; never for a pick.
#[derive(Debug, Clone, Default)]
pub struct Loads {
    held: Arc<Mutex<BTreeMap<Arc<str>, Arc<Load>>>>,
}

impl Loads {
    /// Nothing in flight.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The load of a backend. A replica with another `route_id` has another name, and begins anew.
    pub(super) fn of(&self, name: &Arc<str>) -> Arc<Load> {
        self.lock().entry(name.clone()).or_default().clone()
    }

    /// The load of a backend that was picked before, for pages and metrics.
    #[must_use]
    pub fn look(&self, name: &str) -> Option<Arc<Load>> {
        self.lock().get(name).cloned()
    }

    /// Lets go of backends that this view does not have and nothing is running at. Call it with each new view.
    pub fn forget_absent(&self, view: &ServingView) {
        self.lock().retain(|name, load| load.in_flight() > 0 || view.backend(name).is_some());
    }

    /// How many backends are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether none is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Arc<Load>>> {
        // A map is whole at any moment.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
