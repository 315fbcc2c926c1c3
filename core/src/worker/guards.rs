//! Removed circuits that an answer must not bring back (worker-protocol 3.3, rule 3).
//!
//! Coordinators announce a removal before they commit it, so a request sent shortly after the event may still be
//! answered with the circuit.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use super::defects::{Defect, has};
use crate::limits;
use crate::time::Moment;
use crate::wire::ids::CircuitId;

/// How long after a removal event requests are still mistrusted.
pub(super) const GUARD: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Guards {
    removed_at: BTreeMap<CircuitId, Moment>,
    by_age: BTreeSet<(Moment, CircuitId)>,
}

impl Guards {
    /// Guards `id` from now on. Returns `false` when an older guard had to go for it.
    pub(super) fn add(&mut self, id: CircuitId, now: Moment) -> bool {
        self.remove(id);
        self.removed_at.insert(id, now);
        self.by_age.insert((now, id));
        if self.removed_at.len() <= limits::GUARDS {
            return true;
        }
        if let Some((_, oldest)) = self.by_age.pop_first() {
            self.removed_at.remove(&oldest);
        }
        false
    }

    /// The circuit is announced again: no guard any more.
    pub(super) fn remove(&mut self, id: CircuitId) {
        if let Some(at) = self.removed_at.remove(&id) {
            self.by_age.remove(&(at, id));
        }
    }

    /// When the guard that overrules an answer to a request sent at `sent` ends; `None` when nothing overrules it.
    pub(super) fn overrules(&self, id: CircuitId, sent: Moment) -> Option<Moment> {
        let end = self.removed_at.get(&id)?.after(GUARD);
        (sent <= end && !has(Defect::NoGuard)).then_some(end)
    }

    /// Forgets the guards that no request sent from now on can meet. Called when one is sent: pulls never overlap.
    pub(super) fn forget_before(&mut self, sending: Moment) {
        while let Some(&(at, id)) = self.by_age.first() {
            if sending <= at.after(GUARD) {
                break;
            }
            self.by_age.pop_first();
            self.removed_at.remove(&id);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.removed_at.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn circuit(n: u128) -> CircuitId {
        CircuitId(Uuid::from_u128(n))
    }

    #[test]
    fn a_guard_covers_requests_up_to_five_seconds_and_not_one_millisecond_more() {
        let mut guards = Guards::default();
        assert!(guards.add(circuit(1), Moment::from_millis(1000)));
        assert_eq!(guards.overrules(circuit(1), Moment::from_millis(6000)), Some(Moment::from_millis(6000)));
        assert_eq!(guards.overrules(circuit(1), Moment::from_millis(6001)), None);
        assert_eq!(guards.overrules(circuit(2), Moment::from_millis(1000)), None);
        guards.remove(circuit(1));
        assert_eq!(guards.overrules(circuit(1), Moment::from_millis(1000)), None);
    }

    #[test]
    fn sending_forgets_only_what_cannot_matter_any_more() {
        let mut guards = Guards::default();
        guards.add(circuit(1), Moment::from_millis(0));
        guards.add(circuit(2), Moment::from_millis(10));
        guards.forget_before(Moment::from_millis(5000));
        assert_eq!(guards.len(), 2);
        guards.forget_before(Moment::from_millis(5001));
        assert_eq!(guards.len(), 1);
    }

    #[test]
    fn guards_are_bounded_and_the_oldest_goes() {
        let mut guards = Guards::default();
        for n in 0..limits::GUARDS as u128 {
            assert!(guards.add(circuit(n), Moment::from_millis(n as u64)));
        }
        assert!(!guards.add(circuit(u128::MAX), Moment::from_millis(u64::from(u32::MAX))));
        assert_eq!(guards.len(), limits::GUARDS);
        assert_eq!(guards.overrules(circuit(0), Moment::START), None);
        assert!(guards.overrules(circuit(1), Moment::START).is_some());
    }
}
