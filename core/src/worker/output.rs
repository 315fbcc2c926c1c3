//! Everything the control plane asks for or says.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::call::{Call, CallId};
use super::probe::{Probe, ProbeId};
use crate::serving::{ChangeSet, HealthChange, ServingView};
use crate::time::Moment;
use crate::wire::malformed::Malformed;

/// What `Worker::poll_output` returns. Carry out commands in their order; drain until `Wait`.
#[derive(Debug)]
pub enum Output {
    /// Do this.
    Command(Command),
    /// Something an observer may want to know; may be dropped.
    Event(Event),
    /// Nothing more to do before this deadline, or before an input.
    Wait(Option<Deadline>),
}

/// What the shell must do.
#[derive(Debug)]
pub enum Command {
    /// Subscribe to the bus (again), then say [`super::Input::BusUp`] or [`super::Input::BusLost`].
    Subscribe,
    /// Make this view what requests see (backends, published models and keys together, one pointer), then say
    /// [`super::Input::Applied`] with its generation.
    Apply(Apply),
    /// Make a call, then say [`super::Input::CallEnded`].
    Call(Call),
    /// Nobody waits for this call any more; the shell may drop it.
    Abandon(CallId),
    /// Ask a backend how it is, or which models it has, then say [`super::Input::ProbeEnded`].
    Probe(Probe),
    /// Nobody waits for this probe any more; the shell may drop it.
    AbandonProbe(ProbeId),
    /// Publish an ack, then say [`super::Input::AckSent`] or [`super::Input::AckFailed`].
    SendAck(AckTicket),
    /// Give up the subscription.
    Unsubscribe,
    /// All is done: the process may end.
    Stop,
}

/// A view to swap in.
#[derive(Debug, Clone)]
pub struct Apply {
    /// The whole state that requests read.
    pub view: Arc<ServingView>,
    /// What differs from the view before.
    pub changes: ChangeSet,
}

/// An ack's identity within one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AckId(pub u64);

/// An ack to publish: the whole envelope, ready for the channel `wire::envelope::CHANNEL`.
#[derive(Clone, PartialEq, Eq)]
pub struct AckTicket {
    /// Its identity.
    pub id: AckId,
    /// What it confirms, in words without secrets.
    pub about: String,
    /// The bytes to publish.
    pub message: Vec<u8>,
}

impl core::fmt::Debug for AckTicket {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // The message echoes `envs` and `arguments`, which count as secrets.
        write!(f, "AckTicket({}, {}, {} bytes)", self.id.0, self.about, self.message.len())
    }
}

/// When to wake up, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Deadline {
    /// The moment.
    pub at: Moment,
    /// The reason.
    pub reason: WakeReason,
}

/// Everything that can wake the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WakeReason {
    /// The bus has had its time at start (rule 4).
    BusWait,
    /// Subscribe again.
    Resubscribe,
    /// The subscription has stood long enough for its back-off to start over.
    BusSettled,
    /// Register (again).
    Register,
    /// A heartbeat is due.
    Heartbeat,
    /// A periodic full pull is due.
    Reconcile,
    /// A pull that failed is asked anew.
    PullRetry,
    /// The pull after a resubscription, jittered.
    ResubscribedPull,
    /// The pull of circuits after a guard that overruled an answer (rule 3).
    GuardEnd,
    /// Acks that could not be published are tried again.
    AckRetry,
    /// A call has had its time.
    CallDeadline,
    /// The DELETE is tried again.
    Leave,
    /// A probe is due.
    Probe,
    /// A probe has had its time.
    ProbeDeadline,
    /// A quarantine is over.
    QuarantineEnd,
    /// A replica is due to be asked for its models.
    Discovery,
}

/// What an observer may want to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A notice for the operator's log.
    Notice {
        /// How loud.
        severity: Severity,
        /// A stable word for it, for counting and for the troubleshooting chapter.
        code: std::borrow::Cow<'static, str>,
        /// The notice itself, without secrets.
        text: String,
    },
    /// Something malformed was dropped: count by kind, log once per kind and minute.
    Malformed(Malformed),
    /// A bus event was taken in.
    Heard {
        /// `EventKind::label`.
        event: std::borrow::Cow<'static, str>,
        /// `applied`, `unchanged`, `notice`, `ignored`.
        outcome: std::borrow::Cow<'static, str>,
    },
    /// A pull ended.
    Pull {
        /// `full`, `circuits` or `config`.
        scope: std::borrow::Cow<'static, str>,
        /// `ok` (200), `not_modified` (304 for router-config), `failed`, `torn`.
        outcome: std::borrow::Cow<'static, str>,
    },
    /// A call ended; `outcome` is the status, or a word for the failure.
    CallEnded {
        /// `register`, `heartbeat`, `circuits`, `router_config`, `deregister`.
        call: std::borrow::Cow<'static, str>,
        /// The status, or `refused`, `reset`, `timed_out`, `late`, ...
        outcome: String,
    },
    /// A probe, or a question for models, ended; `outcome` is the status, or a word for the failure.
    ProbeEnded {
        /// The backend; `None` when nobody waited for the result any more.
        backend: Option<Arc<str>>,
        /// The status, or `refused`, `reset`, `timed_out`, `late`, ...
        outcome: String,
    },
    /// A backend's health changed.
    Health(HealthChange),
    /// An ack was dropped instead of sent, and why.
    AckDropped {
        /// `expired`, `overflow`, `leaving`, `gone`.
        why: std::borrow::Cow<'static, str>,
    },
    /// An ack was sent.
    AckSent,
}

/// How loud a notice is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Look at it today.
    Warning,
    /// Look at it now.
    Error,
}
