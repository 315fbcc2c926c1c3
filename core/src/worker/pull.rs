//! Pulls: one slot, whole answers or none (worker-protocol 3.3, rules 1, 2, 6, 7).

use core::time::Duration;
use http::Method;

use super::Worker;
use super::call::{CallId, CallOutcome};
use super::calls::{Purpose, RequestParts};
use super::defects::{Defect, has};
use super::heard::{HeardCircuits, HeardConfig};
use super::lifecycle::Lifecycle;
use super::output::{Command, Event, Severity, WakeReason};
use super::report::Trouble;
use crate::backoff::Backoff;
use crate::limits;
use crate::time::Moment;
use crate::wire::circuit::{Circuit, parse_circuits_answer};
use crate::wire::ids::{CircuitId, Revision, WorkerId};
use crate::wire::malformed::{Elements, Malformed};
use crate::wire::snapshot::{Snapshot, parse_snapshot};

/// At least this often router-config is asked for whole (rule 6).
const WHOLE: Duration = Duration::from_secs(600);

/// What a pull asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Full,
    Circuits,
    Config,
}

impl Scope {
    /// The scope that covers both.
    pub(super) fn with(self, other: Self) -> Self {
        if self == other { self } else { Self::Full }
    }

    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Circuits => "circuits",
            Self::Config => "config",
        }
    }
}

/// The one slot, and what outlives a pull.
#[derive(Debug)]
pub(super) struct Pulls {
    /// The number of the last pull sent.
    pub(super) number: u64,
    slot: Slot,
    backoff: Backoff,
    /// A trigger may cut the present wait short: once, or triggers would undo the back-off.
    may_cut: bool,
    /// Until the process's first pull is applied: everything heard since the start (rule 5).
    pub(super) early: Option<(HeardCircuits, HeardConfig)>,
    /// No full pull has been applied since the registration.
    pub(super) new_registration: bool,
}

#[derive(Debug)]
enum Slot {
    Idle,
    /// After a failure, until the back-off ends.
    Waiting(Scope),
    Flying(Box<Flight>),
}

/// A pull under way.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) number: u64,
    pub(super) scope: Scope,
    /// Asked because the pull before looked torn: what this one says counts.
    pub(super) confirming: bool,
    pub(super) sent: Moment,
    /// The subscription that stood when it was sent.
    pub(super) subscription: Option<u64>,
    pub(super) circuits: Leg<Elements<Circuit>>,
    pub(super) config: Leg<ConfigAnswer>,
    /// Whether `known_revision` was sent.
    conditional: bool,
    pub(super) heard_circuits: HeardCircuits,
    pub(super) heard_config: HeardConfig,
    pub(super) again: Option<Scope>,
}

/// One request of a pull.
#[derive(Debug)]
pub(super) enum Leg<T> {
    NotAsked,
    Asked(CallId),
    Answered(T),
}

#[derive(Debug)]
pub(super) enum ConfigAnswer {
    Snapshot(Box<Snapshot>),
    NotModified,
}

/// Which snapshot the local state is, if it still is one (rule 7).
#[derive(Debug, Default)]
pub(super) struct SnapshotCopy {
    pub(super) revision: Option<Revision>,
    /// No event has changed a publication or a key since.
    pub(super) clean: bool,
    /// When the last whole answer was asked for.
    pub(super) whole_at: Moment,
}

impl Pulls {
    pub(super) fn new(reconcile_interval: Duration) -> Self {
        Self {
            number: 0,
            slot: Slot::Idle,
            backoff: Backoff::new(reconcile_interval),
            may_cut: true,
            early: Some(Default::default()),
            new_registration: false,
        }
    }

    pub(super) fn heard_circuit(&mut self, id: CircuitId, now: Option<&Circuit>) {
        if let Some((circuits, _)) = &mut self.early {
            circuits.record(id, now.cloned());
        } else if let Slot::Flying(flight) = &mut self.slot
            && !(has(Defect::OverlapEndsAtAnswer) && matches!(flight.circuits, Leg::Answered(_)))
        {
            flight.heard_circuits.record(id, now.cloned());
        }
    }

    pub(super) fn heard_config(&mut self, record: impl FnOnce(&mut HeardConfig)) {
        if let Some((_, config)) = &mut self.early {
            record(config);
        } else if let Slot::Flying(flight) = &mut self.slot
            && !(has(Defect::OverlapEndsAtAnswer) && matches!(flight.config, Leg::Answered(_)))
        {
            record(&mut flight.heard_config);
        }
    }

    /// Whether more was heard than is remembered.
    fn heard_too_much(&self) -> bool {
        let heard = match (&self.early, &self.slot) {
            (Some((circuits, config)), _) => circuits.len() + config.len(),
            (None, Slot::Flying(flight)) => flight.heard_circuits.len() + flight.heard_config.len(),
            (None, Slot::Idle | Slot::Waiting(_)) => 0,
        };
        heard > limits::HEARD
    }

