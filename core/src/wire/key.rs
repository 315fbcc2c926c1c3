//! Model API keys as the coordinator describes them (worker-protocol 5.1).

use core::fmt;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::ids::KeyId;
use crate::time::UnixMillis;

/// A model API key: never the key itself, only its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    /// Its id, safe to show.
    pub key_id: KeyId,
    /// SHA-256 of the key.
    pub token_hash: TokenHash,
    /// The names it may use; empty means every published one.
    pub allowed_models: Vec<Arc<str>>,
    /// When it ends; `None` is never.
    pub expires_at: Option<UnixMillis>,
    /// Requests a minute; `None` is no limit, 0 is blocked.
    pub rate_limit: Option<u32>,
    /// Where it may be used from, entry by entry as it came. `None` or empty: anywhere; present and nothing readable:
    /// nowhere.
    pub allowed_client_ips: Option<Vec<String>>,
}

/// SHA-256 of a model API key. `Debug` shows nothing of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenHash(pub [u8; 32]);

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(..)")
    }
}
