//! Connections to replicas that wait for their next request: what is closed there, and when.

use std::sync::{Arc, Weak};

use appproxy_core::exchange::{Idle, IdleAt, Line};

use crate::clock::Clock;
use crate::lane::Lane;
use crate::runtime::{Runtime, Timer};

/// The idle connections of all replicas.
pub(crate) type Pool<R> = Arc<Idle<Lane<R>>>;

/// Where a connection that may serve again belongs.
#[derive(Clone)]
pub(crate) struct Slot<R: Runtime> {
    pub(crate) idle: Arc<IdleAt<Lane<R>>>,
    pub(crate) clock: Clock,
}

impl<R: Runtime> Slot<R> {
    /// Takes a connection back.
    pub(crate) fn put(&self, lane: Lane<R>) {
        self.idle.put(lane, self.clock.moment());
    }
}

impl<R: Runtime> Line for Lane<R> {
    fn is_open(&mut self) -> bool {
        Self::is_open(self)
    }
}

/// An empty pool, which closes what has been idle for too long.
pub(crate) fn start<R: Runtime>(clock: Clock) -> Pool<R> {
    let pool = Arc::new(Idle::none());
    R::detach(sweep(Arc::downgrade(&pool), clock));
    pool
}

async fn sweep<R: Runtime>(pool: Weak<Idle<Lane<R>>>, clock: Clock) {
    loop {
        R::Timer::after(Idle::<Lane<R>>::FOR).await;
        let Some(pool) = pool.upgrade() else { return };
        pool.sweep(clock.moment());
    }
}
