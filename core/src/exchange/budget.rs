//! How many retries this node allows itself: a part of its requests, so that a retry storm cannot feed itself
//! (data-plane 3.4, 9).

use crate::time::Moment;

/// Milliseconds of one step of the window.
const STEP_MILLIS: u64 = 100;
/// Steps of the window: 10 s.
const STEPS: usize = 100;
/// One retry for so many requests: 20 %.
const REQUESTS_PER_RETRY: u64 = 5;
/// Retries that are always allowed within the window.
const AT_LEAST: u64 = 10;

/// Requests and retries of the last 10 s, counted in tenths of a second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryBudget {
    steps: [Step; STEPS],
    /// The step that counts now.
    current: u64,
    requests: u64,
    retries: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Step {
    requests: u64,
    retries: u64,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { steps: [Step::default(); STEPS], current: 0, requests: 0, retries: 0 }
    }
}

impl RetryBudget {
    /// Nothing counted yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a request.
    pub fn count(&mut self, now: Moment) {
        self.requests += 1;
        self.step(now).requests += 1;
    }

    /// Takes one retry, if one is left.
    #[must_use]
    pub fn take(&mut self, now: Moment) -> bool {
        self.turn(now);
        if self.retries >= (self.requests / REQUESTS_PER_RETRY).max(AT_LEAST) {
            return false;
        }
        self.retries += 1;
        self.step(now).retries += 1;
        true
    }

    fn step(&mut self, now: Moment) -> &mut Step {
        self.turn(now);
        &mut self.steps[slot(self.current)]
    }

    /// Empties the steps that have left the window. Time does not go back; a late call counts for now.
    fn turn(&mut self, now: Moment) {
        let step = now.as_millis() / STEP_MILLIS;
        let passed = step.saturating_sub(self.current).min(STEPS as u64);
        for later in 0..passed {
            let gone = core::mem::take(&mut self.steps[slot(step - later)]);
            self.requests -= gone.requests;
            self.retries -= gone.retries;
        }
        self.current = self.current.max(step);
    }
}

/// Always below [`STEPS`].
fn slot(step: u64) -> usize {
    usize::try_from(step % (STEPS as u64)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every request and every retry, by the tenth it came in.
    #[derive(Default)]
    struct Log {
        requests: Vec<u64>,
        retries: Vec<u64>,
    }

    impl Log {
        fn left(&self, now: u64) -> bool {
            let recent = |log: &[u64]| log.iter().filter(|at| **at / 100 + 100 > now / 100).count();
            recent(&self.retries) < (recent(&self.requests) / 5).max(10)
        }
    }

    proptest! {
        #[test]
        fn r4_the_budget_agrees_with_an_exact_log(steps in proptest::collection::vec((0_u64..3000, 0_u64..100, 0_u64..40), 1..60)) {
            let (mut budget, mut log, mut now) = (RetryBudget::new(), Log::default(), 0);
            for (later, requests, retries) in steps {
                now += later;
                for _ in 0..requests {
                    budget.count(Moment::from_millis(now));
                    log.requests.push(now);
                }
                for _ in 0..retries {
                    let left = log.left(now);
                    prop_assert_eq!(budget.take(Moment::from_millis(now)), left);
                    if left {
                        log.retries.push(now);
                    }
                }
            }
        }
    }

    #[test]
    fn ten_are_always_left_and_a_fifth_of_many() {
        let at = Moment::from_millis;
        let mut budget = RetryBudget::new();
        assert_eq!((0..30).filter(|_| budget.take(at(5))).count(), 10);
        for _ in 0..1000 {
            budget.count(at(5));
        }
        assert_eq!((0..1000).filter(|_| budget.take(at(9_999))).count(), 190);
        // The thousand leave the window, and with them their part; those taken since still count.
        assert_eq!((0..30).filter(|_| budget.take(at(10_100))).count(), 0);
        assert_eq!((0..30).filter(|_| budget.take(at(20_000))).count(), 10);
        // Neither a jump far ahead nor a step back is a fault.
        assert!(budget.take(at(u64::MAX)));
        assert!(budget.take(at(0)));
    }
}
