//! Calls under way: what each is for, and when it is given up.

use http::Method;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

use super::call::{Call, CallId, CallRequest};
use super::output::{Deadline, WakeReason};
use crate::time::Moment;
use crate::wire::ids::RequestId;

/// What a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Purpose {
    Register,
    Heartbeat,
    Circuits,
    RouterConfig,
    Deregister,
}

impl Purpose {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::Heartbeat => "heartbeat",
            Self::Circuits => "circuits",
            Self::RouterConfig => "router_config",
            Self::Deregister => "deregister",
        }
    }
}

/// The calls that somebody waits for. A call that is not here any more (past its deadline, abandoned with its
/// registration or its pull) belongs to nobody: whatever comes back for it is counted and dropped (3.3, rule 8).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct Calls {
    last: u64,
    waiting: BTreeMap<CallId, (Purpose, Moment)>,
    by_deadline: BTreeSet<(Moment, CallId)>,
}

impl Calls {
    pub(super) fn start(&mut self, purpose: Purpose, deadline: Moment, request: RequestParts, id: RequestId) -> Call {
        self.last += 1;
        let call = CallId(self.last);
        self.waiting.insert(call, (purpose, deadline));
        self.by_deadline.insert((deadline, call));
        let RequestParts { method, path_and_query, body } = request;
        Call { id: call, request: CallRequest { method, path_and_query, body, request_id: id }, deadline }
    }

    /// What a call is for; `None` when nobody waits for it.
    pub(super) fn purpose(&self, id: CallId) -> Option<Purpose> {
        self.waiting.get(&id).map(|(purpose, _)| *purpose)
    }

    /// Takes the call out; `None` when nobody waits for it.
    pub(super) fn finish(&mut self, id: CallId) -> Option<Purpose> {
        let (purpose, deadline) = self.waiting.remove(&id)?;
        self.by_deadline.remove(&(deadline, id));
        Some(purpose)
    }

    /// Takes out the earliest call whose deadline has come.
    pub(super) fn take_due(&mut self, now: Moment) -> Option<(CallId, Purpose)> {
        let &(deadline, id) = self.by_deadline.first()?;
        if deadline > now {
            return None;
        }
        self.finish(id).map(|purpose| (id, purpose))
    }

    pub(super) fn next_deadline(&self) -> Option<Deadline> {
        self.by_deadline.first().map(|&(at, _)| Deadline { at, reason: WakeReason::CallDeadline })
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// A request before it has its ids.
#[derive(Debug)]
pub(super) struct RequestParts {
    pub(super) method: Method,
    pub(super) path_and_query: String,
    pub(super) body: Option<String>,
}

/// A query value with everything but RFC 3986's unreserved characters encoded.
pub(super) fn percent_encoded(value: &str) -> String {
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
