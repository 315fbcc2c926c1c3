//! The record of one exchange: what the access log line and the metrics are made of.

use core::ops::{Deref, DerefMut};
use core::time::Duration;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, StatusCode, Uri};
use std::sync::Arc;

use super::denial::Code;
use super::surface::Surface;
use super::usage::Usage;
use crate::access::rate_ledger::{LedgerKey, RateFigures};
use crate::defects::{Defect, has};
use crate::limits;
use crate::serving::{AttemptEnd, ExchangeEnded};
use crate::time::Moment;
use crate::wire::ids::KeyId;

/// What is known of a request so far. Travels by value through the states and ends in an [`Outcome`].
#[derive(Clone, PartialEq, Eq)]
pub struct Trail {
    pub(super) method: Method,
    /// Path and query, of which only the path is shown; `None`: the request names a host alone.
    pub(super) target: Option<PathAndQuery>,
    pub(super) surface: Surface,
    pub(super) request_id: HeaderValue,
    pub(super) arrived: Moment,
    pub(crate) key: Option<LedgerKey>,
    pub(super) rate: Option<RateFigures>,
    pub(super) model: Option<Arc<str>>,
    pub(super) known_model: bool,
    pub(super) backend: Option<Arc<str>>,
    pub(super) attempts: Attempts,
    /// The model of the chain that is tried instead of the one asked for.
    pub(super) fallback: Option<Arc<str>>,
    pub(super) credential_refused: bool,
    /// What `Access-Control-Allow-Origin` says.
    pub(super) cors: Option<HeaderValue>,
}

impl Trail {
    /// Notes the model asked for, cut to [`limits::QUOTED_CHARS`]: it goes into a header and the access line, and a
    /// client can write anything there.
    pub(super) fn name_model(&mut self, name: &Arc<str>) {
        // There are no more characters than bytes.
        let cut = if name.len() > limits::QUOTED_CHARS { name.char_indices().nth(limits::QUOTED_CHARS) } else { None };
        self.model = Some(match cut {
            Some((end, _)) => name.get(..end).unwrap_or_default().into(),
            None => name.clone(),
        });
    }

    /// The record of no request.
    pub(super) fn empty() -> Self {
        Self {
            method: Method::GET,
            target: None,
            surface: Surface::OpenAi,
            request_id: HeaderValue::from_static(""),
            arrived: Moment::START,
            key: None,
            rate: None,
            model: None,
            known_model: false,
            backend: None,
            attempts: Attempts::None,
            fallback: None,
            credential_refused: false,
            cors: None,
        }
    }

    /// The record of a request whose head is all that is known.
    pub(super) fn begun(method: &Method, uri: &Uri, request_id: HeaderValue, arrived: Moment) -> Self {
        let mut trail = Self::empty();
        trail.begin(method, uri, request_id, arrived);
        trail
    }

    /// Makes the record of a request of what is that of none.
    pub(super) fn begin(&mut self, method: &Method, uri: &Uri, request_id: HeaderValue, arrived: Moment) {
        self.method = method.clone();
        self.target = uri.path_and_query().cloned();
        self.surface = Surface::of_path(self.path());
        self.request_id = request_id;
        self.arrived = arrived;
    }

    /// The request's method.
    #[must_use]
    pub const fn method(&self) -> &Method {
        &self.method
    }

    /// The request's path, without its query (which may hold a key).
    #[must_use]
    pub fn path(&self) -> &str {
        let shown = if has(Defect::QueryLogged) { PathAndQuery::as_str } else { PathAndQuery::path };
        self.target.as_ref().map_or("", shown)
    }

    /// The path for the log: cut, since a client can write any length.
    #[must_use]
    pub fn shown_path(&self) -> &str {
        let path = self.path();
        match path.char_indices().nth(limits::QUOTED_CHARS) {
            Some((end, _)) if !has(Defect::PathUncut) => path.get(..end).unwrap_or_default(),
            _ => path,
        }
    }

    /// Whose protocol the request speaks.
    #[must_use]
    pub const fn surface(&self) -> Surface {
        self.surface
    }

    /// The request's id, as sent both ways.
    #[must_use]
    pub fn request_id(&self) -> &str {
        self.request_id.to_str().unwrap_or_default()
    }

    /// When its head had been read.
    #[must_use]
    pub const fn arrived(&self) -> Moment {
        self.arrived
    }

    /// The id of the key it came with.
    #[must_use]
    pub fn key_id(&self) -> Option<&KeyId> {
        self.key.as_ref().map(LedgerKey::id)
    }

    /// The model asked for, for the log; may be any text a client sent.
    #[must_use]
    pub const fn model(&self) -> Option<&Arc<str>> {
        self.model.as_ref()
    }

    /// The model asked for when it is one that is served here: fit for a metric label.
    #[must_use]
    pub fn known_model(&self) -> Option<&Arc<str>> {
        self.model.as_ref().filter(|_| self.known_model)
    }

