//! The shell's part for every node: inputs in, commands out, and every rule held against what comes out.

use std::sync::Arc;

use appproxy_core::exchange::Control;
use appproxy_core::limits;
use appproxy_core::wire::envelope;
use appproxy_core::wire::event::Decoded;
use appproxy_core::worker::{AckTicket, Call, Command, Event, Input, Output};
use appproxy_fixtures::wire::{AckRead, Dialect, read_ack};

use super::broken::{Broken, broken, must};
use super::conduct::{Ending, Purpose};
use super::fault::Fault;
use super::node::{Bus, LiveCall, Node};
use super::promises::About;
use super::reference::{Answer, Flight, Meaning};
use super::run::Kind;
use super::state::{AUTHORITY, State};
use super::world::{Fate, Happening, Message, World};

/// What [`Node::must_tell`] holds when something is to be reported as malformed.
pub(super) const MALFORMED: &str = "(an event of its own)";

impl World {
    /// A message reaches a node.
    pub(super) fn hear(&mut self, node: usize, message: &Message) -> Result<(), Broken> {
        let now = self.now;
        let Some(it) = self.nodes.get_mut(node).and_then(Option::as_mut) else { return Ok(()) };
        let input = match (envelope::decode(&message.bytes, AUTHORITY), &message.meaning) {
            (Decoded::Malformed(malformed), Meaning::Garbage) => Input::BusMalformed(malformed),
            (Decoded::Event(event), meaning) if *meaning != Meaning::Garbage => Input::Bus(event),
            (decoded, meaning) => return broken("a message says what it says", format!("{meaning:?}: {decoded:?}")),
        };
        let early = it.reference.early();
        it.reference.hear(&message.meaning, now);
        if let Meaning::KeyGone(id) = &message.meaning {
            it.keys_gone.insert(id.clone(), now);
        }
        if !it.leaving.0 {
            it.promises.hear(&message.meaning, now, early, it.pulls);
        }
        self.feed(node, input)
    }

    /// One input to a node, and everything that comes of it.
    pub(super) fn feed(&mut self, place: usize, input: Input) -> Result<(), Broken> {
        let Some(mut node) = self.nodes.get_mut(place).and_then(Option::take) else { return Ok(()) };
        let result = self.feed_node(place, &mut node, input);
        let stopped = *result.as_ref().unwrap_or(&false);
        if stopped {
            let pause = if self.healing { 0 } else { self.draws.below(8_000) };
            self.later(pause, Happening::Start { node: place });
        } else if let Some(empty) = self.nodes.get_mut(place) {
            *empty = Some(node);
        }
        result.map(|_| ())
    }

    fn feed_node(&mut self, place: usize, node: &mut Node, input: Input) -> Result<bool, Broken> {
        let statics_before = node.view.static_backends().count();
        let tick = input == Input::Tick;
        if self.trace {
            println!("{:>9} node {place}.{} <- {input:?}", self.now, node.life);
        }
        node.worker.handle_input(input, self.clocks());
        let (mut stopped, mut confirming) = (false, false);
        loop {
            let output = node.worker.poll_output();
            if self.trace && !matches!(output, Output::Wait(_)) {
                println!("{:>9} node {place}.{} -> {output:?}", self.now, node.life);
            }
            match output {
                Output::Wait(deadline) => {
                    node.wait = deadline.map(|deadline| deadline.at.as_millis());
                    break;
                }
                Output::Event(Event::Pull { scope, outcome }) => {
                    confirming = self.pull_ended(node, &scope, &outcome)?
                }
                Output::Event(Event::Notice { text, .. }) => {
                    node.must_tell = node.must_tell.filter(|words| !text.contains(words));
                }
                Output::Event(Event::Malformed(_)) => node.must_tell = node.must_tell.filter(|it| *it != MALFORMED),
                Output::Event(_) => {}
                Output::Command(Command::Stop) => stopped = true,
                Output::Command(command) => self.carry_out(place, node, command, confirming)?,
            }
        }
        if let Some(words) = node.must_tell.take() {
            return broken("the operator is told what went wrong", format!("nothing says {words:?}"));
        }
        if stopped {
            return Ok(true);
        }
        self.settle(node, confirming)?;
        let left_behind = tick && node.wait.is_some_and(|wait| wait <= self.now);
        must(!left_behind, "a deadline is never left behind", || format!("{:?}", node.wait))?;
        must(
            statics_before == 1 && node.view.static_backends().count() == 1,
            "static backends stay untouched",
            || format!("{:?}", node.view.counts()),
        )?;
        Ok(false)
    }

