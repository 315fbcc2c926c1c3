//! Bodies of the calls about this worker itself (worker-protocol 1, 1.1, 1.2).

use super::ids::{NodeId, WorkerId};
use super::malformed::Malformed;
use crate::config::worker::WorkerConfig;

/// What we read of the answer to `PUT /api/worker`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterAnswer {
    /// The coordinator's row for this authority.
    pub worker_id: WorkerId,
    /// The traffics of the authority's first registration; `None` when the answer does not say.
    pub accepted_traffics: Option<Vec<String>>,
}

/// The body of `PUT /api/worker`; the mode decides between 1.1 and 1.2.
#[must_use]
pub fn register_body(config: &WorkerConfig, node_id: NodeId) -> String {
    unimplemented!("{config:?} {node_id}")
}

/// Reads the answer to `PUT /api/worker`. An error means the registration failed.
pub fn parse_register_answer(body: &[u8]) -> Result<RegisterAnswer, Malformed> {
    unimplemented!("{}", body.len())
}

/// The body of a ROUTER worker's heartbeat.
#[must_use]
pub fn heartbeat_body(node_id: NodeId) -> String {
    unimplemented!("{node_id}")
}

/// An error answer in words for the operator, at most `limits::QUOTED_CHARS` characters.
#[must_use]
pub fn error_text(body: &[u8]) -> String {
    unimplemented!("{}", body.len())
}
