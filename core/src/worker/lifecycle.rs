//! Joining the coordinator, joining it again, and leaving (worker-protocol 1, 5.2; 3.3, rules 4, 8, 9).
//!
//! ```text
//!            Started                 bus up, or 2 s             PUT 200
//!   Idle ───────────────> AwaitingBus ─────────────> Registering ───────> Serving
//!     │   (events off: straight to Registering)          ^   │               │
//!     │                                    404, back-off └───┼───────────────┤
//!     │                                                      │ PUT fails     │ Drained, no PATCH in flight
//!     │ Shutdown                     Shutdown, no PUT        v while leaving v
//!     └──────────────────────> Outside <─────────────────────┘           Deleting
//!                                 │ Drained                                  │ DELETE ended
//!                                 └────────────────> Left <──────────────────┘
//! ```
//!
//! A plain router goes from `Idle` to `Alone` when it is started, and from there to `Outside` at its shutdown.

use core::time::Duration;
use http::Method;
use serde::{Deserialize, Serialize};

use super::Worker;
use super::call::{CallId, CallOutcome, TransportFailure};
use super::calls::{Purpose, RequestParts};
use super::defects::{Defect, has};
use super::output::{Command, Event, Severity, WakeReason};
use super::pull::Scope;
use super::report::Trouble;
use crate::wire::ids::WorkerId;
use crate::wire::register::register_body;

/// How long the start waits for the bus (rule 4).
const BUS_WAIT: Duration = Duration::from_secs(2);

/// Tries of a DELETE whose connection is refused.
const LEAVE_TRIES: u32 = 3;

/// Where the worker is in its life. The diagram is in the module's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Lifecycle {
    /// Not started yet.
    Idle,
    /// Started; the subscription is asked for and gets its time first.
    AwaitingBus,
    /// A plain router: there is nobody to join.
    Alone,
    /// A PUT is under way, or (`None`) waits for its back-off.
    Registering { call: Option<CallId> },
    /// Registered.
    Serving { worker_id: WorkerId },
    /// Leaving, and nothing is registered that we know of.
    Outside,
    /// The DELETE is under way, or (`None`) waits to be tried again.
    Deleting { worker_id: WorkerId, tries: u32, call: Option<CallId> },
    /// Done.
    Left,
}

impl Lifecycle {
    /// In a word.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::AwaitingBus => "awaiting_bus",
            Self::Alone => "alone",
            Self::Registering { .. } => "registering",
            Self::Serving { .. } => "serving",
            Self::Outside => "outside",
            Self::Deleting { .. } => "deleting",
            Self::Left => "left",
        }
    }
}

impl Worker {
    pub(super) fn start(&mut self) {
        if self.lifecycle != Lifecycle::Idle {
            return;
        }
        if self.mode_is_plain() {
            self.lifecycle = Lifecycle::Alone;
            // It has all that it will ever be told.
            self.last_full_pull = Some(self.now.moment);
        } else if has(Defect::SubscribeAfterRegister) {
            self.register();
            self.outputs.command(Command::Subscribe);
        } else if self.config.events_enabled {
            self.lifecycle = Lifecycle::AwaitingBus;
            self.timers.arm(WakeReason::BusWait, self.now.moment.after(BUS_WAIT));
            self.outputs.command(Command::Subscribe);
        } else {
            self.register();
        }
    }

    pub(super) fn register(&mut self) {
        if self.shutdown {
            self.lifecycle = Lifecycle::Outside;
            return;
        }
        let deadline = self.now.moment.after(self.config.call_timeout);
        let body = Some(register_body(&self.config, self.node_id));
        let parts = RequestParts { method: Method::PUT, path_and_query: "/api/worker".to_owned(), body };
        let call = Some(self.call(Purpose::Register, deadline, parts));
        self.lifecycle = Lifecycle::Registering { call };
    }