    fn carry_out(&mut self, place: usize, node: &mut Node, command: Command, confirming: bool) -> Result<(), Broken> {
        match command {
            Command::Subscribe => {
                node.conduct.subscribes(self.now)?;
                node.bus = Bus::Asked;
                let after = 1 + self.draws.below(40);
                self.later(after, Happening::Subscribed { node: place, life: node.life });
            }
            Command::Unsubscribe => node.bus = Bus::Off,
            Command::Apply(apply) => {
                node.newest = apply.view.generation.0;
                node.issued.insert(node.newest, Arc::new(State::of_node(node.worker.desired())));
                let slow = self.strikes(Fault::SlowApply);
                let after = if slow { 1 + self.draws.below(400) } else { 0 };
                // Views are swapped in their order.
                let after = after.max(node.swap_at.saturating_sub(self.now));
                node.swap_at = self.now + after;
                self.later(after, Happening::Swap { node: place, life: node.life, apply });
            }
            Command::Call(call) => self.call_made(place, node, call, confirming)?,
            Command::Abandon(id) => {
                if let Some(call) = node.calls.remove(&id) {
                    let timed_out = call.deadline <= self.now;
                    if matches!(call.purpose, Purpose::Register | Purpose::Leave) && timed_out {
                        node.conduct.ended(call.purpose, Ending::Bad, self.now);
                    }
                    if node.reference.flight.as_ref().is_some_and(|flight| Some(flight.number) == call.pull) {
                        node.reference.flight = None;
                    }
                }
            }
            Command::SendAck(ticket) => self.ack_made(place, node, ticket)?,
            Command::Probe(probe) if self.kind == Kind::Legacy => self.inquired(place, node.life, probe),
            Command::Probe(probe) => return broken("nobody is probed here", probe.backend().to_string()),
            Command::AbandonProbe(_) | Command::Stop => {}
        }
        Ok(())
    }

    fn call_made(&mut self, place: usize, node: &mut Node, call: Call, confirming: bool) -> Result<(), Broken> {
        let request = call.request();
        let purpose = Purpose::of(request.method.as_str(), &request.path_and_query);
        let (path, waits) = (&request.path_and_query, node.promises.notice_waits());
        node.conduct.sends(purpose, path, self.now, &node.reference, node.leaving, waits)?;
        if purpose == Purpose::Leave {
            let beats = node.calls.values().any(|call| call.purpose == Purpose::Heartbeat);
            must(!beats, "the DELETE waits for a heartbeat in flight", || path.clone())?;
        }
        let mut pull = None;
        if matches!(purpose, Purpose::Circuits | Purpose::Config) {
            let subscription = if let Bus::Up(number) = node.bus { Some(number) } else { None };
            let (sent, pulls, legacy) = (self.now, &mut node.pulls, self.kind == Kind::Legacy);
            let flight = node.reference.flight.get_or_insert_with(|| {
                *pulls += 1;
                Flight::new(*pulls, sent, subscription, confirming, legacy)
            });
            if !flight.fresh {
                return broken("pulls never overlap with themselves", format!("{path} while {flight:?}"));
            }
            let asked_twice = match purpose {
                Purpose::Circuits => flight.circuits.replace(None).is_some(),
                _ => flight.config.replace(None).is_some(),
            };
            must(!asked_twice, "pulls never overlap with themselves", || path.clone())?;
            pull = Some(flight.number);
        }
        let deadline = call.deadline().as_millis();
        let wait = if pull.is_some() { self.config.pull_timeout } else { self.config.call_timeout };
        let right = u128::from(deadline) == u128::from(self.now) + wait.as_millis();
        must(right, "every call has its deadline", || format!("{purpose:?} sent at {}: {deadline}", self.now))?;
        node.calls.insert(call.id(), LiveCall { purpose, deadline, pull });
        let fate = if self.strikes(Fault::CallFailed) {
            Fate::Failed(self.draws.below(6))
        } else if self.strikes(Fault::CallTruncated) {
            Fate::Truncated
        } else if self.strikes(Fault::CallLate) {
            if self.draws.below(2) == 0 { Fate::Late } else { Fate::Never }
        } else {
            Fate::Answered
        };
        let after = self.latency();
        self.later(after, Happening::Call { node: place, life: node.life, call, fate });
        Ok(())
    }

    fn pull_ended(&mut self, node: &mut Node, scope: &str, outcome: &str) -> Result<bool, Broken> {
        match outcome {
            "failed" => {
                node.reference.flight = None;
                node.conduct.pull_failed();
                return Ok(false);
            }
            "torn" => {
                self.totals.torn += 1;
                let flight = node.reference.flight.take();
                let again = flight.as_ref().is_some_and(|flight| !flight.confirming);
                must(again, "a pull is asked again once only", || format!("{flight:?}"))?;
                return Ok(true);
            }
            _ => {}
        }
        let pulled = node.reference.apply()?;
        let full = pulled.flight.full();
        must(full == (scope == "full"), "a pull is called what it is", || format!("{scope}: {:?}", pulled.flight))?;
        self.totals.pulls += 1;
        self.totals.overlaps += u64::from(pulled.overlapped);
        self.totals.not_modified += u64::from(outcome == "not_modified");
        let follows = match (pulled.flight.subscription, node.bus) {
            (Some(then), Bus::Up(now)) => then == now,
            _ => false,
        };
        node.ask_again = node.promises.pulled(&pulled, matches!(node.bus, Bus::Up(_)), follows);
        node.conduct.pull_applied(full, pulled.config.is_some(), pulled.guarded_until, self.now);
        Ok(false)
    }

