//! How many requests each key had accepted in the last minute (worker-protocol 5.3 step 3; 9, Gate).
//!
//! Accepted requests are counted in buckets of one second. A bucket is forgotten 60 seconds after its last request, so each
//! request between 60 and 61 seconds after it: no window of 60 seconds ever holds more accepted requests than the limit, and
//! nobody waits for longer than a window. Only the monotonic clock is read.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use crate::defects::{Defect, has};
use crate::time::Moment;
use crate::wire::ids::KeyId;

/// Milliseconds for which a bucket counts after its last request.
const WINDOW: u64 = 60_000;

/// Said of a limit that no waiting helps, in seconds.
const NEVER: u32 = 60;

/// Idle entries looked for at each take: two, so that sweeping keeps ahead of what takes add.
const SWEPT_PER_TAKE: usize = 2;

/// Whose requests are counted. Operator keys and model API keys with one id are different keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LedgerKey {
    /// A key of the configuration.
    Operator(KeyId),
    /// A model API key of the coordinator.
    Published(KeyId),
}

impl LedgerKey {
    /// The key's id, safe to show.
    #[must_use]
    pub const fn id(&self) -> &KeyId {
        match self {
            Self::Operator(id) | Self::Published(id) => id,
        }
    }
}

/// What `x-ratelimit-{limit,remaining,reset}-requests` say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateFigures {
    /// Requests a minute.
    pub limit: u32,
    /// How many more fit now.
    pub remaining: u32,
    /// Whole seconds until one more fits; 0 when one fits now.
    pub reset: u32,
}

/// The verdict on one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// Counted, and may go on.
    Accepted(RateFigures),
    /// Not counted: the limit is used up.
    Refused(RateFigures),
}

/// The counts of one node, or of one shard of its keys.
#[derive(Debug, Clone, Default)]
pub struct RateLedger {
    counts: BTreeMap<LedgerKey, Window>,
    /// Where the sweep for idle entries stands.
    swept: Option<LedgerKey>,
}

/// One key's accepted requests: `(millisecond of the last one, how many)` for each second, oldest first, at most 61 of them.
#[derive(Debug, Clone, Default)]
struct Window {
    buckets: VecDeque<(u64, u32)>,
    total: u32,
}

impl RateLedger {
    /// An empty ledger.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one request of `key` against `limit` (a minute; 0 lets nothing pass), if it fits.
    pub fn take(&mut self, key: &LedgerKey, limit: u32, now: Moment) -> Taken {
        self.sweep(now);
        if limit == 0 {
            return Taken::Refused(Window::default().figures(0, now));
        }
        if !self.counts.contains_key(key) {
            self.counts.insert(key.clone(), Window::default());
        }
        let Some(window) = self.counts.get_mut(key) else {
            return Taken::Refused(Window::default().figures(limit, now));
        };
        window.forget(now);
        let allowed = if has(Defect::LimitOffByOne) { limit + 1 } else { limit };
        if window.total >= allowed {
            return Taken::Refused(window.figures(limit, now));
        }
        window.add(now);
        Taken::Accepted(window.figures(limit, now))
    }

    /// The figures of `key` without counting anything (listings are not counted).
    #[must_use]
    pub fn look(&mut self, key: &LedgerKey, limit: u32, now: Moment) -> RateFigures {
        match self.counts.get_mut(key) {
            Some(window) => {
                window.forget(now);
                window.figures(limit, now)
            }
            None => Window::default().figures(limit, now),
        }
    }

    /// How many keys have an entry.
    #[must_use]
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether no key has an entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Looks at the next few entries and drops the idle ones. Takes sweep by themselves; a shell whose keys went quiet
    /// may call this at leisure.
    pub fn sweep(&mut self, now: Moment) {
        for _ in 0..SWEPT_PER_TAKE {
            let from = self.swept.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let Some((key, window)) = self.counts.range((from, Bound::Unbounded)).next() else {
                self.swept = None;
                return;
            };
            let (key, idle) = (key.clone(), window.idle(now));
            if idle {
                self.counts.remove(&key);
            }
            self.swept = Some(key);
        }
    }
}

impl Window {
    fn forget(&mut self, now: Moment) {
        let now = self.at(now);
        while let Some((last, count)) = self.buckets.front().copied() {
            if now - last < WINDOW {
                break;
            }
            self.buckets.pop_front();
            self.total = self.total.saturating_sub(count);
        }
    }

    fn add(&mut self, now: Moment) {
        let now = self.at(now);
        match self.buckets.back_mut() {
            Some((last, count)) if *last / 1000 == now / 1000 => {
                *last = now;
                *count = count.saturating_add(1);
            }
            _ => self.buckets.push_back((now, 1)),
        }
        self.total = self.total.saturating_add(1);
    }

    /// The millisecond of `now`, never before the newest request: a clock that steps back neither frees nor locks out.
    fn at(&self, now: Moment) -> u64 {
        let now = now.as_millis();
        self.buckets.back().map_or(now, |(newest, _)| now.max(*newest))
    }

    fn idle(&self, now: Moment) -> bool {
        self.buckets.back().is_none_or(|(newest, _)| self.at(now) - newest >= WINDOW)
    }

    /// Figures after [`Self::forget`].
    fn figures(&self, limit: u32, now: Moment) -> RateFigures {
        RateFigures { limit, remaining: limit.saturating_sub(self.total), reset: self.reset(limit, now) }
    }

    fn reset(&self, limit: u32, now: Moment) -> u32 {
        if self.total < limit {
            return 0;
        }
        let mut left = self.total;
        let now = self.at(now);
        for (last, count) in &self.buckets {
            left = left.saturating_sub(*count);
            if left < limit {
                let wait = last.saturating_add(WINDOW).saturating_sub(now).div_ceil(1000);
                return u32::try_from(wait).unwrap_or(u32::MAX).max(1);
            }
        }
        // A limit of 0: nothing frees it but another limit.
        NEVER
    }
}

#[cfg(test)]
#[path = "rate_ledger_tests.rs"]
mod tests;