    /// A pull was applied: the back-off starts over.
    pub(super) const fn settled(&mut self) {
        self.backoff.reset();
        self.may_cut = true;
    }
}

impl Worker {
    /// Something calls for a pull. While a failed one waits for its back-off, the first such call cuts the wait short.
    pub(super) fn pull(&mut self, scope: Scope) {
        let cut = core::mem::take(&mut self.pulls.may_cut);
        if !self.trigger(scope, cut) {
            self.pulls.may_cut = cut;
        }
    }

    /// The periodic pull: no back-off blocks it.
    pub(super) fn periodic_pull(&mut self) {
        if has(Defect::BackoffBlocksTick) && matches!(self.pulls.slot, Slot::Waiting(_)) {
            return;
        }
        self.trigger(Scope::Full, true);
    }

    /// Whether a wait was cut short.
    fn trigger(&mut self, scope: Scope, cut: bool) -> bool {
        if self.drained || !matches!(self.lifecycle, Lifecycle::Serving { .. }) {
            // A registration is followed by a full pull anyway.
            return false;
        }
        // Until the first full pull is applied, half of the state is of no use.
        let scope = if self.pulls.early.is_some() { Scope::Full } else { self.mode_scope(scope) };
        match &mut self.pulls.slot {
            Slot::Flying(_) if has(Defect::AgainForgotten) => {}
            Slot::Flying(flight) => flight.again = Some(flight.again.map_or(scope, |again| again.with(scope))),
            Slot::Waiting(waiting) => {
                *waiting = waiting.with(scope);
                let scope = *waiting;
                if cut {
                    self.send_pull(scope, false);
                }
                return cut;
            }
            Slot::Idle => self.send_pull(scope, false),
        }
        false
    }

    pub(super) fn retry_pull(&mut self) {
        if let Slot::Waiting(scope) = self.pulls.slot {
            self.pulls.may_cut = true;
            self.send_pull(scope, false);
        }
    }

    pub(super) fn send_pull(&mut self, scope: Scope, confirming: bool) {
        let Lifecycle::Serving { worker_id } = self.lifecycle else { return };
        self.timers.cancel(WakeReason::PullRetry);
        self.pulls.number += 1;
        let now = self.now.moment;
        let deadline = now.after(self.config.pull_timeout * if has(Defect::NoPullDeadline) { 100 } else { 1 });
        let circuits = if scope == Scope::Config {
            Leg::NotAsked
        } else {
            self.guards.forget_before(now);
            Leg::Asked(self.call(Purpose::Circuits, deadline, get(worker_id, "circuits".to_owned())))
        };
        let known = self.known_revision();
        let conditional = known.is_some();
        let config = if scope == Scope::Circuits || !self.mode_has_router_config() {
            Leg::NotAsked
        } else {
            let what = match known {
                Some(revision) => format!("router-config?known_revision={}", percent_encoded(&revision.0)),
                None => "router-config".to_owned(),
            };
            Leg::Asked(self.call(Purpose::RouterConfig, deadline, get(worker_id, what)))
        };
        self.pulls.slot = Slot::Flying(Box::new(Flight {
            number: self.pulls.number,
            scope,
            confirming,
            sent: now,
            subscription: self.bus.up.then_some(self.bus.subscription),
            circuits,
            config,
            conditional,
            heard_circuits: HeardCircuits::default(),
            heard_config: HeardConfig::default(),
            again: None,
        }));
    }

    /// The revision to send: only while the local state is that snapshot, and not for ever.
    fn known_revision(&self) -> Option<Revision> {
        let fresh = self.now.moment.since(self.snapshot.whole_at) < WHOLE || has(Defect::NeverWhole);
        let clean = (self.snapshot.clean || has(Defect::RevisionSentWhileDirty)) && self.notices.is_empty() && fresh;
        self.snapshot.revision.clone().filter(|_| clean)
    }

    /// After a re-registration the next pull is unconditional (rule 8).
    pub(super) fn forget_snapshot(&mut self) {
        if !has(Defect::ConditionalAfterRejoin) {
            self.snapshot = SnapshotCopy::default();
        }
        self.pulls.new_registration = true;
    }

    pub(super) fn circuits_ended(&mut self, outcome: &CallOutcome) {
        match outcome {
            CallOutcome::Answered(response) if response.status == 200 => {
                match parse_circuits_answer(&response.body.0) {
                    Ok(answer) => {
                        self.report_malformed(&answer.malformed);
                        if let Slot::Flying(flight) = &mut self.pulls.slot {
                            flight.circuits = Leg::Answered(answer);
                        }
                        self.pull_answered();
                    }
                    Err(_) if has(Defect::UnreadableBodyIsEmpty) => {
                        self.desired.replace_circuits(Default::default());
                    }
                    Err(malformed) => self.pull_unreadable(malformed),
                }
            }
            failed => self.pull_call_failed(Purpose::Circuits, failed),
        }
    }

