//! The router-config snapshot (worker-protocol 5.1, 9).

use super::ids::Revision;
use super::key::ApiKey;
use super::malformed::{Elements, Malformed};
use super::publication::Publication;

/// What `GET /api/worker/{id}/router-config` answers with 200.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Which snapshot this is.
    pub revision: Revision,
    /// The publications; the ids of skipped ones are primary names.
    pub models: Elements<Publication>,
    /// The model API keys; the ids of skipped ones are key ids.
    pub keys: Elements<ApiKey>,
    /// Numbers that JSON does not know, read as 0.
    pub forgiven: Vec<Malformed>,
}

/// Reads a snapshot. An error is a failed pull: no JSON, or a body without its revision, models or keys.
pub fn parse_snapshot(body: &[u8]) -> Result<Snapshot, Malformed> {
    unimplemented!("{}", body.len())
}
