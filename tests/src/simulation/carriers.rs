//! What carries calls and messages, and loses, delays and breaks them.

use std::sync::Arc;

use appproxy_core::worker::{Call, CallBody, CallResponse, Input, TransportFailure};
use appproxy_fixtures::Request;
use appproxy_fixtures::coordinator::Plant;

use super::broken::Broken;
use super::conduct::{Ending, Purpose};
use super::fault::Fault;
use super::node::{Bus, SECRET};
use super::reference::{Answer, CircuitsAnswer, ConfigAnswer, Meaning};
use super::run::Kind;
use super::shell::MALFORMED;
use super::state::{AUTHORITY, State};
use super::world::{Fate, Happening, Message, World};

impl World {
    /// How long a call or an answer takes.
    pub(super) fn latency(&mut self) -> u64 {
        let slow = if self.strikes(Fault::CallSlow) { self.draws.below(9_000) } else { 0 };
        1 + self.draws.below(20) + slow
    }

    /// A call reaches the coordinator, or what is left of it.
    pub(super) fn call_arrives(&mut self, node: usize, life: u64, call: Call, fate: Fate) {
        let deadline = call.deadline().as_millis();
        let purpose = Purpose::of(call.request().method.as_str(), &call.request().path_and_query);
        if self.coordinator_down || fate == Fate::Failed(0) {
            let ended = call.failed(TransportFailure::Refused);
            self.later(1, Happening::Ended { node, life, ended, ending: Ending::Refused, answer: None, told: None });
            return;
        }
        if fate == Fate::Failed(1) {
            let ended = call.failed(TransportFailure::Reset);
            self.later(1, Happening::Ended { node, life, ended, ending: Ending::Bad, answer: None, told: None });
            return;
        }
        let mut request = Request::new(call.request().method.clone(), call.request().path_and_query.clone());
        if let Some(body) = &call.request().body {
            request = request.with_header("content-type", "application/json");
            request.body = body.clone().into_bytes();
        }
        let wall = self.wall().cast_unsigned();
        let handled = self.coordinator.handle(&request.with_token(SECRET), self.now, wall);
        let Some(response) = handled.response else { return };
        let (mut status, mut body) = (response.status, response.body);
        let failure = match fate {
            Fate::Failed(2) => Some(TransportFailure::Reset),
            Fate::Failed(5) => Some(TransportFailure::NotHttp),
            Fate::Failed(number) => {
                status = if number == 3 { 503 } else { 429 };
                body = b"{\"title\": \"busy\"}".to_vec();
                None
            }
            _ => None,
        };
        if fate == Fate::Truncated {
            body.truncate(body.len() / 2);
        }
        let good = failure.is_none() && (status == 200 || (status == 304 && purpose == Purpose::Config));
        let unreadable = good
            && fate == Fate::Truncated
            && status == 200
            && matches!(purpose, Purpose::Register | Purpose::Circuits | Purpose::Config);
        let (ending, told) = match status {
            _ if failure.is_some() => (Ending::Bad, None),
            _ if unreadable => (Ending::Bad, Some(MALFORMED)),
            _ if good => (Ending::Good, None),
            404 if purpose != Purpose::Register => (Ending::NotFound, None),
            401 | 403 => (Ending::Hopeless, Some("api_secret rejected by the coordinator")),
            400 | 422 if purpose == Purpose::Register => {
                // Every released coordinator knows wildcard workers: there it is not its age.
                let words = if self.kind == Kind::Router { "older than BEP-1053" } else { "refused the registration" };
                (Ending::Hopeless, Some(words))
            }
            _ => (Ending::Bad, None),
        };
        let answer = if ending == Ending::Good { self.known_of(purpose, status) } else { None };
        let ended = match failure {
            Some(failure) => call.failed(failure),
            None => call.answered(CallResponse { status, body: CallBody(body) }),
        };
        let after = match fate {
            Fate::Never => return,
            Fate::Late => deadline.saturating_sub(self.now) + 1 + self.draws.below(10_000),
            _ => self.latency(),
        };
        self.later(after, Happening::Ended { node, life, ended, ending, answer, told });
    }

