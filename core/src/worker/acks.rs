//! Acks that wait until they are true, and key notices that wait for a pull (worker-protocol 3.3, rule 5).

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use super::defects::{Defect, has};
use super::output::AckId;
use crate::limits;
use crate::serving::Generation;
use crate::time::Moment;
use crate::wire::event::Ack;
use crate::wire::ids::{CircuitId, KeyId};

/// An ack is worth nothing later than this after its event was heard: the coordinator has stopped waiting.
pub(super) const ACK_AGE: Duration = Duration::from_secs(15);

/// An ack that was promised and may not have been sent yet.
#[derive(Debug)]
pub(super) struct HeldAck {
    pub(super) id: AckId,
    pub(super) ack: Ack,
    pub(super) request_id: Option<String>,
    pub(super) heard_at: Moment,
    /// Sent only once this view is in force; `None` until the input at hand has issued its own.
    after: Option<Generation>,
    state: AckState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AckState {
    /// May go as soon as its view is in force.
    Ready,
    /// Was not out when the bus dropped: goes with the full pull that follows the next subscription.
    AfterFullPull,
    /// Handed to the shell, which has not said yet what became of it.
    Sending,
    /// The shell could not publish it; it is tried again in a moment.
    AfterPause,
}

/// The acks not sent yet, oldest first.
#[derive(Debug, Default)]
pub(super) struct Acks {
    last: u64,
    held: VecDeque<HeldAck>,
}

impl Acks {
    /// Promises an ack. Returns `false` when the oldest one had to go for it.
    pub(super) fn promise(&mut self, ack: Ack, request_id: Option<String>, heard_at: Moment, bus_up: bool) -> bool {
        self.last += 1;
        let state = if bus_up { AckState::Ready } else { AckState::AfterFullPull };
        self.held.push_back(HeldAck { id: AckId(self.last), ack, request_id, heard_at, after: None, state });
        if self.held.len() <= limits::HELD_ACKS {
            return true;
        }
        self.held.pop_front();
        false
    }

    /// The input at hand has issued its view: the acks it promised or readied wait for `newest` and for none after it.
    pub(super) fn settle(&mut self, newest: Generation) {
        for held in &mut self.held {
            held.after.get_or_insert(newest);
        }
    }

    /// The bus dropped: nothing that is not surely out goes before a full pull.
    pub(super) fn bus_lost(&mut self) {
        for held in self.held.iter_mut().filter(|_| !has(Defect::AckWithoutFullPull)) {
            held.state = AckState::AfterFullPull;
        }
    }

    /// A full pull has been applied: what waits, waits for its view. `follows_subscription`: acks that a lost bus held
    /// back may go with it.
    pub(super) fn full_pull_applied(&mut self, follows_subscription: bool) {
        for held in &mut self.held {
            if held.state == AckState::AfterFullPull && follows_subscription {
                held.state = AckState::Ready;
            }
            if held.state != AckState::Sending {
                held.after = None;
            }
        }
    }

    /// Drops the acks that nobody waits for any more; how many.
    pub(super) fn expire(&mut self, now: Moment) -> usize {
        let before = self.held.len();
        self.held.retain(|held| {
            held.state == AckState::Sending || now.since(held.heard_at) <= ACK_AGE || has(Defect::AckTooLate)
        });
        before - self.held.len()
    }

    /// Takes circuits that are not there any more out of the acks; how many acks have none left and are dropped.
    pub(super) fn drop_absent(&mut self, present: impl Fn(CircuitId) -> bool) -> usize {
        let before = self.held.len();
        self.held.retain_mut(|held| {
            let Ack::Circuits(circuits) = &mut held.ack else { return true };
            circuits.retain(|received| present(received.circuit.id));
            !circuits.is_empty()
        });
        before - self.held.len()
    }

    /// The next ack that may be sent, marked as being sent.
    pub(super) fn take_ready(&mut self, applied: Generation) -> Option<&HeldAck> {
        let goes =
            |held: &&mut HeldAck| held.state == AckState::Ready && held.after.is_some_and(|after| after <= applied);
        let held = self.held.iter_mut().find(goes)?;
        held.state = AckState::Sending;
        Some(held)
    }

    /// The ack is out, or is not worth sending any more; whether it was held.
    pub(super) fn forget(&mut self, id: AckId) -> bool {
        let before = self.held.len();
        self.held.retain(|held| held.id != id);
        before != self.held.len()
    }

    /// The shell could not publish it: it may be tried again after a pause.
    pub(super) fn failed(&mut self, id: AckId) -> bool {
        let held = self.held.iter_mut().find(|held| held.id == id && held.state == AckState::Sending);
        held.map(|held| held.state = AckState::AfterPause).is_some()
    }

