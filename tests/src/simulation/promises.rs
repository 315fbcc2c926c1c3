//! Acks: only for what was heard and is in force, and none forgotten (worker-protocol 3.2; 3.3, rule 5).

use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

use super::broken::{Broken, broken, must};
use super::reference::{Meaning, Pulled};
use super::state::State;

/// Nobody waits for an ack longer than this after its event was heard, in milliseconds.
const ACK_AGE: u64 = 15_000;

const ONLY_TRUE: &str = "an ack only for what was heard and is in force";
const IN_TIME: &str = "no ack later than 15 s after its event";

/// What an ack confirms.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    /// A created circuit.
    Circuit(Uuid),
    /// A publication that changed or went.
    Model(String),
    /// A key's removal.
    KeyGone(String),
    /// A key notice.
    Key(String),
}

impl About {
    /// Whether the messages that confirm the two are the same: of a key they say only which.
    fn reads_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::KeyGone(one) | Self::Key(one), Self::KeyGone(two) | Self::Key(two)) => one == two,
            (one, two) => one == two,
        }
    }
}

/// When an ack is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    /// With the first pull of the process.
    FirstPull,
    /// With a router-config of a pull after this one.
    PullAfter(u64),
    /// When what the input at hand issues is in force.
    Settling,
    /// When this generation is in force.
    After(u64),
}

#[derive(Debug, Clone)]
struct Promise {
    about: About,
    heard_at: u64,
    due: Due,
    held_by_bus: bool,
}

/// An ack that was handed out.
#[derive(Debug)]
struct Sent {
    /// The input that it came of, the first time.
    input: u64,
    /// When it was handed out, the last time.
    last: u64,
    /// What for. Among promises alike this is a guess.
    kept: Vec<Promise>,
}

/// How a node stands while an ack is judged.
#[derive(Debug, Clone, Copy)]
pub struct Standpoint<'a> {
    /// Now, in milliseconds.
    pub now: u64,
    /// The generation that requests see.
    pub in_force: u64,
    /// What requests see.
    pub state: &'a State,
    /// Whether the subscription stands.
    pub bus_up: bool,
    /// Whether the worker was told to leave.
    pub leaving: bool,
}

/// The acks that a process owes.
#[derive(Debug, Default)]
pub struct Promises {
    waiting: Vec<Promise>,
    /// The acks handed out.
    sent: BTreeMap<u64, Sent>,
    /// Counts inputs.
    input: u64,
}

impl Promises {
    /// An event was heard.
    pub fn hear(&mut self, meaning: &Meaning, now: u64, early: bool, pull: u64) {
        let due = if early { Due::FirstPull } else { Due::Settling };
        let (about, due) = match meaning {
            Meaning::Created(id, _) => (About::Circuit(*id), due),
            Meaning::Model(name, _) | Meaning::ModelGone(name) => (About::Model(name.clone()), due),
            Meaning::KeyGone(id) => (About::KeyGone(id.clone()), due),
            Meaning::KeyNotice(id) => {
                // Waiting notices are a set by key: the newest counts.
                self.waiting.retain(|it| it.about != About::Key(id.clone()) || !matches!(it.due, Due::PullAfter(_)));
                (About::Key(id.clone()), Due::PullAfter(pull))
            }
            Meaning::Routes(..) | Meaning::Gone(_) | Meaning::Garbage => return,
        };
        self.waiting.push(Promise { about, heard_at: now, due, held_by_bus: false });
    }

    /// Whether a key notice waits for a pull.
    #[must_use]
    pub fn notice_waits(&self) -> bool {
        self.waiting.iter().any(|it| matches!(it.due, Due::PullAfter(_)))
    }

    /// A pull was applied. Gives the key notices that need another answer at once.
    pub fn pulled(&mut self, pulled: &Pulled, bus_up: bool, follows_subscription: bool) -> BTreeSet<String> {
        let mut again = BTreeSet::new();
        if let Some(answer) = &pulled.config {
            self.waiting.retain_mut(|it| {
                let (About::Key(id), Due::PullAfter(number)) = (&it.about, it.due) else { return true };
                if number >= pulled.flight.number {
                    return true;
                }
                if pulled.overruled_keys.contains(id) {
                    again.insert(id.clone());
                    return true;
                }
                (it.due, it.held_by_bus) = (Due::Settling, !bus_up);
                !(answer.malformed_keys.contains(id) || answer.unreadable_key && !answer.keys.contains_key(id))
            });
        }
        if pulled.flight.full() {
            for it in &mut self.waiting {
                it.held_by_bus &= !follows_subscription;
                if !matches!(it.due, Due::PullAfter(_)) {
                    it.due = Due::Settling;
                }
            }
        }
        again
    }

    /// The input at hand is over, with this generation issued last.
    pub fn settle(&mut self, issued: u64) {
        for it in &mut self.waiting {
            if it.due == Due::Settling {
                it.due = Due::After(issued);
            }
        }
    }

    /// The subscription is lost.
    pub fn bus_lost(&mut self) {
        for it in &mut self.waiting {
            it.held_by_bus |= !matches!(it.due, Due::PullAfter(_));
        }
    }

