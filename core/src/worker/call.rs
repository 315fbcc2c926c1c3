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

/// What to send to the coordinator. [`super::Rest`] puts `coordinator_url` before `path_and_query`, and adds
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

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn call(id: u64) -> Call {
        let request = CallRequest {
            method: Method::GET,
            path_and_query: "/v2/x?since=1".to_owned(),
            body: None,
            request_id: RequestId(Uuid::from_u128(5)),
        };
        Call { id: CallId(id), request, deadline: Moment::from_millis(9) }
    }

    fn answer(status: u16) -> CallResponse {
        CallResponse { status, body: CallBody(b"token_hash: 0123".to_vec()) }
    }

    #[test]
    fn an_answer_belongs_to_its_call_whichever_way_it_was_made() {
        let asked = call(7);
        assert_eq!((asked.id(), asked.deadline()), (CallId(7), Moment::from_millis(9)));
        assert_eq!(
            (asked.request().method.as_str(), asked.request().path_and_query.as_str()),
            ("GET", "/v2/x?since=1")
        );
        let performed = call(7).perform(|request| {
            assert_eq!(request.request_id, RequestId(Uuid::from_u128(5)));
            CallOutcome::Answered(answer(200))
        });
        assert_eq!(call(7).answered(answer(200)), performed);
        assert_ne!(call(8).answered(answer(200)), performed);
        let failed = call(7).failed(TransportFailure::Reset);
        assert_eq!((failed.id(), failed.outcome), (CallId(7), CallOutcome::Failed(TransportFailure::Reset)));
    }

    #[test]
    fn only_an_answer_of_404_says_that_something_is_not_there() {
        assert!(call(1).answered(answer(404)).is_not_found());
        assert!(!call(1).answered(answer(200)).is_not_found() && !call(1).answered(answer(410)).is_not_found());
        assert!(!call(1).failed(TransportFailure::Refused).is_not_found());
    }

    #[test]
    fn bodies_are_not_shown_and_failures_are_told_apart() {
        let shown = format!("{:?}", call(1).answered(answer(200)));
        assert!(shown.contains("CallBody(16 bytes)") && !shown.contains("0123"), "{shown}");
        let failures = [
            TransportFailure::Refused,
            TransportFailure::Unresolved,
            TransportFailure::Reset,
            TransportFailure::TimedOut,
            TransportFailure::Tls("of any kind".to_owned()),
            TransportFailure::NotHttp,
            TransportFailure::TooLarge,
            TransportFailure::Other("in words".to_owned()),
        ];
        let labels: std::collections::BTreeSet<_> = failures.iter().map(TransportFailure::label).collect();
        assert_eq!(labels.len(), failures.len());
        for failure in failures {
            // A journal reads what it wrote, and a label is a word that no answer of a peer can widen.
            let json = serde_json::to_string(&failure).expect("JSON");
            assert_eq!(serde_json::from_str::<TransportFailure>(&json).expect("the same"), failure);
            assert!(failure.label().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
        }
    }
}
