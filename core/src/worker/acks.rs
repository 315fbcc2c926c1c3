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

/// An ack that was promised and is not surely out yet.
#[derive(Debug)]
pub(super) struct HeldAck {
    pub(super) id: AckId,
    pub(super) ack: Ack,
    pub(super) request_id: Option<String>,
    heard_at: Moment,
    /// Sent only once this view is in force.
    after: Generation,
}

/// The acks that are not surely out, by what they wait for. Each queue is in the order of its promises, so that an
/// input costs what it changes and not what is held.
#[derive(Debug, Default)]
pub(super) struct Acks {
    last: u64,
    /// Promised or readied by the input at hand, which has not issued its view yet.
    fresh: VecDeque<HeldAck>,
    /// May go as soon as their views are in force.
    ready: VecDeque<HeldAck>,
    /// Were not out when the bus dropped: go with the full pull that follows the next subscription.
    after_full_pull: VecDeque<HeldAck>,
    /// Handed to the shell, which has not said yet what became of them.
    sending: BTreeMap<AckId, HeldAck>,
    /// The shell could not publish them; tried again in a moment.
    paused: Vec<HeldAck>,
}

impl Acks {
    /// Promises an ack. Returns `false` when the oldest one had to go for it.
    pub(super) fn promise(&mut self, ack: Ack, request_id: Option<String>, heard_at: Moment, bus_up: bool) -> bool {
        self.last += 1;
        let held = HeldAck { id: AckId(self.last), ack, request_id, heard_at, after: Generation::default() };
        let queue = if bus_up { &mut self.fresh } else { &mut self.after_full_pull };
        queue.push_back(held);
        if self.len() <= limits::HELD_ACKS {
            return true;
        }
        let queues = [&mut self.after_full_pull, &mut self.ready, &mut self.fresh];
        for queue in queues {
            if queue.pop_front().is_some() {
                break;
            }
        }
        false
    }

    /// The input at hand has issued its view: the acks it promised or readied wait for `newest` and for none after it.
    pub(super) fn settle(&mut self, newest: Generation) {
        for mut held in self.fresh.drain(..) {
            held.after = newest;
            self.ready.push_back(held);
        }
    }

    /// The bus dropped: nothing that is not surely out goes before a full pull.
    pub(super) fn bus_lost(&mut self) {
        if has(Defect::AckWithoutFullPull) {
            return;
        }
        self.after_full_pull.extend(core::mem::take(&mut self.sending).into_values());
        self.after_full_pull.extend(self.paused.drain(..));
        self.after_full_pull.append(&mut self.ready);
        self.after_full_pull.append(&mut self.fresh);
    }

    /// A full pull has been applied: what may go, waits for its view. `follows_subscription`: acks that a lost bus held
    /// back may go with it.
    pub(super) fn full_pull_applied(&mut self, follows_subscription: bool) {
        let mut fresh = core::mem::take(&mut self.ready);
        if follows_subscription {
            fresh.append(&mut self.after_full_pull);
        }
        fresh.append(&mut self.fresh);
        self.fresh = fresh;
    }

    /// Drops the acks that nobody waits for any more; how many.
    pub(super) fn expire(&mut self, now: Moment) -> usize {
        let mut expired = 0;
        for queue in [&mut self.after_full_pull, &mut self.ready] {
            while queue.front().is_some_and(|held| held.expired(now)) {
                queue.pop_front();
                expired += 1;
            }
        }
        expired
    }

    /// Takes circuits that are not there any more out of the acks; how many acks have none left and are dropped.
    pub(super) fn drop_absent(&mut self, present: impl Fn(CircuitId) -> bool) -> usize {
        let before = self.len();
        let keeps = |held: &mut HeldAck| {
            let Ack::Circuits(circuits) = &mut held.ack else { return true };
            circuits.retain(|received| present(received.circuit.id));
            !circuits.is_empty()
        };
        for queue in [&mut self.fresh, &mut self.ready, &mut self.after_full_pull] {
            queue.retain_mut(keeps);
        }
        self.paused.retain_mut(keeps);
        self.sending.retain(|_, held| keeps(held));
        before - self.len()
    }

    /// The next ack whose view is in force. It counts as held no more until [`Self::sending`].
    pub(super) fn take_ready(&mut self, applied: Generation) -> Option<HeldAck> {
        self.ready.pop_front_if(|held| held.after <= applied)
    }

    /// The ack was handed to the shell.
    pub(super) fn sending(&mut self, held: HeldAck) {
        self.sending.insert(held.id, held);
    }

    /// The ack is out; whether it was being sent.
    pub(super) fn sent(&mut self, id: AckId) -> bool {
        self.sending.remove(&id).is_some()
    }

    /// The shell could not publish it: it may be tried again after a pause. Whether it was being sent.
    pub(super) fn failed(&mut self, id: AckId) -> bool {
        let failed = self.sending.remove(&id);
        let was_sending = failed.is_some();
        self.paused.extend(failed);
        was_sending
    }

    /// The pause after a failure is over.
    pub(super) fn retry(&mut self) {
        self.fresh.extend(self.paused.drain(..));
    }

    /// Drops them all; how many.
    pub(super) fn clear(&mut self) -> usize {
        let held = self.len();
        *self = Self { last: self.last, ..Self::default() };
        held
    }

    pub(super) fn len(&self) -> usize {
        let queued = self.fresh.len() + self.ready.len() + self.after_full_pull.len();
        queued + self.sending.len() + self.paused.len()
    }
}

impl HeldAck {
    /// Whether the coordinator has stopped waiting for it.
    pub(super) fn expired(&self, now: Moment) -> bool {
        now.since(self.heard_at) > ACK_AGE && !has(Defect::AckTooLate)
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
        let held = acks.take_ready(Generation(1)).unwrap();
        let id = held.id;
        acks.sending(held);
        assert!(acks.take_ready(Generation(1)).is_none());
        assert!(acks.failed(id) && !acks.failed(id));
        acks.settle(Generation(1));
        assert!(acks.take_ready(Generation(1)).is_none(), "not before the pause is over");
        acks.retry();
        acks.settle(Generation(1));
        let held = acks.take_ready(Generation(1)).unwrap();
        acks.sending(held);
        assert!(acks.sent(id) && !acks.sent(id));
        assert_eq!(acks.len(), 0);
    }

    #[test]
    fn after_a_bus_loss_an_ack_waits_for_the_full_pull() {
        let mut acks = Acks::default();
        promise(&mut acks, "m", 0, true);
        let held = acks.take_ready(Generation(1)).unwrap();
        acks.sending(held);
        acks.bus_lost();
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
