//! Heartbeats: right after every registration, then every period (worker-protocol 1).

use http::Method;

use super::Worker;
use super::call::{CallId, CallOutcome};
use super::calls::{Purpose, RequestParts};
use super::defects::{Defect, has};
use super::lifecycle::Lifecycle;
use super::output::{Severity, WakeReason};
use super::report::Trouble;
use crate::backoff::Backoff;

/// The one heartbeat at a time.
#[derive(Debug)]
pub(super) struct Heartbeat {
    pub(super) in_flight: Option<CallId>,
    /// A period ended while one was in flight: the next follows its end.
    overdue: bool,
    backoff: Backoff,
}

impl Heartbeat {
    pub(super) const fn new(longest: core::time::Duration) -> Self {
        Self { in_flight: None, overdue: false, backoff: Backoff::new(longest) }
    }

    /// Forgets the one in flight: its registration is gone.
    pub(super) const fn abandon(&mut self) -> Option<CallId> {
        self.overdue = false;
        self.in_flight.take()
    }
}

impl Worker {
    pub(super) fn heartbeat(&mut self) {
        let worker_id = match self.lifecycle {
            Lifecycle::Serving { worker_id } => worker_id,
            Lifecycle::Deleting { worker_id, .. } if has(Defect::HeartbeatAfterDelete) => worker_id,
            _ => return,
        };
        if self.heartbeat.in_flight.is_some() {
            self.heartbeat.overdue = true;
            return;
        }
        let body = self.mode_heartbeat_body();
        let path_and_query = format!("/api/worker/{worker_id}");
        let deadline = self.now.moment.after(self.config.call_timeout);
        let parts = RequestParts { method: Method::PATCH, path_and_query, body };
        self.heartbeat.in_flight = Some(self.call(Purpose::Heartbeat, deadline, parts));
        self.timers.arm(WakeReason::Heartbeat, self.now.moment.after(self.config.heartbeat_period));
    }

    pub(super) fn heartbeat_ended(&mut self, outcome: &CallOutcome) {
        self.heartbeat.in_flight = None;
        let overdue = core::mem::take(&mut self.heartbeat.overdue);
        match outcome {
            CallOutcome::Answered(response) if response.status == 404 => self.row_lost(Purpose::Heartbeat),
            _ if self.drained => self.try_leave(),
            CallOutcome::Answered(response) if response.status == 200 => {
                self.heartbeat.backoff.reset();
                self.trouble_over(Trouble::Heartbeat);
                if overdue {
                    self.heartbeat();
                }
            }
            failed => {
                let (severity, text, wait) = match self.secret_rejected(failed) {
                    Some(text) => (Severity::Error, text, self.heartbeat.backoff.longest(&mut self.draws)),
                    None => (
                        Severity::Warning,
                        format!("heartbeat failed: {}; requests are served as before", Self::failure_text(failed)),
                        self.heartbeat.backoff.next(&mut self.draws),
                    ),
                };
                self.trouble(Trouble::Heartbeat, severity, text);
                self.timers.arm_sooner(WakeReason::Heartbeat, self.now.moment.after(wait));
                if has(Defect::FailedHeartbeatStops) {
                    self.timers.cancel(WakeReason::Heartbeat);
                }
            }
        }
    }
}
