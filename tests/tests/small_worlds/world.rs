//! A small world: the worker's state, its coordinator, and what is under way between them. Plain data.

use appproxy_core::worker::WakeReason;

use crate::automaton::{Ack, Asked, Automaton, Content, Did, Told};
use crate::coordinator::{Answer, Change, Message, Published, Revision, Seen, State};
use crate::explore::Bounds;

/// A period, the guard of five seconds, and the pull after it.
const CLOSING_MILLIS: u64 = 7000;

/// One step of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Change(Change),
    /// The removal announced before is committed.
    Commit,
    Deliver(Message),
    /// The periodic pull comes due.
    Pull,
    /// The request for circuits is answered ...
    Circuits(When),
    /// ... and the one for router-config.
    Config(When),
}

/// With the state as it was when the request was sent, or as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Sent,
    Now,
}

/// What the answer to the router-config request under way may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Grant {
    /// Bring these keys back: no removal of them was heard since it was sent.
    brings: [bool; 2],
    /// Let the notices of these keys be acked: none was heard since it was sent.
    acks: [bool; 2],
    /// It has been answered with a snapshot.
    given: bool,
}

const NOTHING: Grant = Grant { brings: [false; 2], acks: [false; 2], given: false };

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct World {
    worker: usize,
    state: State,
    changes_left: u8,
    pulls_left: u8,
    /// Each message may arrive at any time from then on: never, once, or again and again.
    published: Published,
    seen: Seen,
    /// The request for circuits under way: what it would have been answered when it was sent.
    circuits: Option<Answer>,
    /// The one for router-config, with what it knows.
    config: Option<(Option<Revision>, Answer)>,
    grant: Grant,
    /// Keys whose removal has been applied, and that no later request has brought back.
    revoked: [bool; 2],
    /// Keys with a notice that has not been acked.
    noticed: [bool; 2],
}

impl World {
    /// A worker that has pulled `start`.
    pub(crate) fn new(bounds: &Bounds, automaton: &Automaton) -> Self {
        let Bounds { start, changes, pulls, subjects } = *bounds;
        Self {
            worker: 0,
            state: start,
            changes_left: changes,
            pulls_left: pulls,
            published: Published::default(),
            seen: if subjects.is_some() { Seen::NO_SYMMETRY } else { Seen::default() },
            circuits: None,
            config: None,
            grant: NOTHING,
            revoked: automaton.standing(0).keys.map(|there| !there),
            noticed: [false; 2],
        }
    }

