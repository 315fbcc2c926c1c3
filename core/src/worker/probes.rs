//! When which backend is probed (data-plane 4), and what becomes of the results.
//!
//! The first probes after many backends came are spread over a while, and so are the second ones: from then on every
//! backend keeps its own beat.

use core::time::Duration;
use http::header::{ACCEPT, HOST, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Worker;
use super::call::TransportFailure;
use super::lifecycle::Lifecycle;
use super::output::{Command, Deadline, Event, WakeReason};
use super::probe::{Probe, ProbeEnded, ProbeId, ProbeOutcome};
use crate::config::health::HealthChecks;
use crate::desired::{Backend, BackendKind};
use crate::limits;
use crate::seed::Draws;
use crate::serving::ProbeSign;
use crate::time::Moment;
#[cfg(feature = "appproxy-legacy")]
use crate::wire::ids::EndpointId;

/// Room that first probes leave to each other.
const FIRST_STEP: Duration = Duration::from_millis(1);

/// Whom to probe, when, and which probes are under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Probes {
    pub(super) draws: Draws,
    last: u64,
    plans: BTreeMap<Arc<str>, Plan>,
    due: BTreeSet<(Moment, Arc<str>)>,
    waiting: BTreeMap<ProbeId, UnderWay>,
    by_deadline: BTreeSet<(Moment, ProbeId)>,
    over: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct UnderWay {
    about: About,
    began: Moment,
    deadline: Moment,
}

/// What a probe is for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum About {
    /// How this backend is.
    Health(Arc<str>),
    /// Which models an endpoint has, as one of its replicas says.
    #[cfg(feature = "appproxy-legacy")]
    Models { endpoint: EndpointId, replica: Arc<str> },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum Next {
    At(Moment),
    UnderWay(ProbeId),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Plan {
    next: Next,
    /// Whether its own beat has been drawn.
    in_beat: bool,
}

impl Probes {
    pub(super) const fn new(draws: Draws) -> Self {
        Self {
            draws,
            last: 0,
            plans: BTreeMap::new(),
            due: BTreeSet::new(),
            waiting: BTreeMap::new(),
            by_deadline: BTreeSet::new(),
            over: false,
        }
    }

    /// The next probe, deadline of one, or neither.
    pub(super) fn next_deadline(&self) -> Option<Deadline> {
        let due =
            self.due.first().filter(|_| self.has_room()).map(|(at, _)| Deadline { at: *at, reason: WakeReason::Probe });
        let given_up = self.by_deadline.first().map(|(at, _)| Deadline { at: *at, reason: WakeReason::ProbeDeadline });
        due.into_iter().chain(given_up).min()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether one more may be under way.
    pub(super) fn has_room(&self) -> bool {
        !self.over && self.waiting.len() < limits::PROBES
    }

    fn add(&mut self, came: BTreeSet<Arc<str>>, now: Moment, checks: &HealthChecks) {
        if self.over {
            return;
        }
        let step = FIRST_STEP.saturating_mul(u32::try_from(came.len()).unwrap_or(u32::MAX));
        let window = step.max(checks.warmup_check_interval).min(checks.interval);
        for name in came {
            let at = now.after(self.draws.duration_below(window));
            self.due.insert((at, name.clone()));
            self.plans.insert(name, Plan { next: Next::At(at), in_beat: false });
        }
    }

    /// The probe that is under way for a backend that is gone.
    fn remove(&mut self, name: &Arc<str>) -> Option<ProbeId> {
        match self.plans.remove(name)?.next {
            Next::At(at) => {
                self.due.remove(&(at, name.clone()));
                None
            }
            Next::UnderWay(id) => {
                self.finish(id);
                Some(id)
            }
        }
    }

    /// Begins the earliest probe that is due, if there is room for one.
    fn begin(&mut self, now: Moment, timeout: Duration) -> Option<(ProbeId, Arc<str>, Moment)> {
        if self.waiting.len() >= limits::PROBES || self.due.first()?.0 > now {
            return None;
        }
        let (_, name) = self.due.pop_first()?;
        let (id, deadline) = self.send(About::Health(name.clone()), now, timeout);
        if let Some(plan) = self.plans.get_mut(&name) {
            plan.next = Next::UnderWay(id);
        }
        Some((id, name, deadline))
    }

    /// One more is under way.
    pub(super) fn send(&mut self, about: About, now: Moment, timeout: Duration) -> (ProbeId, Moment) {
        self.last += 1;
        let (id, deadline) = (ProbeId(self.last), now.after(timeout));
        self.waiting.insert(id, UnderWay { about, began: now, deadline });
        self.by_deadline.insert((deadline, id));
        (id, deadline)
    }

    /// Takes the probe out; `None` when nobody waits for it.
    pub(super) fn finish(&mut self, id: ProbeId) -> Option<UnderWay> {
        let probe = self.waiting.remove(&id)?;
        self.by_deadline.remove(&(probe.deadline, id));
        Some(probe)
    }

    fn given_up(&self, now: Moment) -> Option<ProbeId> {
        self.by_deadline.first().filter(|(deadline, _)| *deadline <= now).map(|(_, id)| *id)
    }

    /// Plans the probe after one that has ended.
    fn plan(&mut self, backend: Arc<str>, began: Moment, wait: Duration, now: Moment, checks: &HealthChecks) {
        let Some(plan) = self.plans.get_mut(&backend) else { return };
        let mut at = began.after(wait);
        if !plan.in_beat && wait == checks.interval {
            plan.in_beat = true;
            at = began.after(self.draws.duration_below(wait));
        }
        // Never at once: a probe that can end on the spot must not go round for ever.
        let at = at.max(now.after(FIRST_STEP));
        plan.next = Next::At(at);
        self.due.insert((at, backend));
    }

    /// No more probes; those under way.
    fn end(&mut self) -> Vec<ProbeId> {
        self.over = true;
        self.plans.clear();
        self.due.clear();
        self.by_deadline.clear();
        core::mem::take(&mut self.waiting).into_keys().collect()
    }
}

impl Worker {
    pub(super) fn probe_ended(&mut self, ended: ProbeEnded) {
        match self.probes.finish(ended.id) {
            Some(probe) => self.probe_outcome(probe, ended.outcome),
            None => self.outputs.event(Event::ProbeEnded { backend: None, outcome: "late".into() }),
        }
    }

    fn probe_outcome(&mut self, probe: UnderWay, outcome: ProbeOutcome) {
        let UnderWay { about, began, .. } = probe;
        match about {
            About::Health(backend) => {
                self.outputs.event(Event::ProbeEnded { backend: Some(backend.clone()), outcome: outcome.label() });
                self.take_sign(backend, began, outcome.sign());
            }
            #[cfg(feature = "appproxy-legacy")]
            About::Models { endpoint, replica } => self.inquiry_ended(endpoint, &replica, &outcome),
        }
    }

    fn take_sign(&mut self, backend: Arc<str>, began: Moment, sign: ProbeSign) {
        let now = self.now.moment;
        if let Some(wait) = self.serving.take_sign(&backend, sign, now) {
            self.probes.plan(backend, began, wait, now, self.serving.checks());
        }
    }

    /// Probes that are given up, and quarantines that are over.
    pub(super) fn fire_health(&mut self) {
        let now = self.now.moment;
        while let Some(id) = self.probes.given_up(now) {
            self.outputs.command(Command::AbandonProbe(id));
            if let Some(probe) = self.probes.finish(id) {
                self.probe_outcome(probe, ProbeOutcome::Failed(TransportFailure::TimedOut));
            }
        }
        self.serving.release_due(now);
    }

    /// Tells what changed, follows who came and went, and begins the probes that are due. Whether one of these ended on
    /// the spot: then the view has to follow.
    pub(super) fn settle_health(&mut self) -> bool {
        if self.lifecycle == Lifecycle::Idle {
            return false;
        }
        let mut ended = false;
        for change in self.serving.take_news() {
            self.outputs.event(Event::Health(change));
        }
        let roster = self.serving.take_roster();
        for name in roster.gone {
            if let Some(id) = self.probes.remove(&name) {
                self.outputs.command(Command::AbandonProbe(id));
            }
        }
        let now = self.now.moment;
        self.probes.add(roster.came, now, self.serving.checks());
        let timeout = self.serving.checks().timeout;
        while let Some((id, name, deadline)) = self.probes.begin(now, timeout) {
            let backend = self.serving.view().backend(&name);
            let request = backend.and_then(|backend| request(backend, &self.serving.checks().endpoint));
            match (backend, request) {
                (Some(backend), Some(request)) => {
                    let kind = backend.kind;
                    let probe = Probe { id, backend: name, kind, request, timeout, deadline };
                    self.outputs.command(Command::Probe(probe));
                }
                // A backend whose address makes no URI cannot be reached, like one that refuses the connection.
                _ => {
                    if let Some(probe) = self.probes.finish(id) {
                        self.take_sign(name, probe.began, ProbeSign::Bad);
                        ended = true;
                    }
                }
            }
        }
        self.mode_begin_inquiries();
        ended
    }

    pub(super) fn stop_probes(&mut self) {
        for id in self.probes.end() {
            self.outputs.command(Command::AbandonProbe(id));
        }
    }
}

/// What asks a backend for its list of models.
#[cfg(feature = "appproxy-legacy")]
pub(super) fn models_request(backend: &Backend) -> Option<Request<()>> {
    request(backend, HealthChecks::ENDPOINT)
}

/// What asks a backend how it is: its list of models, unless the configuration names another path.
fn request(backend: &Backend, endpoint: &str) -> Option<Request<()>> {
    let usual = endpoint == HealthChecks::ENDPOINT;
    let path = match backend.kind {
        BackendKind::Gemini if usual => "/v1beta/models?pageSize=1000",
        BackendKind::Anthropic if usual => "/v1/models?limit=1000",
        _ => endpoint,
    };
    let (uri, host) = backend.uri_of(&PathAndQuery::try_from(path).ok()?)?;
    let mut request = Request::new(());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = uri;
    let headers = request.headers_mut();
    headers.insert(HOST, host);
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if backend.kind == BackendKind::Anthropic {
        // Without it every answer is 400.
        let version = HeaderName::from_static("anthropic-version");
        headers.insert(version, HeaderValue::from_static("2023-06-01"));
    }
    headers.extend(backend.credential_header());
    Some(request)
}