    /// The pause after a failure is over.
    pub(super) fn retry(&mut self) {
        for held in &mut self.held {
            if held.state == AckState::AfterPause {
                held.state = AckState::Ready;
            }
        }
    }

    pub(super) fn clear(&mut self) -> usize {
        core::mem::take(&mut self.held).len()
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }
}

/// A key changed, says the bus; what it is now, a pull says.
#[derive(Debug, Clone)]
pub(super) struct KeyNotice {
    pub(super) request_id: Option<String>,
    pub(super) heard_at: Moment,
    /// The pull that answers it must have a larger number.
    pub(super) heard_before_pull: u64,
}

/// Key notices waiting for a pull of router-config. A set by key id: several notices of one key need one pull.
#[derive(Debug, Default)]
pub(super) struct KeyNotices {
    waiting: BTreeMap<KeyId, KeyNotice>,
}

impl KeyNotices {
    /// Remembers a notice; `false` when there is no room for a further key.
    pub(super) fn add(&mut self, key: KeyId, notice: KeyNotice) -> bool {
        if self.waiting.len() >= limits::KEY_NOTICES && !self.waiting.contains_key(&key) {
            return false;
        }
        self.waiting.insert(key, notice);
        true
    }

    /// Takes out the notices that the pull of this number answers.
    pub(super) fn take_answered(&mut self, pull: u64) -> Vec<(KeyId, KeyNotice)> {
        self.waiting.extract_if(.., |_, notice| notice.heard_before_pull < pull).collect()
    }

    /// Puts a notice back: the pull that should have answered it could not.
    pub(super) fn put_back(&mut self, key: KeyId, notice: KeyNotice) {
        self.waiting.insert(key, notice);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promise(acks: &mut Acks, name: &str, at: u64, bus_up: bool) {
        acks.promise(Ack::Model(name.into()), None, Moment::from_millis(at), bus_up);
        acks.settle(Generation(1));
    }

    #[test]
    fn an_ack_waits_for_its_view_and_goes_once() {
        let mut acks = Acks::default();
        promise(&mut acks, "m", 0, true);
        assert!(acks.take_ready(Generation(0)).is_none());
        let id = acks.take_ready(Generation(1)).map(|held| held.id).unwrap();
        assert!(acks.take_ready(Generation(1)).is_none());
        assert!(acks.failed(id));
        assert!(acks.take_ready(Generation(1)).is_none(), "not before the pause is over");
        acks.retry();
        assert!(acks.take_ready(Generation(1)).is_some());
        assert!(acks.forget(id));
        assert!(!acks.forget(id));
    }

    #[test]
    fn after_a_bus_loss_an_ack_waits_for_the_full_pull() {
        let mut acks = Acks::default();
        promise(&mut acks, "m", 0, true);
        acks.take_ready(Generation(1));
        acks.bus_lost();
        assert!(acks.take_ready(Generation(1)).is_none());
        acks.full_pull_applied(false);
        acks.settle(Generation(2));
        assert!(acks.take_ready(Generation(2)).is_none(), "that pull was sent before the subscription");
        acks.full_pull_applied(true);
        acks.settle(Generation(3));
        assert!(acks.take_ready(Generation(2)).is_none(), "its view is not in force yet");
        assert!(acks.take_ready(Generation(3)).is_some());
    }

    #[test]
    fn acks_expire_after_fifteen_seconds() {
        let mut acks = Acks::default();
        promise(&mut acks, "m", 1000, true);
        assert_eq!(acks.expire(Moment::from_millis(16_000)), 0);
        assert_eq!(acks.expire(Moment::from_millis(16_001)), 1);
    }

    #[test]
    fn held_acks_and_notices_are_bounded() {
        let mut acks = Acks::default();
        for _ in 0..limits::HELD_ACKS {
            assert!(acks.promise(Ack::Model("m".into()), None, Moment::START, true));
        }
        assert!(!acks.promise(Ack::Model("last".into()), None, Moment::START, true));
        assert_eq!(acks.len(), limits::HELD_ACKS);

        let notice = KeyNotice { request_id: None, heard_at: Moment::START, heard_before_pull: 3 };
        let mut notices = KeyNotices::default();
        for n in 0..limits::KEY_NOTICES {
            assert!(notices.add(KeyId::from(format!("key-{n}").as_str()), notice.clone()));
        }
        assert!(!notices.add(KeyId::from("one-more"), notice.clone()));
        assert!(notices.add(KeyId::from("key-0"), notice), "a known key needs no room");
        assert_eq!(notices.take_answered(3).len(), 0);
        assert_eq!(notices.take_answered(4).len(), limits::KEY_NOTICES);
        assert!(notices.is_empty());
    }
}