    /// The backend tried last.
    #[must_use]
    pub const fn backend(&self) -> Option<&Arc<str>> {
        self.backend.as_ref()
    }

    /// How many attempts there were, failed ones included.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        u32::try_from(self.attempts.len()).unwrap_or(u32::MAX)
    }

    /// Every attempt, in order: what health goes by. A request that went out again because its pooled connection had
    /// been closed is one attempt.
    #[must_use]
    pub fn attempted(&self) -> &[AttemptRecord] {
        &self.attempts
    }

    /// The model of a fallback chain that was tried last, when it is not the one asked for.
    #[must_use]
    pub const fn fallback(&self) -> Option<&Arc<str>> {
        self.fallback.as_ref()
    }

    /// The backend that refused the credential which is configured for it: the operator has to act.
    #[must_use]
    pub fn credential_refused(&self) -> Option<&Arc<str>> {
        self.backend.as_ref().filter(|_| self.credential_refused)
    }

    /// How the running attempt ended.
    pub(super) fn settle(&mut self, end: AttemptEnd) {
        if let Some(last) = self.attempts.last_mut() {
            last.ended.end = end;
        }
    }

    pub(super) const fn end(self, status: StatusCode, denial: Option<Code>, end: EndOfBody) -> Outcome {
        Outcome { trail: self, status, denial, end, body_bytes: 0, usage: None }
    }
}

impl core::fmt::Debug for Trail {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // The query may hold a key.
        f.debug_struct("Trail")
            .field("method", &self.method)
            .field("path", &self.path())
            .field("request_id", &self.request_id())
            .field("key_id", &self.key_id())
            .field("model", &self.model)
            .field("backend", &self.backend)
            .field("attempts", &self.attempts.len())
            .finish_non_exhaustive()
    }
}

impl Outcome {
    /// What is still to be told to health: the ends of the attempts that [`super::Choosing::take_ended`] did not give.
    pub fn ends(&self) -> impl Iterator<Item = &ExchangeEnded> {
        self.trail.attempts.iter().filter(|attempt| !attempt.told).map(|attempt| &attempt.ended)
    }
}

/// One attempt at one backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    /// What health goes by: the backend, when the attempt began, how it ended.
    pub ended: ExchangeEnded,
    /// From sending the request to the head of the answer; `None`: none came.
    pub first_byte: Option<Duration>,
    /// Whether health has heard of it.
    pub(super) told: bool,
}

impl AttemptRecord {
    /// An attempt that has just begun, and counts as given up until it ends otherwise.
    #[must_use]
    pub const fn begun(backend: Arc<str>, began: Moment) -> Self {
        Self { ended: ExchangeEnded { backend, began, end: AttemptEnd::Abandoned }, first_byte: None, told: false }
    }
}

/// The attempts of a request: mostly one, which needs no place of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Attempts {
    None,
    One([AttemptRecord; 1]),
    Many(Vec<AttemptRecord>),
}

impl Attempts {
    pub(super) fn push(&mut self, next: AttemptRecord) {
        *self = match core::mem::replace(self, Self::None) {
            Self::None => Self::One([next]),
            Self::One([first]) => Self::Many(vec![first, next]),
            Self::Many(mut all) => {
                all.push(next);
                Self::Many(all)
            }
        };
    }

    /// Takes the last one back.
    pub(super) fn pop(&mut self) {
        match self {
            Self::None => {}
            Self::One(_) => *self = Self::None,
            Self::Many(all) => drop(all.pop()),
        }
    }
}

impl Deref for Attempts {
    type Target = [AttemptRecord];

    fn deref(&self) -> &[AttemptRecord] {
        match self {
            Self::None => &[],
            Self::One(one) => one,
            Self::Many(all) => all,
        }
    }
}

impl DerefMut for Attempts {
    fn deref_mut(&mut self) -> &mut [AttemptRecord] {
        match self {
            Self::None => &mut [],
            Self::One(one) => one,
            Self::Many(all) => all,
        }
    }
}

/// How an answer's body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndOfBody {
    /// All of it was passed on.
    Complete,
    /// The client went away.
    DownstreamGone,
    /// The replica broke off.
    UpstreamBroke,
    /// The replica was silent for `request.idle_timeout`.
    UpstreamIdle,
    /// This node stopped, and the answer ran past `server.shutdown_timeout`.
    NodeStopped,
}

impl EndOfBody {
    /// The end as a log word.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::DownstreamGone => "client_gone",
            Self::UpstreamBroke => "upstream_broke",
            Self::UpstreamIdle => "upstream_idle",
            Self::NodeStopped => "node_stopped",
        }
    }
}

/// The record of one exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What was asked, by whom, and where it went.
    pub trail: Trail,
    /// The status that was sent; 499 when the client went away before any was.
    pub status: StatusCode,
    /// Our own reason, when we refused.
    pub denial: Option<Code>,
    /// How the body ended.
    pub end: EndOfBody,
    /// Body bytes sent to the client.
    pub body_bytes: u64,
    /// The tokens that its replica states.
    pub usage: Option<Usage>,
}
