//! What is said once in a while, however often it happens.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::time::Moment;

/// Lets one line through for each key and period. Keys must be bounded in number by whoever brings them.
#[derive(Debug)]
pub struct Seldom<K> {
    period: Duration,
    said: BTreeMap<K, Said>,
}

#[derive(Debug)]
struct Said {
    at: Moment,
    unsaid: u64,
}

impl<K: Ord + Clone> Seldom<K> {
    /// At most one line per key and `period`.
    #[must_use]
    pub const fn every(period: Duration) -> Self {
        Self { period, said: BTreeMap::new() }
    }

    /// Whether to say it now, and how many times it went unsaid before.
    pub fn may_say(&mut self, key: &K, now: Moment) -> Option<u64> {
        match self.said.get_mut(key) {
            Some(said) if now.since(said.at) < self.period => {
                said.unsaid += 1;
                None
            }
            Some(said) => {
                said.at = now;
                Some(core::mem::take(&mut said.unsaid))
            }
            None => {
                self.said.insert(key.clone(), Said { at: now, unsaid: 0 });
                Some(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_key_and_minute() {
        let mut seldom = Seldom::every(Duration::from_secs(60));
        let at = |seconds: u64| Moment::from_millis(seconds * 1000);
        assert_eq!(seldom.may_say(&"key", at(0)), Some(0));
        assert_eq!(seldom.may_say(&"key", at(1)), None);
        assert_eq!(seldom.may_say(&"route", at(1)), Some(0));
        assert_eq!(seldom.may_say(&"key", at(59)), None);
        assert_eq!(seldom.may_say(&"key", at(60)), Some(2));
        assert_eq!(seldom.may_say(&"key", at(119)), None);
    }
}