    /// What the answer that the coordinator gives just now says.
    fn known_of(&self, purpose: Purpose, status: u16) -> Option<Answer> {
        let spoiled = |place: Plant| self.coordinator.spoiled(AUTHORITY, place);
        let State { mut circuits, mut publications, mut keys, .. } = self.wanted();
        Some(match purpose {
            Purpose::Circuits => {
                let mut answer = CircuitsAnswer::default();
                for (id, readable) in spoiled(Plant::Circuit) {
                    let Ok(id) = id.parse() else { continue };
                    if circuits.remove(&id).is_none() {
                        continue;
                    }
                    if readable {
                        answer.malformed.insert(id);
                    } else {
                        answer.unreadable = true;
                    }
                }
                answer.good = circuits;
                Answer::Circuits(Arc::new(answer))
            }
            Purpose::Config if status == 304 => Answer::NotModified,
            Purpose::Config => {
                let revision = self.coordinator.revision(AUTHORITY).to_string();
                let mut answer = ConfigAnswer { revision, ..ConfigAnswer::default() };
                for (name, readable) in spoiled(Plant::Model) {
                    if publications.remove(&name).is_none() {
                        continue;
                    }
                    if readable {
                        answer.malformed.insert(name);
                    } else {
                        answer.unreadable = true;
                    }
                }
                for (id, readable) in spoiled(Plant::Key) {
                    if keys.remove(&id).is_none() {
                        continue;
                    }
                    if readable {
                        answer.malformed_keys.insert(id);
                    } else {
                        answer.unreadable_key = true;
                    }
                }
                (answer.publications, answer.keys) = (publications, keys);
                Answer::Config(Arc::new(answer))
            }
            Purpose::Register | Purpose::Heartbeat | Purpose::Leave => return None,
        })
    }

    /// A message goes out on the channel.
    pub(super) fn broadcast(&mut self, message: &Message) {
        if self.bus_down {
            return;
        }
        for place in 0..self.nodes.len() {
            let Some(node) = self.nodes.get(place).and_then(Option::as_ref) else { continue };
            let (life, Bus::Up(subscription)) = (node.life, node.bus) else { continue };
            if self.strikes(Fault::Lost) {
                continue;
            }
            let mut message = message.clone();
            if self.strikes(Fault::MalformedMessage) {
                let cut = usize::try_from(self.draws.below(message.bytes.len() as u64)).unwrap_or_default();
                message = Message { bytes: message.bytes[..cut].into(), meaning: Meaning::Garbage };
            }
            let copies = if self.strikes(Fault::Duplicated) { 2 } else { 1 };
            let delayed = self.strikes(Fault::Delayed);
            if (copies == 2 || delayed)
                && let Meaning::KeyNotice(id) | Meaning::KeyGone(id) = &message.meaning
            {
                self.manager.doubt([id.clone()], self.now);
            }
            for copy in 0..copies {
                let mut after = 1 + copy;
                if delayed {
                    after += 1_000 + self.draws.below(15_000);
                } else if copy > 0 || self.strikes(Fault::Reordered) {
                    after += self.draws.below(400);
                }
                self.later(after, Happening::Message { node: place, life, subscription, message: message.clone() });
            }
        }
    }

    /// The shell says what became of a subscription.
    pub(super) fn subscribed(&mut self, place: usize, life: u64) -> Result<(), Broken> {
        let (now, down) = (self.now, self.bus_down);
        let Some(node) = self.lives(place, life).filter(|node| node.bus == Bus::Asked) else { return Ok(()) };
        if down {
            return self.bus_lost(place);
        }
        node.subscriptions += 1;
        node.bus = Bus::Up(node.subscriptions);
        node.conduct.bus_up(now);
        self.feed(place, Input::BusUp)
    }

    /// A node loses its subscription.
    pub(super) fn bus_lost(&mut self, place: usize) -> Result<(), Broken> {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(place).and_then(Option::as_mut) else { return Ok(()) };
        if node.bus == Bus::Off {
            return Ok(());
        }
        node.bus = Bus::Off;
        node.conduct.bus_lost(now);
        node.promises.bus_lost();
        // Acks of before the loss may go out a second time.
        let known: Vec<String> = self.manager.secrets.keys().cloned().collect();
        self.manager.doubt(known, now);
        self.feed(place, Input::BusLost("cut".into()))
    }
}
