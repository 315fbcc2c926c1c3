//! This process's executor: one for the whole program, driven by threads of our own, one for each core (smol's global
//! executor has one thread unless the environment says otherwise). Also what smol leaves to its users: time limits, a
//! switch that many wait for, signals.

use core::convert::Infallible;
use core::time::Duration;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use async_channel::{Receiver, Sender, bounded};
use async_executor::StaticExecutor;
use async_signal::{Signal, Signals as Stream};
use futures_util::FutureExt;
use futures_util::future::CatchUnwind;
use smol::future::{or, pending, yield_now};
use smol::stream::StreamExt;

pub(crate) use crate::alarm::Timer;
pub(crate) use std::time::Instant;

use crate::{Failed, alarm};

static EXECUTOR: StaticExecutor = StaticExecutor::new();

/// Tasks in a row before a thread looks what its sockets have to say: a thread that is away from them for longer has the
/// reactor's own thread step in, and with one core the two then take turns.
const TURNS: usize = 8;

/// Starts the threads, at the first call.
pub(crate) fn start() -> Result<(), Failed> {
    static STARTED: OnceLock<Result<(), Failed>> = OnceLock::new();
    STARTED.get_or_init(start_threads).clone()
}

fn start_threads() -> Result<(), Failed> {
    alarm::start().map_err(|error| Failed::run(format!("no thread for timers: {error}")))?;
    let count = thread::available_parallelism().map_or(1, core::num::NonZero::get);
    for number in 0..count {
        let started = thread::Builder::new().name(format!("smol-{number}")).spawn(|| smol::block_on(drive()));
        if let Err(error) = started {
            return Err(Failed::run(format!("no thread for the executor: {error}")));
        }
    }
    Ok(())
}

async fn drive() -> Infallible {
    loop {
        for _ in 0..TURNS {
            EXECUTOR.tick().await;
        }
        yield_now().await;
    }
}

/// What `future` comes to, in this thread; what it spawns runs in the others.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failed> {
    start()?;
    Ok(smol::block_on(future))
}

/// A task that comes to a `T`, or to an error if it meets a fault. Dropping it ends it.
pub(crate) type Task<T> = CatchUnwind<AssertUnwindSafe<async_executor::Task<T>>>;

/// Runs `future` while the task is held.
pub(crate) fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Task<T> {
    AssertUnwindSafe(EXECUTOR.spawn(future)).catch_unwind()
}

/// Runs `future` to its end.
pub(crate) fn detach(future: impl Future<Output: Send + 'static> + Send + 'static) {
    EXECUTOR.spawn(future).detach();
}

/// Does `work` where it may take a while; it is done to its end, whoever waits. `None`: it met a fault.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (tell, told) = bounded(1);
    smol::unblock(move || drop(tell.try_send(work()))).detach();
    told.recv().await.ok()
}

/// What `work` comes to, unless it takes longer than `limit`.
pub(crate) fn within<T>(limit: Duration, work: impl Future<Output = T>) -> impl Future<Output = Option<T>> {
    before(Timer::after(limit), work)
}

/// The same, until an instant.
pub(crate) fn until<T>(limit: Instant, work: impl Future<Output = T>) -> impl Future<Output = Option<T>> {
    before(Timer::at(limit), work)
}

fn before<T>(timer: Timer, work: impl Future<Output = T>) -> impl Future<Output = Option<T>> {
    or(FutureExt::map(work, Some), FutureExt::map(timer, |_| None))
}

/// A switch that is turned once, and that many wait for.
#[derive(Debug, Clone)]
pub(crate) struct Switch(Arc<Turning>);

#[derive(Debug)]
struct Turning {
    turned: AtomicBool,
    turn: Sender<Infallible>,
    wait: Receiver<Infallible>,
}

impl Default for Switch {
    fn default() -> Self {
        let (turn, wait) = bounded(1);
        Self(Arc::new(Turning { turned: AtomicBool::new(false), turn, wait }))
    }
}

impl Switch {
    /// Turns it, for good.
    pub(crate) fn turn(&self) {
        self.0.turned.store(true, Ordering::Release);
        self.0.turn.close();
    }

    /// Whether it is turned: without a lock, for those who ask often.
    pub(crate) fn is_turned(&self) -> bool {
        self.0.turned.load(Ordering::Acquire)
    }

    /// Resolves when it is turned.
    pub(crate) fn turned(&self) -> impl Future<Output = ()> + Send + use<> {
        let wait = self.0.wait.clone();
        // Nothing is ever sent: the channel closes.
        async move { while wait.recv().await.is_ok() {} }
    }
}

/// SIGTERM, SIGINT and SIGHUP.
pub(crate) struct Signals(Stream);

impl Signals {
    /// Takes the signals over from the system's default, which is to die.
    pub(crate) fn listen() -> io::Result<Self> {
        Stream::new([Signal::Term, Signal::Int, Signal::Hup]).map(Self)
    }

    /// The next signal of any kind. SIGHUP asks a worker to read its configuration anew; a terminal that closes says it
    /// too.
    pub(crate) async fn next_of_all(&mut self) -> &'static str {
        loop {
            match StreamExt::next(&mut self.0).await {
                Some(Ok(Signal::Term)) => return "SIGTERM",
                Some(Ok(Signal::Int)) => return "SIGINT",
                Some(Ok(Signal::Hup)) => return "SIGHUP",
                Some(Ok(_)) => {}
                Some(Err(error)) => tracing::warn!(%error, "a signal could not be read"),
                None => pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_waiter_hears_of_a_switch() {
        start().expect("threads");
        let switch = Switch::default();
        let waiters: Vec<_> = (0..3).map(|_| spawn(switch.turned())).collect();
        assert!(!switch.is_turned());
        assert_eq!(smol::block_on(within(Duration::from_millis(1), switch.turned())), None);
        switch.turn();
        for waiter in waiters {
            assert!(matches!(smol::block_on(within(Duration::from_secs(10), waiter)), Some(Ok(()))));
        }
        assert!(switch.is_turned());
    }

    #[test]
    fn work_has_its_time_and_no_more() {
        assert_eq!(smol::block_on(until(Instant::now(), pending::<()>())), None);
        assert_eq!(smol::block_on(within(Duration::from_secs(60), async { 7 })), Some(7));
    }
}
