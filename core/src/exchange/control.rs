//! What a request sees of this node.

use http::header::{CONNECTION, HeaderMap, HeaderValue};
use http::{StatusCode, Version};

use super::rules::ExchangeRules;
use crate::defects::{Defect, has};
use crate::serving::ServingView;
use crate::time::{Moment, Now};
#[cfg(feature = "appproxy-common")]
use crate::worker::Standing;

/// Everything one step of an exchange reads, taken once for the step: no step sees half of a change.
#[derive(Debug, Clone, Copy)]
pub struct Node<'a> {
    /// What the configuration says.
    pub rules: &'a ExchangeRules,
    /// What is served.
    pub view: &'a ServingView,
    /// How this node stands with its coordinator.
    pub control: &'a Control,
    /// Both clocks.
    pub now: Now,
    /// Whether the configuration file was refused as last read, so that the one before it is still in force.
    pub file_refused: bool,
}

/// Whether there is a coordinator, and how we stand with it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Control {
    /// A plain router: nothing to wait for. `true` once it is shutting down.
    Alone {
        /// Whether shutdown has begun.
        leaving: bool,
    },
    /// A worker of a coordinator.
    #[cfg(feature = "appproxy-common")]
    Worker {
        /// The authority it serves.
        authority: std::sync::Arc<str>,
        /// The control plane's state.
        standing: Standing,
    },
    /// Nothing is known yet: not ready.
    #[default]
    Unknown,
}

impl Control {
    /// Whether `/readyz` answers 200.
    #[must_use]
    #[cfg_attr(not(feature = "appproxy-common"), expect(unused_variables, reason = "only a worker's state ages"))]
    pub fn ready(&self, now: Moment) -> bool {
        match self {
            Self::Alone { leaving } => !leaving,
            #[cfg(feature = "appproxy-common")]
            Self::Worker { standing, .. } => standing.ready(now) || has(Defect::ReadyAtOnce),
            Self::Unknown => has(Defect::ReadyAtOnce),
        }
    }

    /// Whether the coordinator's state was ever pulled; true where there is no coordinator.
    #[must_use]
    pub fn has_pulled(&self) -> bool {
        match self {
            Self::Alone { .. } => true,
            #[cfg(feature = "appproxy-common")]
            Self::Worker { standing, .. } => standing.last_full_pull.is_some() || has(Defect::ReadyAtOnce),
            Self::Unknown => has(Defect::ReadyAtOnce),
        }
    }

    /// Whether model API keys may be trusted.
    #[must_use]
    #[cfg_attr(not(feature = "appproxy-common"), expect(unused_variables, reason = "only a worker's state ages"))]
    pub fn keys_fresh(&self, now: Moment) -> bool {
        match self {
            Self::Alone { .. } => true,
            #[cfg(feature = "appproxy-common")]
            Self::Worker { standing, .. } => standing.keys_fresh(now),
            Self::Unknown => false,
        }
    }

    /// Whether shutdown has begun.
    #[must_use]
    pub const fn leaving(&self) -> bool {
        match self {
            Self::Alone { leaving } => *leaving,
            #[cfg(feature = "appproxy-common")]
            Self::Worker { standing, .. } => standing.leaving,
            Self::Unknown => false,
        }
    }

    /// Says in an answer's head that its connection ends with it, once shutdown has begun. A connection that is busy to the
    /// end would otherwise be closed between two requests, and the one that is just being sent be lost (data-plane 9).
    pub fn mark_last(&self, version: Version, status: StatusCode, headers: &mut HeaderMap) {
        // A WebSocket has a connection of its own, and HTTP/2 its own way to say so.
        let told = self.leaving() && version < Version::HTTP_2 && status != StatusCode::SWITCHING_PROTOCOLS;
        if told && !has(Defect::LeavingUntold) {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }

    /// What is wrong now, worst first.
    #[must_use]
    pub fn trouble(&self) -> &[String] {
        match self {
            #[cfg(feature = "appproxy-common")]
            Self::Worker { standing, .. } => &standing.trouble,
            Self::Alone { .. } | Self::Unknown => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(control: &Control, version: Version, status: StatusCode) -> bool {
        let mut headers = HeaderMap::new();
        control.mark_last(version, status, &mut headers);
        headers.get(CONNECTION).is_some_and(|value| value == "close")
    }

    #[test]
    fn only_what_leaves_says_so_and_only_where_a_connection_ends_by_it() {
        let (stays, leaves) = (Control::Alone { leaving: false }, Control::Alone { leaving: true });
        let ok = StatusCode::OK;
        assert!(told(&leaves, Version::HTTP_11, ok) && told(&leaves, Version::HTTP_10, StatusCode::NOT_FOUND));
        assert!(!told(&stays, Version::HTTP_11, ok) && !told(&Control::Unknown, Version::HTTP_11, ok));
        assert!(!told(&leaves, Version::HTTP_2, ok));
        assert!(!told(&leaves, Version::HTTP_11, StatusCode::SWITCHING_PROTOCOLS));
    }
}
