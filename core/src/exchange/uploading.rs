//! How slowly a request's body may come: a peer that trickles must not hold a place for ever (data-plane 2).

use core::time::Duration;

use crate::limits::{BODY_BYTES_PER_SECOND, BODY_GRACE};
use crate::time::Moment;

/// A body on its way in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Uploading {
    began: Moment,
    last: Moment,
    bytes: u64,
    silence: Duration,
}

impl Uploading {
    /// A body that may be silent for `silence` (`server.idle_timeout`) between two pieces.
    #[must_use]
    pub(super) const fn begun(now: Moment, silence: Duration) -> Self {
        Self { began: now, last: now, bytes: 0, silence }
    }

    /// A piece of `bytes` came.
    pub(super) fn came(&mut self, bytes: usize, now: Moment) {
        self.last = now;
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// What passed since the last piece was no fault of the sender.
    pub(super) fn held_up(&mut self, now: Moment) {
        self.began = self.began.after(now.since(self.last));
        self.last = now;
    }

    /// When the next piece must have come at the latest. Past it: [`super::Denial::body_too_slow`].
    #[must_use]
    pub(super) fn due(&self) -> Moment {
        let earned = Duration::from_millis(self.bytes.saturating_mul(1000) / BODY_BYTES_PER_SECOND);
        self.last.after(self.silence).min(self.began.after(BODY_GRACE).after(earned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_millis(millis)
    }

    #[test]
    fn a_trickle_is_cut_and_an_honest_slow_line_is_not() {
        // A byte a second never falls silent, and is cut when the grace is over.
        let mut trickle = Uploading::begun(at(0), Duration::from_secs(75));
        let cut = (1..).map(|second| second * 1000).find(|now| {
            let late = at(*now) > trickle.due();
            trickle.came(1, at(*now));
            late
        });
        let grace = u64::try_from(BODY_GRACE.as_millis()).unwrap();
        assert!(cut.is_some_and(|cut| (grace..grace + 2000).contains(&cut)), "{cut:?}");
        // Twice the least rate goes on for an hour.
        let mut slow = Uploading::begun(at(0), Duration::from_secs(75));
        for second in 1..3600 {
            assert!(at(second * 1000) <= slow.due());
            slow.came(2048, at(second * 1000));
        }
    }

    #[test]
    fn past_the_grace_the_least_rate_is_enough_and_a_byte_less_is_not() {
        let silence = Duration::from_secs(3600);
        let mut body = Uploading::begun(at(0), silence);
        let whole = usize::try_from(BODY_BYTES_PER_SECOND * 10).unwrap();
        body.came(whole, at(0));
        assert_eq!(body.due(), Moment::START.after(BODY_GRACE).after(Duration::from_secs(10)));
        let mut less = Uploading::begun(at(0), silence);
        less.came(whole - 1, at(0));
        assert!(less.due() < body.due());
    }

    #[test]
    fn silence_is_cut_whatever_came_before() {
        let mut body = Uploading::begun(at(0), Duration::from_secs(5));
        assert_eq!(body.due(), at(5000));
        body.came(1 << 30, at(4000));
        assert_eq!(body.due(), at(9000));
    }
}
