//! Keys of the configuration, `api_keys.keys` (worker-protocol 9, Gate).

use sha2::{Digest, Sha256};
use std::sync::Arc;

use crate::access::key_parts::KeyParts;
use crate::access::key_store::{KeyRecord, KeyTable};
use crate::secret::Secret;
use crate::time::UnixMillis;
use crate::wire::ids::KeyId;
use crate::wire::key::{ApiKey, TokenHash};

/// One entry of `api_keys.keys`, resolved. A disabled one is left out by the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorKey {
    /// Its id, safe to show.
    pub id: Arc<str>,
    /// SHA-256 of the key, given as `key_hash` or made of `key` by [`token_hash`].
    pub hash: TokenHash,
    /// The names it may use, published or static; empty means all.
    pub allowed_models: Vec<Arc<str>>,
    /// Requests a minute; `None` is no limit, 0 is blocked.
    pub rate_limit: Option<u32>,
    /// Where it may be used from; `None` or empty: anywhere.
    pub allowed_client_ips: Option<Vec<String>>,
    /// When it ends; `None` is never.
    pub expires_at: Option<UnixMillis>,
}

/// The operator keys by hash.
#[derive(Debug, Clone, Default)]
pub struct OperatorKeys(KeyTable);

impl OperatorKeys {
    /// Puts the keys in a table. Two keys with one hash: the first by id that is valid now is used.
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = OperatorKey>) -> Self {
        let mut table = KeyTable::default();
        let mut parts = KeyParts::default();
        for key in keys {
            let (record, _) = parts.record(&ApiKey {
                key_id: KeyId(key.id),
                token_hash: key.hash,
                allowed_models: key.allowed_models,
                expires_at: key.expires_at,
                rate_limit: key.rate_limit,
                allowed_client_ips: key.allowed_client_ips,
            });
            table.upsert(record);
        }
        Self(table)
    }

    /// All of them, in no order that means anything; an entry tells no key.
    pub fn iter(&self) -> impl Iterator<Item = &KeyRecord> {
        self.0.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) const fn table(&self) -> &KeyTable {
        &self.0
    }

    pub(super) fn judge(&self, hash: &TokenHash, wall: UnixMillis) -> Option<&KeyRecord> {
        self.0.judge(hash, wall)
    }
}

/// What a key is looked up by.
#[must_use]
pub fn token_hash(key: &Secret) -> TokenHash {
    hash_bytes(key.expose().as_bytes())
}

pub(super) fn hash_bytes(key: &[u8]) -> TokenHash {
    TokenHash(Sha256::digest(key).into())
}
