//! Growing, jittered waits between tries.

use core::time::Duration;
use serde::{Deserialize, Serialize};

use crate::seed::Draws;

/// Half a second, doubling, at most `longest`, each wait between half and all of its step
/// (worker-protocol 1: "0.5 s, doubling, with jitter").
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    longest: Duration,
    tries: u32,
}

impl Backoff {
    /// The first step.
    pub const FIRST: Duration = Duration::from_millis(500);

    /// A back-off that has not begun.
    #[must_use]
    pub const fn new(longest: Duration) -> Self {
        Self { longest, tries: 0 }
    }

    /// The next wait; the one after it will be longer.
    pub fn next(&mut self, draws: &mut Draws) -> Duration {
        let step =
            Self::FIRST.saturating_mul(1u32.checked_shl(self.tries.min(16)).unwrap_or(u32::MAX)).min(self.longest);
        self.tries = self.tries.saturating_add(1);
        jittered(step, draws)
    }

    /// The longest wait at once, for failures that no quick repeat can mend (a rejected secret).
    pub fn longest(&mut self, draws: &mut Draws) -> Duration {
        self.tries = self.tries.saturating_add(1);
        jittered(self.longest, draws)
    }

    /// Starts over.
    pub const fn reset(&mut self) {
        self.tries = 0;
    }

    /// How many waits were asked for since the last reset.
    #[must_use]
    pub const fn tries(&self) -> u32 {
        self.tries
    }
}

fn jittered(step: Duration, draws: &mut Draws) -> Duration {
    let half = step / 2;
    half + draws.duration_below(step - half + Duration::from_millis(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    #[test]
    fn doubles_up_to_the_longest_and_starts_over() {
        let mut draws = Draws::new(Seed::from_number(1));
        let mut backoff = Backoff::new(Duration::from_secs(10));
        for step in [500u64, 1000, 2000, 4000, 8000, 10_000, 10_000] {
            let wait = backoff.next(&mut draws);
            assert!(
                wait >= Duration::from_millis(step / 2) && wait <= Duration::from_millis(step),
                "{wait:?} of {step}"
            );
        }
        backoff.reset();
        assert!(backoff.next(&mut draws) <= Backoff::FIRST);
        for _ in 0..100 {
            assert!(backoff.next(&mut draws) <= Duration::from_secs(10));
        }
    }
}