    pub(super) fn register_ended(&mut self, outcome: &CallOutcome) {
        let answer = match outcome {
            CallOutcome::Answered(response) if response.status == 200 => {
                match self.answers.registration(&response.body) {
                    Ok(answer) => answer,
                    Err(malformed) => {
                        let text = format!("the coordinator's answer to the registration is not usable: {malformed}");
                        self.outputs.event(Event::Malformed(malformed));
                        self.register_failed(text, false);
                        return;
                    }
                }
            }
            failed => {
                let (text, hopeless) = self.register_failure(failed);
                self.register_failed(text, hopeless);
                return;
            }
        };
        self.lifecycle = Lifecycle::Serving { worker_id: answer.worker_id };
        self.register_backoff.reset();
        self.trouble_over(Trouble::Register);
        self.notice(Severity::Info, "registered", format!("registered as worker {}", answer.worker_id));
        self.check_traffics(answer.accepted_traffics.as_deref());
        if self.drained {
            self.try_leave();
            return;
        }
        // A re-registered worker is declared lost within one check unless a heartbeat follows at once.
        self.heartbeat();
        self.forget_snapshot();
        self.pull(Scope::Full);
    }

    /// The words for a failed PUT, and whether only an operator can mend it (the failure table of section 1).
    fn register_failure(&self, outcome: &CallOutcome) -> (String, bool) {
        if let Some(text) = self.secret_rejected(outcome) {
            return (text, true);
        }
        let text = Self::failure_text(outcome);
        match outcome {
            CallOutcome::Answered(response) if matches!(response.status, 400 | 422) => self.refused_registration(text),
            CallOutcome::Failed(TransportFailure::TimedOut) => {
                (format!("registration failed: {text}; it may have counted all the same"), false)
            }
            CallOutcome::Answered(_) | CallOutcome::Failed(_) => (format!("registration failed: {text}"), false),
        }
    }

    fn register_failed(&mut self, text: String, hopeless: bool) {
        let severity = if hopeless { Severity::Error } else { Severity::Warning };
        self.trouble(Trouble::Register, severity, text);
        if self.shutdown {
            self.lifecycle = Lifecycle::Outside;
            self.try_leave();
            return;
        }
        let wait = if has(Defect::RegisterWithoutBackoff) {
            Duration::from_millis(1)
        } else if hopeless && !has(Defect::HopelessTriedSoon) {
            self.register_backoff.longest(&mut self.draws)
        } else {
            self.register_backoff.next(&mut self.draws)
        };
        self.lifecycle = Lifecycle::Registering { call: None };
        if !has(Defect::RegisterGivesUp) {
            self.timers.arm(WakeReason::Register, self.now.moment.after(wait));
        }
    }

    /// The list of the first registration stays for good on the coordinator, whatever we send.
    fn check_traffics(&mut self, traffics: Option<&[String]>) {
        match traffics {
            Some(traffics) if !traffics.iter().any(|traffic| traffic == "inference") => {
                let text = format!(
                    "the coordinator keeps accepted_traffics {traffics:?} for authority {:?}, from its first \
                     registration, without \"inference\": it will send no inference circuits; remove the worker's row \
                     there, or use another authority",
                    self.config.authority
                );
                self.trouble(Trouble::Traffics, Severity::Error, text);
            }
            Some(_) | None => self.trouble_over(Trouble::Traffics),
        }
    }

    /// A 404 on a call of the current registration: the coordinator forgot us (rule 8).
    pub(super) fn row_lost(&mut self, purpose: Purpose) {
        if !matches!(self.lifecycle, Lifecycle::Serving { .. }) || has(Defect::NotFoundIgnored) {
            return;
        }
        self.abandon_registration();
        let text = format!("the coordinator does not know this worker any more (404 on {})", purpose.label());
        if self.shutdown {
            self.notice(Severity::Warning, "row_lost", format!("{text}; leaving without a DELETE"));
            self.lifecycle = Lifecycle::Outside;
            self.try_leave();
            return;
        }
        self.notice(Severity::Warning, "row_lost", format!("{text}; registering again"));
        let at = self.rejoin_not_before.max(self.now.moment);
        self.rejoin_not_before = at.after(self.rejoin_backoff.next(&mut self.draws));
        if at == self.now.moment || has(Defect::NoRejoinBackoff) {
            self.register();
        } else {
            self.lifecycle = Lifecycle::Registering { call: None };
            self.timers.arm(WakeReason::Register, at);
        }
    }