    /// Everything that can happen next.
    pub(crate) fn actions(&self, bounds: &Bounds, automaton: &Automaton) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.changes_left > 0 {
            let concerned =
                |change: &Change| bounds.subjects.is_none_or(|subjects| subjects.contains(&change.subject()));
            let changes = self.state.changes().into_iter().filter(concerned);
            let changes = changes.filter(|change| self.seen.first_of_its_kind(*change));
            actions.extend(changes.map(Action::Change));
        }
        if self.state.announced.is_some() {
            actions.push(Action::Commit);
        }
        actions.extend(self.published.messages().map(Action::Deliver));
        let due = automaton.standing(self.worker).wait.is_some_and(|(reason, _)| reason == WakeReason::Reconcile);
        if self.pulls_left > 0 && due {
            actions.push(Action::Pull);
        }
        if let Some(sent) = self.circuits {
            actions.push(Action::Circuits(When::Now));
            if sent != self.state.circuits() {
                actions.push(Action::Circuits(When::Sent));
            }
        }
        if let Some((known, sent)) = self.config {
            actions.push(Action::Config(When::Now));
            if sent != self.state.config(known) {
                actions.push(Action::Config(When::Sent));
            }
        }
        actions
    }

    /// The world after a step, or the promise that it broke.
    pub(crate) fn after(mut self, action: Action, automaton: &mut Automaton) -> Result<Self, String> {
        match action {
            Action::Change(change) => {
                let (state, message) = self.state.after(change);
                self.state = state;
                self.changes_left -= 1;
                self.seen.note(change);
                self.published.add(message);
            }
            Action::Commit => self.state = self.state.committed(),
            Action::Deliver(message) => self.deliver(message, automaton)?,
            Action::Pull => {
                self.pulls_left -= 1;
                self.wake(automaton)?;
            }
            Action::Circuits(when) => {
                let answer = self.circuits.filter(|_| when == When::Sent).unwrap_or_else(|| self.state.circuits());
                self.answer(answer, automaton)?;
            }
            Action::Config(when) => {
                let Some((known, sent)) = self.config else { return Ok(self) };
                self.answer(if when == When::Sent { sent } else { self.state.config(known) }, automaton)?;
            }
        }
        Ok(self)
    }

    fn deliver(&mut self, message: Message, automaton: &mut Automaton) -> Result<(), String> {
        match message {
            Message::KeyRemoved(i) => (self.revoked[i], self.grant.brings[i]) = (true, false),
            Message::KeyUpdated(i) => (self.noticed[i], self.grant.acks[i]) = (true, false),
            _ => {}
        }
        let did = self.tell(Told::Event(message), automaton)?;
        self.check_keys(NOTHING, automaton)?;
        let now = automaton.standing(self.worker);
        let (so, ack) = match message {
            Message::Created(i) => (now.circuits[i], Some(Ack::Circuit(i))),
            Message::Rerouted(i, _) => (now.circuits[i], None),
            Message::Removed(i) => (!now.circuits[i], None),
            Message::ModelUpdated(i, _) => (now.models[i], Some(Ack::Model(i))),
            Message::ModelRemoved(i) => (!now.models[i], Some(Ack::Model(i))),
            Message::KeyUpdated(_) => (true, None),
            Message::KeyRemoved(i) => (!now.keys[i], Some(Ack::Key(i))),
        };
        if !so || did.acks.first() != ack.as_ref() || did.acks.len() > 1 {
            return Err(format!("after {message:?} it is not in force, or the acks are wrong: {:?}", did.acks));
        }
        Ok(())
    }

    fn answer(&mut self, answer: Answer, automaton: &mut Automaton) -> Result<(), String> {
        match answer {
            Answer::Circuits(_) => self.circuits = None,
            Answer::Config(_) => (self.config, self.grant.given) = (None, true),
            Answer::NotModified => (self.config, self.grant) = (None, NOTHING),
        }
        let grant = if self.grant.given { self.grant } else { NOTHING };
        let did = self.tell(Told::Answer(answer), automaton)?;
        self.check_keys(grant, automaton)?;
        for ack in did.acks {
            match ack {
                Ack::Key(i) if self.noticed[i] && grant.acks[i] => self.noticed[i] = false,
                _ => return Err(format!("{ack:?} is acked by an answer that does not say so")),
            }
        }
        Ok(())
    }

    fn wake(&mut self, automaton: &mut Automaton) -> Result<(), String> {
        let did = self.tell(Told::Wake, automaton)?;
        self.check_keys(NOTHING, automaton)?;
        if did.acks.is_empty() { Ok(()) } else { Err(format!("acked out of nothing: {:?}", did.acks)) }
    }

    fn tell(&mut self, told: Told, automaton: &mut Automaton) -> Result<Did, String> {
        let reaction = automaton.react(self.worker, told);
        self.worker = reaction.to;
        let did = reaction.did.clone();
        if did.hasty {
            return Err("an ack was sent before what it confirms was in force".into());
        }
        if did.gave_up {
            return Err("a request was given up, and nothing had failed".into());
        }
        for asked in &did.asked {
            match asked {
                Asked::Circuits => self.circuits = Some(self.state.circuits()),
                Asked::Config(known) => {
                    self.config = Some((*known, self.state.config(*known)));
                    self.grant = Grant { brings: [true; 2], acks: self.noticed, given: false };
                }
            }
        }
        Ok(did)
    }

    /// No revoked key is there, but one that this answer may bring.
    fn check_keys(&mut self, grant: Grant, automaton: &Automaton) -> Result<(), String> {
        let there = automaton.standing(self.worker).keys;
        for (i, there) in there.into_iter().enumerate() {
            if there && self.revoked[i] && !grant.brings[i] {
                return Err(format!("key {i} is back without a request that could bring it"));
            }
            self.revoked[i] = !there;
        }
        Ok(())
    }

    /// What the closing depends on.
    pub(crate) fn to_close(mut self) -> Self {
        self.state = self.state.committed();
        (self.changes_left, self.pulls_left) = (0, 0);
        (self.published, self.seen) = (Published::default(), Seen::default());
        self.circuits = self.circuits.map(|_| self.state.circuits());
        self.config = self.config.map(|(known, _)| (known, self.state.config(known)));
        self
    }

    pub(crate) const fn state(&self) -> State {
        self.state
    }

    /// What is under way is answered, then the closing pull, and what guards ask for after it. Then the worker must be
    /// as the coordinator. `told` is what the coordinator answers: its own state, unless it lies.
    pub(crate) fn close(mut self, told: State, expected: &Content, automaton: &mut Automaton) -> Result<(), String> {
        self.state = told;
        self.answer_everything(automaton)?;
        let mut passed = 0;
        while let Some((reason, millis)) = automaton.standing(self.worker).wait
            && passed + millis <= CLOSING_MILLIS
        {
            passed += millis;
            self.wake(automaton)?;
            self.answer_everything(automaton)?;
            if reason == WakeReason::Reconcile && automaton.standing(self.worker).content == *expected {
                return Ok(());
            }
        }
        Err("after the closing pull the worker is not as its coordinator".into())
    }

    fn answer_everything(&mut self, automaton: &mut Automaton) -> Result<(), String> {
        loop {
            if self.circuits.is_some() {
                self.answer(self.state.circuits(), automaton)?;
            } else if let Some((known, _)) = self.config {
                self.answer(self.state.config(known), automaton)?;
            } else {
                return Ok(());
            }
        }
    }
}
