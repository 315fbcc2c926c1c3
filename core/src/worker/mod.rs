//! The control plane: one [`Input`] in, [`Output`]s out (worker-protocol 1, 3.3, 5.2).

mod acks;
mod answers;
mod apply;
mod bus;
mod call;
mod calls;
mod candidate;
#[doc(hidden)]
pub mod defects;
#[cfg(feature = "appproxy-legacy")]
mod discovery;
mod events;
mod guards;
mod heard;
mod heartbeat;
mod input;
pub mod journal;
mod lifecycle;
mod merge;
mod mode;
mod output;
mod probe;
mod probes;
mod pull;
mod queue;
mod report;
mod rest;
mod standing;
mod timers;

pub use call::{Call, CallBody, CallEnded, CallId, CallOutcome, CallRequest, CallResponse, TransportFailure};
pub use candidate::Candidate;
pub use input::Input;
pub use output::{AckId, AckTicket, Apply, Command, Deadline, Event, Output, Severity, WakeReason};
pub use probe::{Probe, ProbeEnded, ProbeId};
pub use rest::Rest;
pub use standing::Standing;

use core::time::Duration;
use std::sync::Arc;

use crate::backoff::Backoff;
use crate::config::worker::WorkerConfig;
use crate::desired::Desired;
use crate::seed::{Draws, Seed};
use crate::serving::{Generation, Serving, ServingSettings, ServingView};
use crate::time::{Moment, Now};
use crate::wire::ids::{NodeId, RequestId};

use acks::{Acks, KeyNotices};
use answers::Answers;
use bus::Bus;
use calls::{Calls, Purpose, RequestParts};
use defects::{Defect, has};
use guards::Guards;
use heartbeat::Heartbeat;
use lifecycle::Lifecycle;
use mode::Kept;
use probes::Probes;
use pull::{Pulls, SnapshotCopy};
use queue::Outputs;
use report::Troubles;
use timers::Timers;

/// The longest wait between registrations.
const LONGEST_REGISTER: Duration = Duration::from_secs(30);

/// One node of an authority, as a machine that is told what happened and answers what to do.
///
/// Feed one [`Input`], then call [`Worker::poll_output`] until it returns [`Output::Wait`]; carry out commands in
/// their order. The same inputs, times and seed give the same outputs, byte for byte.
#[derive(Debug)]
pub struct Worker {
    config: WorkerConfig,
    node_id: NodeId,
    draws: Draws,
    now: Now,
    outputs: Outputs,
    polled: bool,
    timers: Timers,
    calls: Calls,
    bus: Bus,
    lifecycle: Lifecycle,
    answers: Answers,
    register_backoff: Backoff,
    rejoin_backoff: Backoff,
    rejoin_not_before: Moment,
    heartbeat: Heartbeat,
    pulls: Pulls,
    snapshot: SnapshotCopy,
    guards: Guards,
    acks: Acks,
    notices: KeyNotices,
    desired: Desired,
    serving: Serving,
    probes: Probes,
    kept: Kept,
    issued: Generation,
    applied: Generation,
    last_full_pull: Option<Moment>,
    troubles: Troubles,
    shutdown: bool,
    drained: bool,
    /// The next view is made of everything anew.
    remake: bool,
}

impl Worker {
    /// A worker that has not started; its node id comes from `seed`. The mode decides `settings.rules`.
    #[must_use]
    pub fn new(config: WorkerConfig, settings: &ServingSettings, seed: Seed, now: Now) -> Self {
        let settings = ServingSettings { rules: mode::rules(&config.mode), ..settings.clone() };
        let mut draws = Draws::new(seed);
        let node_id = NodeId(draws.uuid());
        Self {
            node_id,
            now,
            outputs: Outputs::default(),
            polled: true,
            timers: Timers::default(),
            calls: Calls::default(),
            bus: Bus::new(),
            lifecycle: Lifecycle::Idle,
            answers: Answers::Coordinator,
            register_backoff: Backoff::new(LONGEST_REGISTER),
            rejoin_backoff: Backoff::new(LONGEST_REGISTER),
            rejoin_not_before: Moment::START,
            heartbeat: Heartbeat::new(config.heartbeat_period),
            pulls: Pulls::new(config.reconcile_interval),
            snapshot: SnapshotCopy::default(),
            guards: Guards::default(),
            acks: Acks::default(),
            notices: KeyNotices::default(),
            desired: Desired::new(&config.authority),
            serving: Serving::new(&settings),
            // Apart, so that health leaves all other draws alone.
            probes: Probes::new(Draws::new(seed).child()),
            kept: Kept::of(&config.mode),
            issued: Generation::default(),
            applied: Generation::default(),
            last_full_pull: None,
            troubles: Troubles::new(),
            shutdown: false,
            drained: false,
            remake: false,
            draws,
            config,
        }
    }

