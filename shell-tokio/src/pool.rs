//! Connections to replicas that wait for their next request: what is closed there, and when.

use std::sync::{Arc, Weak};

use appproxy_core::exchange::{Idle, IdleAt, Line};

use crate::clock::Clock;
use crate::executor::{Timer, detach};
use crate::lane::Lane;

/// The idle connections of all replicas.
pub(crate) type Pool = Arc<Idle<Lane>>;

/// Where a connection that may serve again belongs.
#[derive(Clone)]
pub(crate) struct Slot {
    pub(crate) idle: Arc<IdleAt<Lane>>,
    pub(crate) clock: Clock,
}

impl Slot {
    /// Takes a connection back.
    pub(crate) fn put(&self, lane: Lane) {
        self.idle.put(lane, self.clock.moment());
    }
}

impl Line for Lane {
    fn is_open(&mut self) -> bool {
        Self::is_open(self)
    }
}

/// An empty pool, which closes what has been idle for too long.
pub(crate) fn start(clock: Clock) -> Pool {
    let pool = Arc::new(Idle::none());
    detach(sweep(Arc::downgrade(&pool), clock));
    pool
}

async fn sweep(pool: Weak<Idle<Lane>>, clock: Clock) {
    loop {
        Timer::after(Idle::<Lane>::FOR).await;
        let Some(pool) = pool.upgrade() else { return };
        pool.sweep(clock.moment());
    }
}
