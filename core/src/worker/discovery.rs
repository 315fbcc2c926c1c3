//! Which models are behind an endpoint: its replicas are asked, one after the other, until one says it (worker-protocol
//! 4.2).

use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Worker;
use super::mode::Kept;
use super::output::{Command, Deadline, Event, Severity, WakeReason};
use super::probe::{ModelsSaid, Probe, ProbeId, ProbeOutcome};
use super::probes::{About, models_request};
use crate::backoff::Backoff;
use crate::config::worker::{LegacyMode, Mode};
use crate::desired::{Backend, Desired, EndpointTerms, Learned, Touched, circuit_backends};
use crate::seed::Draws;
use crate::time::Moment;
use crate::wire::ids::EndpointId;

/// The longest wait before an endpoint is asked again.
const LONGEST: Duration = Duration::from_secs(60);

/// What is under way, and what is due, for each endpoint.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Discovery {
    inquiries: BTreeMap<EndpointId, Inquiry>,
    due: BTreeSet<(Moment, EndpointId)>,
}

/// Where a replica is, by the name it has as a backend.
type Replicas = BTreeMap<Arc<str>, (Arc<str>, u16)>;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Inquiry {
    replicas: Replicas,
    /// Whom the last question went to: the next one goes to another.
    last: Option<Arc<str>>,
    backoff: Backoff,
    step: Step,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Step {
    /// All is known, or nobody is there to be asked.
    Resting,
    Due(Moment),
    /// `stale`: the replicas changed meanwhile, so that one of them is asked again.
    UnderWay {
        probe: ProbeId,
        stale: bool,
    },
}

impl Kept {
    /// The legacy worker's.
    pub(super) const fn discovery(&mut self) -> Option<&mut Discovery> {
        match self {
            Self::Legacy(discovery) => Some(discovery),
            Self::Nothing => None,
        }
    }
}

impl Discovery {
    /// When the next question is due.
    pub(super) fn next_deadline(&self) -> Option<Deadline> {
        self.due.first().map(|(at, _)| Deadline { at: *at, reason: WakeReason::Discovery })
    }

    /// Follows the replicas of an endpoint; a question that nobody can answer any more.
    fn follow(&mut self, endpoint: EndpointId, replicas: Replicas, now: Moment) -> Option<ProbeId> {
        let fresh =
            || Inquiry { replicas: Replicas::new(), last: None, backoff: Backoff::new(LONGEST), step: Step::Resting };
        let inquiry = self.inquiries.entry(endpoint).or_insert_with(fresh);
        if inquiry.replicas == replicas {
            return None;
        }
        let asked = inquiry.last.as_ref().map(|name| (inquiry.replicas.get(name).cloned(), replicas.get(name)));
        let still_there = asked.is_some_and(|(before, after)| before.as_ref() == after);
        inquiry.replicas = replicas;
        inquiry.backoff.reset();
        let lost = match inquiry.step {
            Step::UnderWay { probe, .. } if still_there => {
                inquiry.step = Step::UnderWay { probe, stale: true };
                return None;
            }
            Step::UnderWay { probe, .. } => Some(probe),
            Step::Due(_) | Step::Resting => None,
        };
        self.plan(endpoint, now);
        lost
    }

    /// The endpoint is asked no more; the question under way.
    fn forget(&mut self, endpoint: EndpointId) -> Option<ProbeId> {
        match self.inquiries.remove(&endpoint)?.step {
            Step::UnderWay { probe, .. } => Some(probe),
            Step::Due(at) => {
                self.due.remove(&(at, endpoint));
                None
            }
            Step::Resting => None,
        }
    }

    fn plan(&mut self, endpoint: EndpointId, at: Moment) {
        let Some(inquiry) = self.inquiries.get_mut(&endpoint) else { return };
        if let Step::Due(before) = inquiry.step {
            self.due.remove(&(before, endpoint));
        }
        inquiry.step = if inquiry.replicas.is_empty() { Step::Resting } else { Step::Due(at) };
        if inquiry.step == Step::Due(at) {
            self.due.insert((at, endpoint));
        }
    }

    /// The next question that is due, and whom it goes to: after the one asked last, in a circle.
    fn take_due(&mut self, now: Moment) -> Option<(EndpointId, Arc<str>)> {
        while self.due.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, endpoint)) = self.due.pop_first() else { break };
            let Some(inquiry) = self.inquiries.get_mut(&endpoint) else { continue };
            let after = inquiry.last.as_ref().and_then(|last| {
                use core::ops::Bound::{Excluded, Unbounded};
                inquiry.replicas.range::<Arc<str>, _>((Excluded(last), Unbounded)).next()
            });
            let next = after.or_else(|| inquiry.replicas.first_key_value()).map(|(name, _)| name.clone());
            inquiry.step = Step::Resting;
            if let Some(name) = next {
                inquiry.last = Some(name.clone());
                return Some((endpoint, name));
            }
        }
        None
    }

    fn under_way(&mut self, endpoint: EndpointId, probe: ProbeId) {
        if let Some(inquiry) = self.inquiries.get_mut(&endpoint) {
            inquiry.step = Step::UnderWay { probe, stale: false };
        }
    }

    /// A question came to an end; `answered`: there is nothing more to ask while the replicas stay.
    fn ended(&mut self, endpoint: EndpointId, answered: bool, now: Moment, draws: &mut Draws) {
        let Some(inquiry) = self.inquiries.get_mut(&endpoint) else { return };
        let stale = matches!(inquiry.step, Step::UnderWay { stale: true, .. });
        inquiry.step = Step::Resting;
        if answered {
            inquiry.backoff.reset();
        }
        if stale {
            self.plan(endpoint, now);
        } else if !answered {
            let wait = inquiry.backoff.next(draws);
            self.plan(endpoint, now.after(wait));
        }
    }
}