    /// The same, fed from a journal: answers are in its form, and keys have pseudonyms in the place of their hashes.
    fn replayed(config: WorkerConfig, settings: &ServingSettings, seed: Seed, now: Now) -> Self {
        let worker = Self::new(config, settings, seed, now);
        Self { answers: Answers::Journal, desired: Desired::of_pseudonyms(), ..worker }
    }

    /// Takes in one thing that happened. A clock that went back is held still.
    pub fn handle_input(&mut self, input: Input, now: Now) {
        debug_assert!(self.polled, "poll_output must return Wait before the next input");
        self.polled = false;
        self.now = Now { moment: self.now.moment.max(now.moment), wall: now.wall };
        if has(Defect::DeadlinesByWallClock) {
            self.now.moment = Moment::from_millis(now.wall.0.unsigned_abs());
        }
        self.fire_due();
        match input {
            Input::Started => self.start(),
            Input::BusUp => self.bus_up(),
            Input::BusLost(why) => self.bus_lost(&why),
            Input::Bus(event) => self.bus_event(event),
            Input::BusMalformed(malformed) => self.outputs.event(Event::Malformed(malformed)),
            Input::CallEnded(ended) => self.call_ended(ended),
            Input::ProbeEnded(ended) => self.probe_ended(ended),
            Input::ExchangeEnded(ended) => self.serving.take_end(&self.desired, &ended, self.now.moment),
            Input::Applied(generation) => self.applied = self.applied.max(generation),
            Input::AckSent(id) => {
                if self.acks.sent(id) {
                    self.outputs.event(Event::AckSent);
                }
            }
            Input::AckFailed(id) => self.ack_failed(id),
            Input::Drain(drain) => self.serving.drain(&drain),
            Input::Tick => {}
            Input::Configured(fresh) => self.configured(*fresh),
            Input::Shutdown => self.shut_down(),
            Input::Drained => {
                self.shut_down();
                self.drained = true;
                self.stop_probes();
                self.try_leave();
            }
        }
        self.flush_changes();
        while self.settle_health() {
            self.flush_changes();
        }
        self.acks.settle(self.issued);
        self.release_acks();
    }

    /// The next thing to do; [`Output::Wait`] when there is none. Repeating `Wait` changes nothing.
    pub fn poll_output(&mut self) -> Output {
        self.outputs.next().unwrap_or_else(|| {
            self.polled = true;
            let release = self.serving.next_release().map(|at| Deadline { at, reason: WakeReason::QuarantineEnd });
            let inquiry = self.mode_next_inquiry();
            let due = [self.timers.next(), self.calls.next_deadline(), self.probes.next_deadline(), inquiry, release];
            Output::Wait(due.into_iter().flatten().min())
        })
    }

    /// How the worker stands: a copy for the data plane and the pages.
    #[must_use]
    pub fn standing(&self) -> Standing {
        Standing {
            node_id: self.node_id,
            worker_id: match self.lifecycle {
                Lifecycle::Serving { worker_id } | Lifecycle::Deleting { worker_id, .. } => Some(worker_id),
                Lifecycle::Idle
                | Lifecycle::Alone
                | Lifecycle::AwaitingBus
                | Lifecycle::Registering { .. }
                | Lifecycle::Outside
                | Lifecycle::Left => None,
            },
            registered: matches!(self.lifecycle, Lifecycle::Serving { .. }),
            bus_up: self.config.events_enabled.then_some(self.bus.up),
            last_full_pull: self.last_full_pull,
            revision: self.snapshot.revision.clone(),
            leaving: self.shutdown,
            max_staleness: self.config.max_staleness,
            max_key_staleness: mode::max_key_staleness(&self.config.mode),
            trouble: self.public_trouble(),
        }
    }

