//! How the worker stands with its coordinator, as the data plane and the pages read it.

use core::time::Duration;
use serde::{Deserialize, Serialize};

use crate::time::Moment;
use crate::wire::ids::{NodeId, Revision, WorkerId};

/// A copy of the control plane's state, small enough to make anew after every input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// This process.
    pub node_id: NodeId,
    /// The coordinator's row for us, once registered.
    pub worker_id: Option<WorkerId>,
    /// Whether the coordinator knows us, as far as we know.
    pub registered: bool,
    /// Whether the subscription stands; `None` when events are off.
    pub bus_up: Option<bool>,
    /// When the last full pull was applied.
    pub last_full_pull: Option<Moment>,
    /// The last applied revision of the router-config, and whether the state still is that snapshot.
    pub revision: Option<Revision>,
    /// Whether [`crate::worker::Input::Shutdown`] was heard.
    pub leaving: bool,
    /// Past this age of `last_full_pull` the worker is not ready; `None` is no bound.
    pub max_staleness: Option<Duration>,
    /// Past this age model API keys get 503; `None` is no bound.
    pub max_key_staleness: Option<Duration>,
    /// What is wrong now, worst first, in words for anybody (`/health`); empty when nothing is.
    pub trouble: Vec<String>,
}

impl Standing {
    /// Whether `/readyz` answers 200 (worker-protocol 1): from the first full pull until shutdown.
    #[must_use]
    pub fn ready(&self, now: Moment) -> bool {
        !self.leaving
            && self.last_full_pull.is_some_and(|at| self.max_staleness.is_none_or(|bound| now.since(at) <= bound))
    }

    /// Whether model API keys may be used (worker-protocol 1, `max_key_staleness`).
    #[must_use]
    pub fn keys_fresh(&self, now: Moment) -> bool {
        self.last_full_pull.is_some_and(|at| self.max_key_staleness.is_none_or(|bound| now.since(at) <= bound))
    }
}
