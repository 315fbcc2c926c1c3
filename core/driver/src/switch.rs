//! A switch that is turned once, and that many wait for.

use core::mem::take;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A switch that is turned once, and that many wait for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Switch(Arc<Turning>);

#[derive(Debug, Default)]
struct Turning {
    turned: AtomicBool,
    waiting: Mutex<Waiting>,
}

/// Who waits, each in a place of its own.
#[derive(Debug, Default)]
struct Waiting {
    places: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl Switch {
    /// Turns it, for good.
    pub(crate) fn turn(&self) {
        self.0.turned.store(true, Ordering::Release);
        // Whoever waits from now on sees that it is turned.
        let Waiting { places, .. } = take(&mut *self.waiting());
        places.into_iter().flatten().for_each(Waker::wake);
    }

    /// Whether it is turned: without a lock, for those who ask often.
    pub(crate) fn is_turned(&self) -> bool {
        self.0.turned.load(Ordering::Acquire)
    }

    /// Resolves when it is turned.
    pub(crate) fn turned(&self) -> Turned {
        Turned { switch: self.clone(), place: None }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Resolves when its switch is turned.
#[derive(Debug)]
pub(crate) struct Turned {
    switch: Switch,
    place: Option<usize>,
}

impl Future for Turned {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { switch, place } = &mut *self;
        let mut waiting = switch.waiting();
        if switch.is_turned() {
            return Poll::Ready(());
        }
        let Waiting { places, free } = &mut *waiting;
        let at = *place.get_or_insert_with(|| {
            free.pop().unwrap_or_else(|| {
                places.push(None);
                places.len() - 1
            })
        });
        if let Some(held) = places.get_mut(at)
            && !held.as_ref().is_some_and(|held| held.will_wake(cx.waker()))
        {
            let before = held.replace(cx.waker().clone());
            // Dropped when the lock is free again: it may be the last of its task.
            drop(waiting);
            drop(before);
        }
        Poll::Pending
    }
}

impl Drop for Turned {
    fn drop(&mut self) {
        let Some(at) = self.place else { return };
        let mut waiting = self.switch.waiting();
        // Once it is turned there are no places any more.
        if let Some(held) = waiting.places.get_mut(at) {
            let held = held.take();
            waiting.free.push(at);
            drop(waiting);
            drop(held);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::Plain;
    use crate::runtime::Runtime;
    use core::time::Duration;

    #[test]
    fn every_waiter_hears_of_a_switch() {
        let switch = Switch::default();
        let waiters: Vec<_> = (0..3).map(|_| Plain::spawn(switch.turned())).collect();
        assert!(!switch.is_turned());
        let within = |limit, turned| Plain::block_on(Plain::within(limit, turned)).expect("a runtime");
        assert_eq!(within(Duration::from_millis(1), switch.turned()), None);
        switch.turn();
        for waiter in waiters {
            let heard = Plain::block_on(Plain::within(Duration::from_secs(10), waiter)).expect("a runtime");
            assert!(matches!(heard, Some(Ok(()))));
        }
        assert!(switch.is_turned());
        assert_eq!(Plain::block_on(switch.turned()).ok(), Some(()), "who comes late hears of it at once");
    }

    #[test]
    fn whoever_stops_waiting_leaves_its_place_to_the_next() {
        let switch = Switch::default();
        let mut cx = Context::from_waker(Waker::noop());
        let mut first = switch.turned();
        let mut second = switch.turned();
        assert!(Pin::new(&mut first).poll(&mut cx).is_pending() && Pin::new(&mut second).poll(&mut cx).is_pending());
        drop(first);
        let mut third = switch.turned();
        assert!(Pin::new(&mut third).poll(&mut cx).is_pending());
        assert_eq!((third.place, second.place, switch.waiting().places.len()), (Some(0), Some(1), 2));
        drop(switch.turned());
        switch.turn();
        assert!(Pin::new(&mut second).poll(&mut cx).is_ready());
        drop((second, third));
        assert!(switch.waiting().free.is_empty());
    }
}
