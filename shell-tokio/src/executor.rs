//! What the files that both shells share ask of a runtime, as tokio has it: tasks, time, a switch, signals.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Sleep, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use tokio::time::Instant;

use crate::Failed;

/// A task that comes to a `T`, or to an error if it meets a fault. Dropping it ends it.
pub(crate) type Task<T> = AbortOnDropHandle<T>;

/// Makes sure that tasks can be spawned.
pub(crate) fn start() -> Result<(), Failed> {
    let entered = Handle::try_current();
    entered.map(drop).map_err(|_| Failed::run("no tokio runtime: start the worker inside of one".to_owned()))
}

/// What `future` comes to, in a runtime of its own.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failed::run(format!("no runtime: {error}")))?;
    Ok(runtime.block_on(future))
}

/// Runs `future` while the task is held.
pub(crate) fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Task<T> {
    Task::new(tokio::spawn(future))
}

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

/// SIGTERM, SIGINT and SIGHUP.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Takes the signals over from the system's default, which is to die.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next signal of any kind. SIGHUP asks a worker to read its configuration anew; a terminal that closes says it
    /// too.
    pub(crate) async fn next_of_all(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.hangup.recv() => "SIGHUP",
        }
    }
}
