//! Model API keys as the coordinator describes them (worker-protocol 5.1).

use core::fmt;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
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

/// SHA-256 of a model API key. `Debug` shows nothing of it. Serde is our own form: hex digits, zero bytes at the end left
/// out; the journal has 16 bytes there, the hash's pseudonym.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenHash(pub [u8; 32]);

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(..)")
    }
}

impl Serialize for TokenHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let used = self.0.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let digits: String = self.0.iter().take(used).map(|byte| format!("{byte:02x}")).collect();
        serializer.serialize_str(&digits)
    }
}

impl<'de> Deserialize<'de> for TokenHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let wrong = || de::Error::custom("no hash; at most 64 hex digits, an even number, should be here");
        let mut hash = [0; 32];
        let hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        if !hex || digits.len() > 64 || !digits.len().is_multiple_of(2) {
            return Err(wrong());
        }
        for (byte, pair) in hash.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
            let pair = core::str::from_utf8(pair).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(Self(hash))
    }
}