    /// Nothing waits any more for what is in flight for a registration that is gone.
    fn abandon_registration(&mut self) {
        if let Some(call) = self.heartbeat.abandon() {
            self.abandon(call);
        }
        self.abandon_pull();
        for reason in [WakeReason::Heartbeat, WakeReason::Reconcile, WakeReason::PullRetry, WakeReason::GuardEnd] {
            self.timers.cancel(reason);
        }
    }

    pub(super) fn shut_down(&mut self) {
        if self.shutdown {
            return;
        }
        self.shutdown = true;
        for _ in 0..self.acks.clear() {
            self.outputs.event(Event::AckDropped { why: "leaving".into() });
        }
        match self.lifecycle {
            Lifecycle::Idle | Lifecycle::Alone | Lifecycle::AwaitingBus | Lifecycle::Registering { call: None } => {
                self.timers.cancel(WakeReason::BusWait);
                self.timers.cancel(WakeReason::Register);
                self.lifecycle = Lifecycle::Outside;
            }
            Lifecycle::Registering { call: Some(_) }
            | Lifecycle::Serving { .. }
            | Lifecycle::Outside
            | Lifecycle::Deleting { .. }
            | Lifecycle::Left => {}
        }
    }

    /// Goes on with leaving, once the last request has ended (rule 9).
    pub(super) fn try_leave(&mut self) {
        if !self.drained {
            return;
        }
        match self.lifecycle {
            Lifecycle::Serving { worker_id } => {
                self.abandon_pull();
                if !has(Defect::HeartbeatAfterDelete) {
                    self.timers.cancel_all();
                }
                // A heartbeat answered after the DELETE would revive the worker: wait for it.
                if self.heartbeat.in_flight.is_none() || has(Defect::DeleteOverHeartbeat) {
                    self.delete(worker_id, 1);
                }
            }
            Lifecycle::Outside => self.leave(),
            Lifecycle::Idle
            | Lifecycle::Alone
            | Lifecycle::AwaitingBus
            | Lifecycle::Registering { .. }
            | Lifecycle::Deleting { .. }
            | Lifecycle::Left => {}
        }
    }

    fn delete(&mut self, worker_id: WorkerId, tries: u32) {
        let deadline = self.now.moment.after(self.config.call_timeout);
        let path_and_query = format!("/api/worker/{worker_id}{}", self.mode_delete_query());
        let parts = RequestParts { method: Method::DELETE, path_and_query, body: None };
        let call = Some(self.call(Purpose::Deregister, deadline, parts));
        self.lifecycle = Lifecycle::Deleting { worker_id, tries, call };
    }

    pub(super) fn retry_delete(&mut self) {
        if let Lifecycle::Deleting { worker_id, tries, call: None } = self.lifecycle {
            self.delete(worker_id, tries + 1);
        }
    }

    pub(super) fn delete_ended(&mut self, outcome: &CallOutcome) {
        let Lifecycle::Deleting { worker_id, tries, .. } = self.lifecycle else { return };
        match outcome {
            CallOutcome::Answered(response) if matches!(response.status, 200 | 404) => {
                self.notice(Severity::Info, "deregistered", "deregistered from the coordinator");
            }
            // A refused connection carried nothing; any other failure may have counted, and must not count twice.
            CallOutcome::Failed(failure)
                if tries < LEAVE_TRIES && (*failure == TransportFailure::Refused || has(Defect::DeleteTwice)) =>
            {
                let wait = self.register_backoff.next(&mut self.draws);
                self.lifecycle = Lifecycle::Deleting { worker_id, tries, call: None };
                self.timers.arm(WakeReason::Leave, self.now.moment.after(wait));
                return;
            }
            failed => {
                let (severity, why) = match self.secret_rejected(failed) {
                    Some(why) => (Severity::Error, why),
                    None => (Severity::Warning, Self::failure_text(failed)),
                };
                let text = format!(
                    "could not deregister: {why}; the coordinator will declare this worker lost when heartbeats stop"
                );
                self.notice(severity, "deregister_failed", text);
            }
        }
        self.leave();
    }

    fn leave(&mut self) {
        self.lifecycle = Lifecycle::Left;
        self.timers.cancel_all();
        if self.config.events_enabled {
            self.outputs.command(Command::Unsubscribe);
        }
        self.outputs.command(Command::Stop);
    }
}
