//! When each key was last seen, for the status page (data-plane 7).

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::access::rate_ledger::LedgerKey;
use crate::limits;
use crate::time::Moment;

/// How many parts they are cut into, so that threads do not queue at one lock.
const PARTS: usize = 16;

/// The last time of each key, of the [`limits::KEYS_SEEN`] seen last at least; up to twice as many are remembered.
#[derive(Debug, Default)]
pub(super) struct Sightings {
    parts: [Mutex<BTreeMap<LedgerKey, Moment>>; PARTS],
}

impl Sightings {
    /// A request came with this key.
    pub(super) fn saw(&self, key: &LedgerKey, at: Moment) {
        let mut part = self.part(key);
        if let Some(last) = part.get_mut(key) {
            *last = at.max(*last);
            return;
        }
        if part.len() >= 2 * limits::KEYS_SEEN / PARTS {
            // Half of them at once, so that the search is paid for by as many newcomers.
            let mut times: Vec<Moment> = part.values().copied().collect();
            let middle = times.len() / 2;
            let (_, median, _) = times.select_nth_unstable(middle);
            let median = *median;
            part.retain(|_, last| *last > median);
        }
        part.insert(key.clone(), at);
    }

    /// When it was, if it is remembered.
    pub(super) fn last(&self, key: &LedgerKey) -> Option<Moment> {
        self.part(key).get(key).copied()
    }

    fn part(&self, key: &LedgerKey) -> MutexGuard<'_, BTreeMap<LedgerKey, Moment>> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let index = usize::try_from(hasher.finish() % (PARTS as u64)).unwrap_or(0);
        let [first, ..] = &self.parts;
        self.parts.get(index).unwrap_or(first).lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ids::KeyId;

    fn key(n: usize) -> LedgerKey {
        LedgerKey::Published(KeyId::from(n.to_string().as_str()))
    }

    #[test]
    fn the_last_time_counts_and_kinds_of_keys_are_apart() {
        let sightings = Sightings::default();
        assert_eq!(sightings.last(&key(1)), None);
        for (at, last) in [(5, 5), (9, 9), (7, 9)] {
            sightings.saw(&key(1), Moment::from_millis(at));
            assert_eq!(sightings.last(&key(1)), Some(Moment::from_millis(last)));
        }
        assert_eq!(sightings.last(&LedgerKey::Operator(KeyId::from("1"))), None);
    }

    #[test]
    fn those_seen_last_are_remembered_and_the_rest_does_not_grow() {
        let sightings = Sightings::default();
        let most = 4 * limits::KEYS_SEEN;
        (0..most).for_each(|n| sightings.saw(&key(n), Moment::from_millis(n as u64)));
        let held: usize = sightings.parts.iter().map(|part| part.lock().unwrap().len()).sum();
        assert!(held <= 2 * limits::KEYS_SEEN, "{held}");
        // Parts fill unevenly: an eighth less is sure.
        let mut recent = most - limits::KEYS_SEEN * 7 / 8..most;
        assert!(recent.all(|n| sightings.last(&key(n)).is_some()));
        assert_eq!(sightings.last(&key(0)), None);
        // At one and the same moment as well.
        (most..2 * most).for_each(|n| sightings.saw(&key(n), Moment::from_millis(most as u64)));
        let held: usize = sightings.parts.iter().map(|part| part.lock().unwrap().len()).sum();
        assert!(held <= 2 * limits::KEYS_SEEN, "{held}");
    }
}