    /// An ack is handed out.
    ///
    /// # Errors
    /// When it is not true, or not worth sending any more.
    pub fn sent(
        &mut self,
        ack: u64,
        abouts: &[About],
        at: Standpoint<'_>,
        key_is_as_told: impl Fn(&str, u64) -> bool,
    ) -> Result<(), Broken> {
        must(at.bus_up, "no ack while the bus is down", || format!("{abouts:?}"))?;
        must(!at.leaving, "no ack from shutdown on", || format!("{abouts:?}"))?;
        if let Some(known) = self.sent.get_mut(&ack) {
            known.last = at.now;
            let input = known.input;
            return abouts.iter().try_for_each(|about| self.in_time(input, about));
        }
        let mut kept = Vec::new();
        for about in abouts {
            let matches = |it: &Promise| {
                it.about.reads_as(about)
                    && !it.held_by_bus
                    && matches!(it.due, Due::After(after) if after <= at.in_force)
            };
            // Of two promises alike the older one may be too old by now, and is forgotten.
            let fresh = |it: &Promise| matches(it) && at.now <= it.heard_at + ACK_AGE;
            let found = self.waiting.iter().position(fresh).or_else(|| self.waiting.iter().position(matches));
            let Some(found) = found else {
                return broken(ONLY_TRUE, format!("{about:?}, in force {}, owed {:?}", at.in_force, self.waiting));
            };
            let it = self.waiting.remove(found);
            must(at.now <= it.heard_at + ACK_AGE, IN_TIME, || format!("{it:?}"))?;
            match &it.about {
                About::Circuit(id) => {
                    must(at.state.circuits.contains_key(id), ONLY_TRUE, || format!("{about:?} is not served"))?;
                }
                About::Key(id) => {
                    let told = key_is_as_told(id, it.heard_at);
                    must(
                        told,
                        "a key notice is acked when the key is in force as it was at the notice, or later",
                        || format!("{it:?}: in force is {:?}", at.state.keys.get(id)),
                    )?;
                }
                About::Model(_) | About::KeyGone(_) => {}
            }
            kept.push(it);
        }
        self.sent.insert(ack, Sent { input: self.input, last: at.now, kept });
        Ok(())
    }

    /// No ack goes out again later than 15 s after the event that it answers.
    ///
    /// An ack does not say which of several events alike it answers (a key set and removed, a model changed twice). What
    /// is due is sent by the very input that makes it due, so the acks alike of one input answer the events alike of
    /// that input, but which is whose shows only in when each goes out again. The rule is kept if there is a way to give
    /// each of them one of these events that is at most 15 s older than the ack's last sending; and if there is any, then
    /// giving the n-th event heard to the n-th ack by last sending is one.
    fn in_time(&self, input: u64, about: &About) -> Result<(), Broken> {
        let (mut sent, mut heard) = (Vec::new(), Vec::new());
        for ack in self.sent.values().filter(|ack| ack.input == input) {
            for it in ack.kept.iter().filter(|it| it.about.reads_as(about)) {
                sent.push(ack.last);
                heard.push(it.heard_at);
            }
        }
        sent.sort_unstable();
        heard.sort_unstable();
        let late = sent.iter().zip(&heard).find(|(sent, heard)| **sent > **heard + ACK_AGE);
        must(late.is_none(), IN_TIME, || format!("{about:?}: sent at {sent:?}, heard at {heard:?}"))
    }

    /// The input at hand is over, its acks included: none that is due is missing.
    ///
    /// # Errors
    /// When one is.
    pub fn check_due(&mut self, at: Standpoint<'_>, wanted: &State) -> Result<(), Broken> {
        self.input += 1;
        if at.leaving {
            self.waiting.clear();
        }
        self.waiting.retain(|it| {
            let gone = matches!(&it.about, About::Circuit(id) if !wanted.circuits.contains_key(id));
            !gone && (at.now <= it.heard_at + ACK_AGE || matches!(it.due, Due::PullAfter(_)))
        });
        if !at.bus_up {
            return Ok(());
        }
        let due = |it: &&Promise| !it.held_by_bus && matches!(it.due, Due::After(after) if after <= at.in_force);
        match self.waiting.iter().find(due) {
            Some(it) => broken("an ack that is due is sent", format!("{it:?}, in force {}", at.in_force)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "model";

    /// Two events alike are heard, and acked where `together` by one input, else each by its own.
    fn acked(together: bool) -> Promises {
        let mut promises = Promises::default();
        for (ack, heard_at) in [(1, 1_000), (2, 9_000)] {
            promises.hear(&Meaning::ModelGone(NAME.to_owned()), heard_at, false, 0);
            promises.settle(ack);
            if !together {
                send(&mut promises, ack, 9_000).unwrap();
                promises.input += 1;
            }
        }
        if together {
            send(&mut promises, 1, 9_000).unwrap();
            send(&mut promises, 2, 9_000).unwrap();
            promises.input += 1;
        }
        promises
    }

    fn send(promises: &mut Promises, ack: u64, now: u64) -> Result<(), Broken> {
        let at = Standpoint { now, in_force: ack.max(2), state: &State::default(), bus_up: true, leaving: false };
        promises.sent(ack, &[About::Model(NAME.to_owned())], at, |_, _| true)
    }

    #[test]
    fn of_two_acks_alike_of_one_input_either_may_answer_the_later_event() {
        for first in [1, 2] {
            let mut promises = acked(true);
            assert_eq!(send(&mut promises, first, 16_001), Ok(()), "ack {first}");
            assert_eq!(send(&mut promises, first, 24_000), Ok(()), "ack {first}");
            // The other one must be that of the earlier event then.
            let other = send(&mut promises, 3 - first, 16_001).unwrap_err();
            assert_eq!(other.invariant, IN_TIME);
        }
        assert_eq!(send(&mut acked(true), 1, 24_001).unwrap_err().invariant, IN_TIME);
    }

    #[test]
    fn an_ack_that_went_out_before_the_later_event_was_due_answers_the_earlier_one() {
        let mut promises = acked(false);
        assert_eq!(send(&mut promises, 1, 16_000), Ok(()));
        assert_eq!(send(&mut promises, 2, 24_000), Ok(()));
        assert_eq!(send(&mut promises, 1, 16_001).unwrap_err().invariant, IN_TIME);
    }
}
