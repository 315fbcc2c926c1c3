//! Connections to replicas that wait for their next request, for each replica apart.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use super::states::{PARTS, lock, part};
use crate::desired::Origin;
use crate::limits;
use crate::time::Moment;

/// What waits: a shell's connection.
pub trait Line {
    /// Whether it still is there.
    fn is_open(&mut self) -> bool;
}

/// The idle connections to one replica.
#[derive(Debug)]
pub struct IdleAt<L> {
    origin: Origin,
    /// The newest last; `None` once the replica is gone.
    idle: Mutex<Option<Vec<(Moment, L)>>>,
}

impl<L: Line> IdleAt<L> {
    fn idle(&self) -> MutexGuard<'_, Option<Vec<(Moment, L)>>> {
        lock(&self.idle)
    }

    /// Where they lead.
    #[must_use]
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The connection that was used last; none that has been idle too long or is known to be closed.
    #[must_use]
    pub fn take(&self, now: Moment) -> Option<L> {
        loop {
            let (since, mut line) = self.idle().as_mut()?.pop()?;
            if now.since(since) < Idle::<L>::FOR && line.is_open() {
                return Some(line);
            }
        }
    }

    /// Keeps a connection; one of a replica that is gone, and one too many, is closed.
    pub fn put(&self, line: L, now: Moment) {
        let mut idle = self.idle();
        if let Some(idle) = idle.as_mut().filter(|idle| idle.len() < limits::IDLE_LINES) {
            idle.push((now, line));
        }
    }

    /// Closes what is idle, and what will be.
    fn close(&self) {
        // Closed when the lock is free again.
        let idle = self.idle().take();
        drop(idle);
    }

    fn sweep(&self, now: Moment) {
        if let Some(idle) = self.idle().as_mut() {
            idle.retain_mut(|(since, line)| now.since(*since) < Idle::<L>::FOR && line.is_open());
        }
    }
}

/// The idle connections to all replicas, by the names of their backends.
#[derive(Debug)]
pub struct Idle<L>([Mutex<ByBackend<L>>; PARTS]);

type ByBackend<L> = BTreeMap<Arc<str>, Arc<IdleAt<L>>>;

impl<L: Line> Idle<L> {
    /// How long a connection is kept idle: below the 5 s after which uvicorn, which most LLM servers stand on, closes it.
    pub const FOR: Duration = Duration::from_secs(4);

    /// None.
    #[must_use]
    pub fn none() -> Self {
        Self(core::array::from_fn(|_| Mutex::default()))
    }

    /// Those of the backend of this name, which is at `origin`.
    #[must_use]
    pub fn at(&self, backend: &Arc<str>, origin: &Origin) -> Arc<IdleAt<L>> {
        let mut slots = part(&self.0, backend);
        match slots.get(backend) {
            Some(slot) if slot.origin == *origin => slot.clone(),
            _ => {
                let slot = Arc::new(IdleAt { origin: origin.clone(), idle: Mutex::new(Some(Vec::new())) });
                if let Some(moved) = slots.insert(backend.clone(), slot.clone()) {
                    moved.close();
                }
                slot
            }
        }
    }

    /// Closes the connections of backends that are gone; those under way end with their answers.
    pub fn forget<'a>(&self, backends: impl Iterator<Item = &'a Arc<str>>) {
        for backend in backends {
            if let Some(slot) = part(&self.0, backend).remove(backend) {
                slot.close();
            }
        }
    }

    /// Closes what has been idle for too long; to be called every [`Self::FOR`].
    pub fn sweep(&self, now: Moment) {
        self.0.iter().for_each(|part| lock(part).values().for_each(|slot| slot.sweep(now)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    /// A connection that can be counted, and closed by its other side.
    struct Counted(u32, Arc<(AtomicUsize, AtomicBool)>);

    impl Line for Counted {
        fn is_open(&mut self) -> bool {
            !self.1.1.load(Ordering::Relaxed)
        }
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            self.1.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[derive(Default)]
    struct Replica(Arc<(AtomicUsize, AtomicBool)>);

    impl Replica {
        fn line(&self, number: u32) -> Counted {
            self.0.0.fetch_add(1, Ordering::Relaxed);
            Counted(number, self.0.clone())
        }

        fn open(&self) -> usize {
            self.0.0.load(Ordering::Relaxed)
        }
    }

    fn origin(uri: &'static str) -> Origin {
        Origin::of(&http::Uri::from_static(uri)).unwrap()
    }

    fn at(idle: &Idle<Counted>) -> Arc<IdleAt<Counted>> {
        idle.at(&"r".into(), &origin("http://r"))
    }

    fn seconds(seconds: u64) -> Moment {
        Moment::from_millis(seconds * 1000)
    }

    #[test]
    fn the_newest_is_taken_and_none_that_is_too_old_or_closed() {
        let (idle, replica) = (Idle::none(), Replica::default());
        let slot = at(&idle);
        (0..3).for_each(|number| slot.put(replica.line(number), seconds(number.into())));
        assert_eq!(slot.take(seconds(5)).map(|line| line.0), Some(2));
        assert_eq!((slot.take(seconds(5)).map(|line| line.0), replica.open()), (None, 0), "4 s are over");
        slot.put(replica.line(3), seconds(5));
        replica.0.1.store(true, Ordering::Relaxed);
        assert_eq!((slot.take(seconds(5)).map(|line| line.0), replica.open()), (None, 0), "the replica closed it");
    }

    #[test]
    fn what_is_idle_for_too_long_is_closed_without_being_asked_for() {
        let (idle, replica) = (Idle::none(), Replica::default());
        at(&idle).put(replica.line(0), seconds(0));
        at(&idle).put(replica.line(1), seconds(2));
        idle.sweep(seconds(4));
        assert_eq!(replica.open(), 1);
        assert_eq!(at(&idle).take(seconds(4)).map(|line| line.0), Some(1));
    }

    #[test]
    fn a_bounded_number_is_kept() {
        let (idle, replica) = (Idle::none(), Replica::default());
        for _ in 0..=limits::IDLE_LINES {
            at(&idle).put(replica.line(0), seconds(0));
        }
        assert_eq!(replica.open(), limits::IDLE_LINES);
    }

    #[test]
    fn a_replica_that_is_gone_or_elsewhere_keeps_none() {
        let (idle, replica) = (Idle::none(), Replica::default());
        let before = at(&idle);
        before.put(replica.line(0), seconds(0));
        let moved = idle.at(&"r".into(), &origin("http://elsewhere"));
        before.put(replica.line(1), seconds(0));
        assert_eq!((replica.open(), moved.origin().host()), (0, "elsewhere"));
        moved.put(replica.line(2), seconds(0));
        idle.forget(["r".into()].iter());
        moved.put(replica.line(3), seconds(0));
        assert_eq!((replica.open(), moved.take(seconds(0)).is_none()), (0, true));
    }
}