    fn ack_made(&mut self, place: usize, node: &mut Node, ticket: AckTicket) -> Result<(), Broken> {
        self.totals.acks += 1;
        must(!node.reference.early(), "no ack before the first pull is applied", || ticket.about.clone())?;
        let abouts = match read_ack(&ticket.message, Dialect::Both) {
            AckRead::Circuits(ids) => ids.into_iter().map(About::Circuit).collect(),
            AckRead::Applied(ack) if ack.kind == "key" => vec![About::Key(ack.id)],
            AckRead::Applied(ack) => vec![About::Model(ack.id)],
            other => return broken("the coordinator can read every ack", format!("{other:?}")),
        };
        // What this input issued may not be in force, and is not what the ack may lean on.
        node.promises.settle(node.newest);
        let (manager, state, gone) = (&self.manager, node.in_force.clone(), &node.keys_gone);
        let as_told = |id: &str, heard_at: u64| {
            let key = state.keys.get(id);
            key.is_none() && gone.get(id).is_some_and(|at| *at >= heard_at) || manager.was(id, key, heard_at)
        };
        let mut promises = core::mem::take(&mut node.promises);
        promises.sent(ticket.id.0, &abouts, node.standpoint(self.now), as_told)?;
        node.promises = promises;
        let unsent = self.bus_down || self.strikes(Fault::AckUnsent);
        if !unsent && !self.strikes(Fault::Lost) {
            let after = 1 + self.draws.below(10);
            self.later(after, Happening::Ack(ticket.message));
        }
        let after = self.draws.below(20);
        self.later(after, Happening::AckDone { node: place, life: node.life, ack: ticket.id, out: !unsent });
        Ok(())
    }

    /// The input is over: what must hold after each one.
    fn settle(&mut self, node: &mut Node, confirming: bool) -> Result<(), Broken> {
        let now = self.now;
        if confirming {
            let again = node.reference.flight.as_ref().is_some_and(Flight::full);
            must(again, "a torn pull is asked again at once as a full pull", || {
                format!("{:?}", node.reference.flight)
            })?;
        }
        if let Some(flight) = node.reference.flight.as_mut().filter(|flight| flight.fresh) {
            flight.fresh = false;
            node.conduct.pulls(flight.full(), flight.circuits.is_some(), now);
            let config = flight.config.is_some();
            must(node.ask_again.is_empty() || config, "a notice that a removal overruled is asked for again", || {
                format!("{:?}", node.ask_again)
            })?;
            node.ask_again.clear();
        }
        must(node.ask_again.is_empty(), "a notice that a removal overruled is asked for again at once", || {
            format!("{:?}", node.ask_again)
        })?;
        let digest = node.worker.desired().digest();
        if node.checked.as_ref() != Some(&(digest, node.reference.version)) {
            if let Some(difference) = State::of_node(node.worker.desired()).difference(&node.reference.state) {
                let rule = "a node wants what it was told, event by event and pull by pull";
                return broken(rule, format!("worker against reference: {difference}"));
            }
            node.checked = Some((digest, node.reference.version));
        }
        node.promises.settle(node.newest);
        let mut promises = core::mem::take(&mut node.promises);
        promises.check_due(node.standpoint(now), &node.reference.state)?;
        node.promises = promises;
        let notice = node.promises.notice_waits();
        node.conduct.check_due(now, node.reference.flight.is_some(), notice, node.leaving.1)?;
        if let Some((id, call)) = node.calls.iter().find(|(_, call)| call.deadline <= now) {
            return broken("a call past its deadline is given up", format!("{id:?} {call:?}"));
        }
        let bounds = [10, limits::HELD_ACKS, limits::KEY_NOTICES, limits::GUARDS];
        let within = node.worker.held().iter().zip(bounds).all(|(held, bound)| *held <= bound);
        must(within && node.worker.dropped_events() == 0, "queues stay within limits.rs", || {
            format!("{:?}", node.worker.held())
        })?;
        if let Control::Worker { standing, .. } = &mut node.control {
            *standing = node.worker.standing();
        }
        Ok(())
    }

    /// A call that the worker may be waiting for has ended.
    pub(super) fn call_ends(
        &mut self,
        place: usize,
        ended: appproxy_core::worker::CallEnded,
        ending: Ending,
        answer: Option<Answer>,
        told: Option<&'static str>,
    ) -> Result<(), Broken> {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(place).and_then(Option::as_mut) else { return Ok(()) };
        if let Some(call) = node.calls.remove(&ended.id()) {
            node.answered(&call, answer);
            node.conduct.ended(call.purpose, ending, now);
            // The DELETE that follows a leaving node's last heartbeat will say it.
            node.must_tell = told.filter(|_| !(node.leaving.1 && call.purpose == Purpose::Heartbeat));
            if ending == Ending::NotFound && call.purpose != Purpose::Register {
                // What was in flight for the registration is given up.
                node.reference.flight = None;
            }
        }
        self.feed(place, Input::CallEnded(ended))
    }
}
