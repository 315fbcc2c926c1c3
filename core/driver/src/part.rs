//! A part of a task that wakes itself: what libraries do to hand something from one half of theirs to the other. Such a
//! part is polled again at once, without a trip through the executor, and not at all when others woke the task.

use core::future::poll_fn;
use core::sync::atomic::{AtomicU8, Ordering};
use core::task::{Context, Poll, Waker, ready};
use std::sync::Arc;
use std::task::Wake;

use futures_util::task::AtomicWaker;

/// Nothing to do until it is rung.
const PARKED: u8 = 0;
/// Rung.
const RUNG: u8 = 1;
/// Being polled, or polled to an end that its owner knows of.
const RUNNING: u8 = 2;

/// Rounds in one go; beyond, others have their turn.
const ROUNDS: usize = 16;

#[derive(Debug, Default)]
struct Bell {
    state: AtomicU8,
    task: AtomicWaker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(RUNG, Ordering::AcqRel) == PARKED {
            self.task.wake();
        }
    }
}

/// One part of a task.
#[derive(Debug)]
pub(crate) struct Part {
    bell: Arc<Bell>,
    waker: Waker,
}

impl Part {
    /// A part that has something to do.
    pub(crate) fn new() -> Self {
        let bell = Arc::new(Bell { state: AtomicU8::new(RUNG), task: AtomicWaker::new() });
        Self { waker: Waker::from(bell.clone()), bell }
    }

    /// Does `work` if it was rung since it last came to nothing.
    pub(crate) fn poll<T>(&self, cx: &Context<'_>, mut work: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        let Bell { state, task } = &*self.bell;
        task.register(cx.waker());
        if state.load(Ordering::Acquire) == PARKED {
            return Poll::Pending;
        }
        for _ in 0..ROUNDS {
            state.store(RUNNING, Ordering::Release);
            let done = work(&mut Context::from_waker(&self.waker));
            if done.is_ready() || self.park() {
                return done;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Does `work` for nobody, to see where it stands.
    pub(crate) fn settle<T>(&self, work: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        let done = self.poll(&Context::from_waker(Waker::noop()), work);
        self.bell.task.take();
        done
    }

    fn park(&self) -> bool {
        self.bell.state.compare_exchange(RUNNING, PARKED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether something happened since it last came to nothing.
    pub(crate) fn is_rung(&self) -> bool {
        self.bell.state.load(Ordering::Acquire) != PARKED
    }
}

/// Two futures; the first to be ready counts. The second is polled only when it woke the task itself.
pub(crate) async fn either<T>(often: impl Future<Output = T>, seldom: impl Future<Output = T>) -> T {
    let (mut often, mut seldom) = (core::pin::pin!(often), core::pin::pin!(seldom));
    let part = Part::new();
    poll_fn(|cx| {
        if let Poll::Ready(done) = often.as_mut().poll(cx) {
            return Poll::Ready(done);
        }
        part.poll(cx, |cx| Poll::Ready(ready!(seldom.as_mut().poll(cx))))
    })
    .await
}

/// Two futures; the first to be ready counts, and `first` is asked first.
pub(crate) async fn or<T>(first: impl Future<Output = T>, second: impl Future<Output = T>) -> T {
    let (mut first, mut second) = (core::pin::pin!(first), core::pin::pin!(second));
    poll_fn(|cx| match first.as_mut().poll(cx) {
        Poll::Pending => second.as_mut().poll(cx),
        done => done,
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn what_wakes_itself_is_done_in_one_go_and_wakes_nobody() {
        let counting = Arc::new(Counting::default());
        let waker = Waker::from(counting.clone());
        let (part, mut rounds) = (Part::new(), 0);
        let cx = Context::from_waker(&waker);
        let polled = part.poll(&cx, |cx| {
            rounds += 1;
            if rounds < 5 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::<()>::Pending
        });
        assert!(polled.is_pending());
        assert_eq!((rounds, counting.0.load(Ordering::Relaxed)), (5, 0));
    }

    #[test]
    fn it_sleeps_until_it_is_rung_and_a_ring_wakes_the_task_once() {
        let counting = Arc::new(Counting::default());
        let waker = Waker::from(counting.clone());
        let (part, mut kept, mut rounds) = (Part::new(), None, 0);
        let cx = Context::from_waker(&waker);
        let mut poll = |kept: &mut Option<Waker>| {
            let polled = part.poll(&cx, |cx| {
                rounds += 1;
                *kept = Some(cx.waker().clone());
                Poll::<()>::Pending
            });
            assert!(polled.is_pending());
            rounds
        };
        assert_eq!((poll(&mut kept), poll(&mut kept)), (1, 1), "others woke the task");
        let ring = kept.take().expect("a waker");
        ring.wake_by_ref();
        ring.wake_by_ref();
        assert_eq!(counting.0.load(Ordering::Relaxed), 1);
        assert_eq!(poll(&mut kept), 2);
    }

    #[test]
    fn one_that_never_rests_gives_others_a_turn() {
        let counting = Arc::new(Counting::default());
        let waker = Waker::from(counting.clone());
        let (part, mut rounds) = (Part::new(), 0);
        let polled = part.poll(&Context::from_waker(&waker), |cx| {
            rounds += 1;
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert!(polled.is_pending() && part.is_rung());
        assert_eq!((rounds, counting.0.load(Ordering::Relaxed)), (ROUNDS, 1));
    }
}
