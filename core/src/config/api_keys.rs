//! `api_keys`: the operator's own keys (worker-protocol 9, Gate).

use crate::wire::key::ApiKey;

/// What happens to a request without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyMode {
    /// 401.
    Blocking,
    /// It is admitted.
    Permissive,
}

/// `api_keys`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeys {
    /// In force: `Blocking` with a worker section whatever the file says, `Permissive` in a plain router without
    /// the section.
    pub mode: KeyMode,
    /// The keys, ids unique, in the order of the file. Plain keys are hashed here and forgotten.
    pub keys: Vec<OperatorKey>,
}

/// One entry of `api_keys.keys`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorKey {
    /// Id, hash and bounds.
    pub key: ApiKey,
    /// Whether it may be used at all.
    pub enabled: bool,
}
