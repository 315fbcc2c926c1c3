//! Timers that cost no system call to set: a thread of their own looks after all of them, and is woken only by one that
//! is due before the next it waits for. (async-io's own write to the reactor's event file each time, which at one timer
//! or two a request was a tenth of what a request cost.)

use core::pin::Pin;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Context, Poll, Waker};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::Instant;

use appproxy_driver::Timer;

/// How many parts the alarms are cut into, so that requests do not queue at one lock.
const PARTS: usize = 8;

type Key = (Instant, u64);
type Part = Mutex<BTreeMap<Key, Waker>>;

struct Alarms {
    parts: [Part; PARTS],
    began: Instant,
    /// When the thread looks again, in nanoseconds since `began`; the largest number while it is looking.
    planned: AtomicU64,
    next: AtomicU64,
    thread: OnceLock<Thread>,
}

impl Alarms {
    fn get() -> &'static Self {
        static ALARMS: OnceLock<Alarms> = OnceLock::new();
        ALARMS.get_or_init(|| Self {
            parts: Default::default(),
            began: Instant::now(),
            planned: AtomicU64::new(u64::MAX),
            next: AtomicU64::new(0),
            thread: OnceLock::new(),
        })
    }

    fn part(&self, (_, number): Key) -> MutexGuard<'_, BTreeMap<Key, Waker>> {
        let [first, ..] = &self.parts;
        let at = usize::try_from(number).unwrap_or_default() % PARTS;
        lock(self.parts.get(at).unwrap_or(first))
    }

    fn since_began(&self, instant: Instant) -> u64 {
        u64::try_from(instant.saturating_duration_since(self.began).as_nanos()).unwrap_or(u64::MAX - 1)
    }

    fn set(&self, key: Key, waker: Waker) {
        // What was there before is dropped when the lock is free again.
        let _before = self.part(key).insert(key, waker);
        // The thread either sees the entry when it looks or is seen looking here: both orders are total.
        if self.since_began(key.0) < self.planned.load(Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Wakes what is due, and says when the next is.
    fn ring(&self) -> Option<Instant> {
        let now = Instant::now();
        let (mut due, mut next) = (Vec::new(), None);
        for part in &self.parts {
            let mut part = lock(part);
            while let Some(first) = part.first_entry() {
                let (at, _) = *first.key();
                if at > now {
                    next = Some(next.map_or(at, |next: Instant| next.min(at)));
                    break;
                }
                due.push(first.remove());
            }
        }
        due.into_iter().for_each(Waker::wake);
        next
    }

    fn look_after(&self) {
        loop {
            // Whoever sets an alarm from now on unparks this thread, which therefore looks once more.
            self.planned.store(u64::MAX, Ordering::SeqCst);
            let next = self.ring();
            self.planned.store(next.map_or(u64::MAX, |next| self.since_began(next)), Ordering::SeqCst);
            match next {
                Some(next) => thread::park_timeout(next.saturating_duration_since(Instant::now())),
                None => thread::park(),
            }
        }
    }
}

fn lock(part: &Part) -> MutexGuard<'_, BTreeMap<Key, Waker>> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the thread; once is enough.
pub(crate) fn start() -> std::io::Result<()> {
    let alarms = Alarms::get();
    let thread = thread::Builder::new().name("alarms".to_owned()).spawn(|| alarms.look_after())?.thread().clone();
    drop(alarms.thread.set(thread.clone()));
    // Alarms may have been set before there was a thread to tell.
    thread.unpark();
    Ok(())
}

/// Resolves at its instant.
#[derive(Debug)]
pub struct Alarm {
    at: Instant,
    set: Option<(Key, Waker)>,
}

impl Timer for Alarm {
    fn at(at: Instant) -> Self {
        Self { at, set: None }
    }

    fn set_at(&mut self, at: Instant) {
        self.unset();
        self.at = at;
    }
}

impl Alarm {
    fn unset(&mut self) {
        if let Some((key, _)) = self.set.take() {
            let removed = Alarms::get().part(key).remove(&key);
            drop(removed);
        }
    }
}

impl Future for Alarm {
    type Output = Instant;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Instant> {
        if Instant::now() >= self.at {
            self.unset();
            return Poll::Ready(self.at);
        }
        if self.set.as_ref().is_none_or(|(_, waker)| !waker.will_wake(cx.waker())) {
            let alarms = Alarms::get();
            let key = match self.set.take() {
                Some((key, _)) => key,
                None => (self.at, alarms.next.fetch_add(1, Ordering::Relaxed)),
            };
            alarms.set(key, cx.waker().clone());
            self.set = Some((key, cx.waker().clone()));
        }
        Poll::Pending
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.unset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Smol;
    use appproxy_driver::Runtime;
    use core::time::Duration;

    #[test]
    fn a_timer_set_behind_a_later_one_comes_first() {
        Smol::start().expect("threads");
        let mut late = core::pin::pin!(Smol::spawn(Alarm::after(Duration::from_secs(3_600))));
        let began = Instant::now();
        for wait in [40, 20, 0] {
            let wait = Duration::from_millis(wait);
            let at = smol::block_on(Alarm::after(wait));
            assert!(at >= began + wait && Instant::now() >= at);
        }
        assert!(late.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }

    #[test]
    fn a_timer_that_is_moved_or_dropped_leaves_nothing_behind() {
        Smol::start().expect("threads");
        let mut timer = Alarm::after(Duration::from_secs(3_600));
        assert!(Pin::new(&mut timer).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let key = timer.set.as_ref().expect("it is set").0;
        assert!(Alarms::get().part(key).contains_key(&key));
        timer.set_at(Instant::now());
        assert!(!Alarms::get().part(key).contains_key(&key));
        smol::block_on(timer);
        let mut timer = Alarm::after(Duration::MAX);
        assert!(Pin::new(&mut timer).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let key = timer.set.as_ref().expect("it is set").0;
        drop(timer);
        assert!(!Alarms::get().part(key).contains_key(&key));
    }

    #[test]
    fn many_timers_of_many_tasks_all_come() {
        Smol::start().expect("threads");
        let tasks: Vec<_> =
            (0..200).map(|number| Smol::spawn(Alarm::after(Duration::from_millis(number % 17)))).collect();
        for task in tasks {
            let at = smol::block_on(task).expect("no fault");
            assert!(Instant::now() >= at);
        }
    }
}
