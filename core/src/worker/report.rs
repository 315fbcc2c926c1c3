//! Notices to the operator, and what is wrong right now.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::Worker;
use super::call::{CallOutcome, TransportFailure};
use super::defects::{Defect, has};
use super::output::{Event, Severity};
use crate::wire::register::error_text;

/// The words for a secret that the coordinator does not accept.
pub(super) const SECRET_REJECTED: &str = "api_secret rejected by the coordinator";

/// The words for a coordinator that does not know ROUTER workers.
pub(super) const OLD_COORDINATOR: &str =
    "most likely it is older than BEP-1053 and does not know `frontend_mode: router`";

/// Lasting trouble, worst first. `/health` lists what is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Trouble {
    Register,
    Pull,
    Heartbeat,
    Bus,
    Traffics,
}

impl Trouble {
    const fn code(self) -> &'static str {
        match self {
            Self::Register => "register_failed",
            Self::Pull => "pull_failed",
            Self::Heartbeat => "heartbeat_failed",
            Self::Bus => "bus_lost",
            Self::Traffics => "accepted_traffics_mismatch",
        }
    }

    /// What `/health`, which anybody may read, says of it; the details are the log's.
    fn in_public(self, details: &str) -> &'static str {
        match self {
            _ if details.contains(SECRET_REJECTED) => SECRET_REJECTED,
            Self::Register if details.contains(OLD_COORDINATOR) => OLD_COORDINATOR,
            Self::Register => "not registered: the coordinator does not answer, or refuses",
            Self::Pull => "pulls from the coordinator fail: requests are served from the last good state",
            Self::Heartbeat => "heartbeats to the coordinator fail: requests are served as before",
            Self::Bus => "the event bus is lost: changes come by pull",
            Self::Traffics => "the coordinator sends no inference circuits to this authority",
        }
    }

    const fn over(self) -> &'static str {
        match self {
            Self::Register => "registered",
            Self::Pull => "pulls work again",
            Self::Heartbeat => "heartbeats work again",
            Self::Bus => "the event bus is back",
            Self::Traffics => "accepted_traffics agree again",
        }
    }
}

/// What is wrong now.
pub(super) type Troubles = BTreeMap<Trouble, String>;

impl Worker {
    /// What is wrong now, in words for anybody.
    pub(super) fn public_trouble(&self) -> Vec<String> {
        self.troubles.iter().map(|(trouble, details)| trouble.in_public(details).to_owned()).collect()
    }

    pub(super) fn notice(&mut self, severity: Severity, code: &'static str, text: impl Into<String>) {
        self.outputs.event(Event::Notice { severity, code: code.into(), text: text.into() });
    }

    /// Something is wrong and stays so until [`Self::trouble_over`].
    pub(super) fn trouble(&mut self, trouble: Trouble, severity: Severity, text: String) {
        self.notice(severity, trouble.code(), text.clone());
        self.troubles.insert(trouble, text);
    }

    pub(super) fn trouble_over(&mut self, trouble: Trouble) {
        if self.troubles.remove(&trouble).is_some() {
            self.notice(Severity::Info, trouble.code(), trouble.over());
        }
    }

    /// The words for 401 and 403 on any call (the failure table of section 1).
    pub(super) fn secret_rejected(&self, outcome: &CallOutcome) -> Option<String> {
        match outcome {
            _ if has(Defect::SecretRejectedUnsaid) => None,
            CallOutcome::Answered(response) if matches!(response.status, 401 | 403) => Some(format!(
                "{SECRET_REJECTED} (status {}): {}; check `api_secret` against the coordinator's",
                response.status,
                error_text(&response.body.0)
            )),
            CallOutcome::Answered(_) | CallOutcome::Failed(_) => None,
        }
    }

    pub(super) fn failure_text(outcome: &CallOutcome) -> String {
        match outcome {
            CallOutcome::Answered(response) => {
                format!("the coordinator answered {}: {}", response.status, error_text(&response.body.0))
            }
            CallOutcome::Failed(failure) => match failure {
                TransportFailure::Refused => "the coordinator refused the connection".to_owned(),
                TransportFailure::Unresolved => "the coordinator's host name could not be resolved".to_owned(),
                TransportFailure::Reset => "the connection to the coordinator broke".to_owned(),
                TransportFailure::TimedOut => "the coordinator did not answer in time".to_owned(),
                TransportFailure::Tls(text) => format!("TLS with the coordinator failed: {text}"),
                TransportFailure::NotHttp => "what the coordinator answered is not HTTP".to_owned(),
                TransportFailure::TooLarge => "the coordinator's answer is too large".to_owned(),
                TransportFailure::Other(text) => format!("the call to the coordinator failed: {text}"),
            },
        }
    }

    pub(super) fn outcome_label(outcome: &CallOutcome) -> String {
        match outcome {
            CallOutcome::Answered(response) => response.status.to_string(),
            CallOutcome::Failed(failure) => failure.label().to_owned(),
        }
    }
}