/// What an answer says of the models, when it says anything.
fn learned(outcome: &ProbeOutcome) -> Option<Learned> {
    match outcome {
        ProbeOutcome::Answered { models: Some(names), .. } => Learned::of_list(names.iter().cloned()),
        ProbeOutcome::Answered { said: ModelsSaid::NoName, .. }
        | ProbeOutcome::Answered { status: 401 | 500 | 502.., .. }
        | ProbeOutcome::Failed(_) => None,
        ProbeOutcome::Answered { .. } => Some(Learned::Opaque),
    }
}

/// The replicas that can be asked; drained ones are none of them.
fn replicas(desired: &Desired, endpoint: EndpointId) -> BTreeMap<Arc<str>, Backend> {
    let terms = EndpointTerms { models: Arc::default(), ratio: 1.0 };
    let routes = desired.circuits_of(endpoint).flat_map(|circuit| circuit_backends(circuit, &terms));
    routes.map(|route| (route.backend.name.clone(), route.backend)).collect()
}

/// The configured name of an endpoint (`model_names`), by its id or by the sub-domain of a circuit of it.
fn given<'a>(mode: &'a LegacyMode, desired: &Desired, endpoint: EndpointId) -> Option<&'a Arc<str>> {
    let id = endpoint.to_string();
    let names = |key: &str| {
        desired.circuits_of(endpoint).any(|circuit| circuit.subdomain.as_deref() == Some(key)) || *key == *id
    };
    mode.model_names.iter().find(|(key, _)| names(key)).map(|(_, name)| name)
}

impl Worker {
    /// Follows what changed among circuits, before it is served.
    pub(super) fn discovery_touched(&mut self, touched: &Touched) {
        for &endpoint in &touched.endpoints {
            let given = match &self.config.mode {
                Mode::Legacy(mode) => given(mode, &self.desired, endpoint).cloned(),
                Mode::Router(_) | Mode::Plain => None,
            };
            if self.desired.circuits_of(endpoint).next().is_none() {
                self.desired.learn(endpoint, None);
                self.forget_inquiry(endpoint);
            } else if let Some(name) = given {
                self.desired.learn(endpoint, Learned::of_list([name]));
                self.forget_inquiry(endpoint);
            } else {
                let replicas = replicas(&self.desired, endpoint).into_iter();
                let replicas = replicas.map(|(name, backend)| (name, (backend.host, backend.port))).collect();
                let now = self.now.moment;
                let lost = self.kept.discovery().and_then(|discovery| discovery.follow(endpoint, replicas, now));
                self.abandon_inquiry(lost);
            }
        }
    }

    fn forget_inquiry(&mut self, endpoint: EndpointId) {
        let lost = self.kept.discovery().and_then(|discovery| discovery.forget(endpoint));
        self.abandon_inquiry(lost);
    }

    fn abandon_inquiry(&mut self, lost: Option<ProbeId>) {
        if let Some(probe) = lost.filter(|probe| self.probes.finish(*probe).is_some()) {
            self.outputs.command(Command::AbandonProbe(probe));
        }
    }

    /// Asks the questions that are due, as far as there is room.
    pub(super) fn begin_inquiries(&mut self) {
        let now = self.now.moment;
        let timeout = self.serving.checks().timeout;
        while self.probes.has_room() {
            let Some((endpoint, name)) = self.kept.discovery().and_then(|discovery| discovery.take_due(now)) else {
                return;
            };
            let backend = replicas(&self.desired, endpoint).remove(&name);
            let request = backend.as_ref().and_then(models_request);
            match (backend, request) {
                (Some(backend), Some(request)) => {
                    let about = About::Models { endpoint, replica: name.clone() };
                    let (id, deadline) = self.probes.send(about, now, timeout);
                    if let Some(discovery) = self.kept.discovery() {
                        discovery.under_way(endpoint, id);
                    }
                    let probe = Probe { id, backend: name, kind: backend.kind, request, timeout, deadline };
                    self.outputs.command(Command::Probe(probe));
                }
                // An address that makes no URI answers nothing.
                _ => self.end_inquiry(endpoint, false),
            }
        }
    }

    pub(super) fn inquiry_ended(&mut self, endpoint: EndpointId, replica: &Arc<str>, outcome: &ProbeOutcome) {
        self.outputs.event(Event::ProbeEnded { backend: Some(replica.clone()), outcome: outcome.label() });
        let learned = learned(outcome);
        let named = matches!(learned, Some(Learned::Models { .. }));
        if let Some(learned) = learned
            && self.desired.learn(endpoint, Some(learned.clone()))
        {
            let text = match learned.canonical() {
                Some(name) => format!("endpoint {endpoint} serves the model {name:?}, as {replica} says"),
                None => format!("endpoint {endpoint} lists no models, as {replica} says: its requests pass untouched"),
            };
            self.notice(Severity::Info, "model_learned", text);
        }
        // One that lists nothing may only be starting behind a server that answers already.
        self.end_inquiry(endpoint, named);
    }

    fn end_inquiry(&mut self, endpoint: EndpointId, answered: bool) {
        let now = self.now.moment;
        if let Some(discovery) = self.kept.discovery() {
            discovery.ended(endpoint, answered, now, &mut self.probes.draws);
        }
    }
}
