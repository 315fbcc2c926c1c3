//! Calls to the coordinator, as owned tickets: an answer can be made only from its call.

use core::fmt;
use http::Method;
use serde::{Deserialize, Serialize};

use crate::time::Moment;
use crate::wire::ids::RequestId;

/// A call's identity within one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(pub u64);

/// A call to make. Not `Clone`: it is answered once, by [`Call::answered`] or [`Call::failed`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a call is answered by `answered` or `failed`, or left to its deadline"]
pub struct Call {
    pub(crate) id: CallId,
    pub(crate) request: CallRequest,
    pub(crate) deadline: Moment,
}

impl Call {
    /// Its identity; [`super::Command::Abandon`] names calls by it.
    #[must_use]
    pub const fn id(&self) -> CallId {
        self.id
    }

    /// What to send.
    #[must_use]
    pub const fn request(&self) -> &CallRequest {
        &self.request
    }

    /// When the core gives it up. The shell may stop waiting then, and must not before.
    #[must_use]
    pub const fn deadline(&self) -> Moment {
        self.deadline
    }

    /// The call was answered.
    #[must_use]
    pub fn answered(self, response: CallResponse) -> CallEnded {
        CallEnded { id: self.id, outcome: CallOutcome::Answered(response) }
    }

    /// Makes the call with `send`, on the spot.
    #[must_use]
    pub fn perform(self, send: impl FnOnce(&CallRequest) -> CallOutcome) -> CallEnded {
        CallEnded { id: self.id, outcome: send(&self.request) }
    }

    /// The call came to nothing.
    #[must_use]
    pub fn failed(self, failure: TransportFailure) -> CallEnded {
        CallEnded { id: self.id, outcome: CallOutcome::Failed(failure) }
    }
}

/// What to send to the coordinator. The shell puts `coordinator_url` before `path_and_query`, and adds
/// `X-BackendAI-Token` (the secret never enters a command) and `X-BackendAI-RequestID` (this request's id).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRequest {
    /// The method.
    pub method: Method,
    /// Path and query, from the slash on.
    pub path_and_query: String,
    /// A JSON body, with `Content-Type: application/json`; `None` sends no body.
    pub body: Option<String>,
    /// A fresh version 4 UUID.
    pub request_id: RequestId,
}

/// How a call ended. Made only from its [`Call`] (or read from a journal).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallEnded {
    pub(crate) id: CallId,
    pub(crate) outcome: CallOutcome,
}

impl CallEnded {
    /// Which call.
    #[must_use]
    pub const fn id(&self) -> CallId {
        self.id
    }

    /// Whether the answer was 404.
    pub(super) const fn is_not_found(&self) -> bool {
        matches!(&self.outcome, CallOutcome::Answered(response) if response.status == 404)
    }
}

/// An answer, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// The coordinator answered.
    Answered(CallResponse),
    /// It did not.
    Failed(TransportFailure),
}

/// An answer of the coordinator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResponse {
    /// The HTTP status.
    pub status: u16,
    /// The whole body, at most [`crate::limits::CALL_ANSWER_BYTES`].
    pub body: CallBody,
}

/// The bytes of an answer. `Debug` shows only their number: snapshots hold key hashes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallBody(pub Vec<u8>);

impl fmt::Debug for CallBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallBody({} bytes)", self.0.len())
    }
}

/// Why a call has no answer (worker-protocol 1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransportFailure {
    /// The connection was refused: nothing was sent.
    Refused,
    /// The name could not be resolved: nothing was sent.
    Unresolved,
    /// The connection broke.
    Reset,
    /// The shell's own timer ran out at the call's deadline.
    TimedOut,
    /// The TLS handshake failed.
    Tls(String),
    /// What came back is not HTTP.
    NotHttp,
    /// The body is larger than [`crate::limits::CALL_ANSWER_BYTES`].
    TooLarge,
    /// Anything else, in words.
    Other(String),
}

impl TransportFailure {
    /// The failure as a word for logs and metrics.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Unresolved => "unresolved",
            Self::Reset => "reset",
            Self::TimedOut => "timed_out",
            Self::Tls(_) => "tls",
            Self::NotHttp => "not_http",
            Self::TooLarge => "too_large",
            Self::Other(_) => "other",
        }
    }
}