    /// What this worker wants to serve, as the coordinator described it.
    #[must_use]
    pub const fn desired(&self) -> &Desired {
        &self.desired
    }

    /// This process among the nodes of its authority.
    #[must_use]
    pub const fn node_id(&self) -> NodeId {
        self.node_id
    }

    /// The newest view, in force or on its way: what requests read before the first apply.
    #[must_use]
    pub const fn view(&self) -> &Arc<ServingView> {
        self.serving.view()
    }

    /// Numbers of what is held, each bounded in [`crate::limits`]: calls, held acks, key notices, guards, probes.
    #[must_use]
    pub fn held(&self) -> [usize; 5] {
        [self.calls.len(), self.acks.len(), self.notices.len(), self.guards.len(), self.probes.len()]
    }

    /// Events dropped because nobody drained them.
    #[must_use]
    pub const fn dropped_events(&self) -> u64 {
        self.outputs.dropped_events()
    }

    fn call(&mut self, purpose: Purpose, deadline: Moment, parts: RequestParts) -> CallId {
        let request_id = RequestId(self.draws.uuid());
        let call = self.calls.start(purpose, deadline, parts, request_id);
        let id = call.id;
        self.outputs.command(Command::Call(call));
        id
    }

    fn call_ended(&mut self, ended: CallEnded) {
        match self.calls.finish(ended.id) {
            Some(purpose) => self.call_outcome(purpose, &ended.outcome),
            // Past its deadline, or of a registration or a pull that is gone: nobody's.
            None if has(Defect::OldNotFoundObeyed) && ended.is_not_found() => self.row_lost(Purpose::Heartbeat),
            None => self.outputs.event(Event::CallEnded { call: "none".into(), outcome: "late".into() }),
        }
    }

    fn call_outcome(&mut self, purpose: Purpose, outcome: &CallOutcome) {
        let label = Self::outcome_label(outcome);
        self.outputs.event(Event::CallEnded { call: purpose.label().into(), outcome: label });
        match purpose {
            Purpose::Register => self.register_ended(outcome),
            Purpose::Heartbeat => self.heartbeat_ended(outcome),
            Purpose::Circuits => self.circuits_ended(outcome),
            Purpose::RouterConfig => self.router_config_ended(outcome),
            Purpose::Deregister => self.delete_ended(outcome),
        }
    }

    /// Everything whose time has come, calls that are given up first.
    fn fire_due(&mut self) {
        let now = self.now.moment;
        self.fire_health();
        while let Some((call, purpose)) = self.calls.take_due(now) {
            self.outputs.command(Command::Abandon(call));
            self.call_outcome(purpose, &CallOutcome::Failed(TransportFailure::TimedOut));
        }
        while let Some(reason) = self.timers.take_due(now) {
            match reason {
                WakeReason::BusWait
                | WakeReason::Resubscribe
                | WakeReason::BusSettled
                | WakeReason::ResubscribedPull => self.bus_timer(reason),
                WakeReason::Register => self.register(),
                WakeReason::Heartbeat => self.heartbeat(),
                WakeReason::Reconcile => self.periodic_pull(),
                WakeReason::PullRetry => self.retry_pull(),
                WakeReason::GuardEnd => self.pull(pull::Scope::Circuits),
                WakeReason::AckRetry => self.acks.retry(),
                WakeReason::Leave => self.retry_delete(),
                WakeReason::CallDeadline
                | WakeReason::Probe
                | WakeReason::ProbeDeadline
                | WakeReason::Discovery
                | WakeReason::QuarantineEnd => {}
            }
        }
    }
}