    pub(super) fn router_config_ended(&mut self, outcome: &CallOutcome) {
        let Slot::Flying(flight) = &mut self.pulls.slot else { return };
        match outcome {
            CallOutcome::Answered(response) if response.status == 200 => match parse_snapshot(&response.body.0) {
                Ok(snapshot) => {
                    for malformed in [&snapshot.models.malformed, &snapshot.keys.malformed, &snapshot.forgiven] {
                        self.report_malformed(malformed);
                    }
                    if let Slot::Flying(flight) = &mut self.pulls.slot {
                        flight.config = Leg::Answered(ConfigAnswer::Snapshot(Box::new(snapshot)));
                    }
                    self.pull_answered();
                }
                Err(malformed) => self.pull_unreadable(malformed),
            },
            CallOutcome::Answered(response) if response.status == 304 && flight.conditional => {
                flight.config = Leg::Answered(ConfigAnswer::NotModified);
                self.pull_answered();
            }
            failed => self.pull_call_failed(Purpose::RouterConfig, failed),
        }
    }

    /// Applies the pull when all of it is in.
    fn pull_answered(&mut self) {
        let waits = match &self.pulls.slot {
            Slot::Flying(flight) => matches!(flight.circuits, Leg::Asked(_)) || matches!(flight.config, Leg::Asked(_)),
            Slot::Idle | Slot::Waiting(_) => true,
        };
        if waits {
            return;
        }
        if let Slot::Flying(flight) = core::mem::replace(&mut self.pulls.slot, Slot::Idle) {
            self.apply_pull(*flight);
        }
    }

    fn pull_unreadable(&mut self, malformed: Malformed) {
        let text = format!("{malformed}; nothing of it is applied");
        if !has(Defect::MalformedUnsaid) {
            self.outputs.event(Event::Malformed(malformed));
        }
        self.pull_failed(&text, false);
    }

    fn pull_call_failed(&mut self, purpose: Purpose, outcome: &CallOutcome) {
        if matches!(outcome, CallOutcome::Answered(response) if response.status == 404) {
            self.row_lost(purpose);
            return;
        }
        match self.secret_rejected(outcome) {
            Some(text) => self.pull_failed(&text, true),
            None => self.pull_failed(&Self::failure_text(outcome), false),
        }
    }

    /// The pull in flight came to nothing: half an answer is never kept, and the data plane goes on as it is.
    pub(super) fn pull_failed(&mut self, why: &str, hopeless: bool) {
        let Slot::Flying(flight) = core::mem::replace(&mut self.pulls.slot, Slot::Idle) else { return };
        self.abandon_legs(&flight);
        self.outputs.event(Event::Pull { scope: flight.scope.label().into(), outcome: "failed".into() });
        let severity = if hopeless { Severity::Error } else { Severity::Warning };
        let text = format!("pull failed: {why}; requests are served from the last good state");
        self.trouble(Trouble::Pull, severity, text);
        let wait = if hopeless {
            self.pulls.backoff.longest(&mut self.draws)
        } else {
            self.pulls.backoff.next(&mut self.draws)
        };
        let scope = flight.again.map_or(flight.scope, |again| flight.scope.with(again));
        self.pulls.slot = Slot::Waiting(scope);
        if !has(Defect::FailedPullNotRetried) {
            self.timers.arm(WakeReason::PullRetry, self.now.moment.after(wait));
        }
        self.spoil_failed_pull(flight.circuits);
    }

    /// Gives the pull up without a word: its registration is gone, or we leave.
    pub(super) fn abandon_pull(&mut self) {
        if let Slot::Flying(flight) = core::mem::replace(&mut self.pulls.slot, Slot::Idle) {
            self.abandon_legs(&flight);
        }
    }

    fn abandon_legs(&mut self, flight: &Flight) {
        if let Leg::Asked(call) = flight.circuits {
            self.abandon(call);
        }
        if let Leg::Asked(call) = flight.config {
            self.abandon(call);
        }
    }

    pub(super) fn abandon(&mut self, call: CallId) {
        if self.calls.finish(call).is_some() {
            self.outputs.command(Command::Abandon(call));
        }
    }

    /// Keeps what is remembered of a pull within its bound (limits::HEARD).
    pub(super) fn bound_heard(&mut self) {
        if !self.pulls.heard_too_much() {
            return;
        }
        if let Some(early) = &mut self.pulls.early {
            *early = Default::default();
        }
        self.pull_failed("more changes came while it was under way than are remembered", false);
    }

    fn report_malformed(&mut self, malformed: &[Malformed]) {
        for malformed in malformed {
            self.outputs.event(Event::Malformed(malformed.clone()));
        }
    }
}

fn get(worker_id: WorkerId, what: String) -> RequestParts {
    RequestParts { method: Method::GET, path_and_query: format!("/api/worker/{worker_id}/{what}"), body: None }
}

/// A query value with everything but RFC 3986's unreserved characters encoded.
fn percent_encoded(value: &str) -> String {
    let mut encoded = String::with_capacity(value.len());
    for &byte in value.as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
