//! Probes of backends, as owned tickets: a result can be made only from its probe.

use core::time::Duration;
use http::{Request, StatusCode};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::call::TransportFailure;
use crate::desired::BackendKind;
use crate::serving::{ProbeSign, is_model_list, served_names};
use crate::time::Moment;

/// A probe's identity within one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProbeId(pub u64);

/// A backend to ask how it is. Not `Clone`: it ends once, by [`Probe::answered`] or [`Probe::failed`].
#[derive(Debug)]
#[must_use = "a probe ends by `answered` or `failed`, or is left to its deadline"]
pub struct Probe {
    pub(super) id: ProbeId,
    pub(super) backend: Arc<str>,
    pub(super) kind: BackendKind,
    pub(super) request: Request<()>,
    pub(super) timeout: Duration,
    pub(super) deadline: Moment,
}

impl Probe {
    /// Its identity; [`super::Command::AbandonProbe`] names probes by it.
    #[must_use]
    pub const fn id(&self) -> ProbeId {
        self.id
    }

    /// The backend's name.
    #[must_use]
    pub const fn backend(&self) -> &Arc<str> {
        &self.backend
    }

    /// What to send: a GET with an absolute address, `Host` and the backend's own credential; no body. A connection of
    /// its own serves best: that a pooled one is stale says nothing of the backend.
    #[must_use]
    pub const fn request(&self) -> &Request<()> {
        &self.request
    }

    /// How long it may take, connecting included.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// When the core gives it up and counts it as failed.
    #[must_use]
    pub const fn deadline(&self) -> Moment {
        self.deadline
    }

    /// The backend answered. `body`: all of it, or nothing when it was more than
    /// [`crate::limits::PROBE_ANSWER_BYTES`] or broke off (the status alone says how the backend is).
    #[must_use]
    pub fn answered(self, status: StatusCode, body: &[u8]) -> ProbeEnded {
        let models = served_names(self.kind, status, body);
        let said = match &models {
            Some(_) => ModelsSaid::Names,
            None if is_model_list(self.kind, status, body) => ModelsSaid::NoName,
            None => ModelsSaid::Nothing,
        };
        ProbeEnded { id: self.id, outcome: ProbeOutcome::Answered { status: status.as_u16(), models, said } }
    }

    /// The backend did not answer.
    #[must_use]
    pub fn failed(self, failure: TransportFailure) -> ProbeEnded {
        ProbeEnded { id: self.id, outcome: ProbeOutcome::Failed(failure) }
    }
}

/// How a probe ended. Made only from its [`Probe`] (or read from a journal).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeEnded {
    pub(super) id: ProbeId,
    pub(super) outcome: ProbeOutcome,
}

impl ProbeEnded {
    /// Which probe.
    #[must_use]
    pub const fn id(&self) -> ProbeId {
        self.id
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ProbeOutcome {
    /// It answered, with these models if it was a model list.
    Answered {
        status: u16,
        models: Option<Vec<Arc<str>>>,
        /// What kind of answer it was, by its body.
        #[serde(default, skip_serializing_if = "ModelsSaid::follows")]
        said: ModelsSaid,
    },
    /// It did not.
    Failed(TransportFailure),
}

/// What an answer says of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ModelsSaid {
    /// It is no model list.
    #[default]
    Nothing,
    /// It is a list without a usable name.
    NoName,
    /// It names some.
    Names,
}

impl ModelsSaid {
    /// Whether it follows from there being names.
    const fn follows(&self) -> bool {
        !matches!(self, Self::NoName)
    }
}

impl ProbeOutcome {
    pub(super) fn label(&self) -> String {
        match self {
            Self::Answered { status, .. } => status.to_string(),
            Self::Failed(failure) => failure.label().to_owned(),
        }
    }

    pub(super) fn sign(self) -> ProbeSign {
        match self {
            Self::Answered { status: ..500, models, .. } => ProbeSign::Good(models.map(Arc::from)),
            Self::Answered { status: 503, .. } => ProbeSign::Unavailable,
            Self::Answered { .. } | Self::Failed(_) => ProbeSign::Bad,
        }
    }
}
