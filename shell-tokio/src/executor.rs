//! What the files that both shells share ask of a runtime, as tokio has it.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use tokio::time::{Sleep, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

pub(crate) use tokio::time::Instant;

/// Runs `future` to its end.
pub(crate) fn detach(future: impl Future<Output: Send> + Send + 'static) {
    drop(tokio::spawn(future));
}

/// Does `work` where it may take a while; it is done to its end, whoever waits. `None`: it met a fault.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Some(done),
        Err(error) if error.is_panic() => None,
        // A runtime that ends drops us here anyway.
        Err(_) => core::future::pending().await,
    }
}

/// What `work` comes to, unless it takes longer than `limit`.
pub(crate) fn within<T>(limit: Duration, work: impl Future<Output = T>) -> impl Future<Output = Option<T>> {
    tokio::time::timeout(limit, work).map(Result::ok)
}

/// The same, until an instant.
pub(crate) fn until<T>(limit: Instant, work: impl Future<Output = T>) -> impl Future<Output = Option<T>> {
    tokio::time::timeout_at(limit, work).map(Result::ok)
}

/// Resolves at its instant.
#[derive(Debug)]
pub(crate) struct Timer(Pin<Box<Sleep>>);

impl Timer {
    pub(crate) fn at(instant: Instant) -> Self {
        Self(Box::pin(sleep_until(instant)))
    }

    pub(crate) fn after(wait: Duration) -> Self {
        Self(Box::pin(sleep(wait)))
    }

    pub(crate) fn set_at(&mut self, instant: Instant) {
        self.0.as_mut().reset(instant);
    }
}

impl Future for Timer {
    type Output = Instant;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Instant> {
        ready!(self.0.as_mut().poll(cx));
        Poll::Ready(self.0.deadline())
    }
}

/// A switch that is turned once, and that many wait for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Switch(Arc<Turning>);

#[derive(Debug, Default)]
struct Turning {
    turned: AtomicBool,
    turn: CancellationToken,
}

impl Switch {
    /// Turns it, for good.
    pub(crate) fn turn(&self) {
        self.0.turned.store(true, Ordering::Release);
        self.0.turn.cancel();
    }

    /// Whether it is turned: without a lock, for those who ask often.
    pub(crate) fn is_turned(&self) -> bool {
        self.0.turned.load(Ordering::Acquire)
    }

    /// Resolves when it is turned.
    pub(crate) fn turned(&self) -> impl Future<Output = ()> + Send + use<> {
        self.0.turn.clone().cancelled_owned()
    }
}
