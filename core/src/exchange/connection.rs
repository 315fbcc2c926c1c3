//! A client's connection: what its requests have in common, and what is kept from one to the next.

use core::fmt;
use http::HeaderValue;
use std::sync::{Arc, Mutex};
use subtle::ConstantTimeEq as _;

use super::operator_keys::hash_bytes;
use super::passage::Spare;
use super::states::lock;
use crate::access::address::Peer;
use crate::limits::REMEMBERED_KEY_BYTES;
use crate::wire::key::TokenHash;

/// The client's connection, as the listener sees it. Make one for each connection and give every request on it a clone,
/// which is cheap: what one request worked out is there for the next.
#[derive(Debug, Clone)]
pub struct Connection(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    peer: Peer,
    tls: bool,
    /// Its address as it is forwarded: written once, not for each request.
    address: Option<HeaderValue>,
    last_key: Mutex<LastKey>,
    spare: Spare,
}

impl Connection {
    /// A connection from `peer`, with TLS or without.
    #[must_use]
    pub fn new(peer: Peer, tls: bool) -> Self {
        let address = match peer {
            Peer::Ip(address) => HeaderValue::from_str(&address.to_canonical().to_string()).ok(),
            Peer::Unix => None,
        };
        Self(Arc::new(Kept { peer, tls, address, last_key: Mutex::default(), spare: Spare::default() }))
    }

    pub(super) fn peer(&self) -> Peer {
        self.0.peer
    }

    pub(super) fn tls(&self) -> bool {
        self.0.tls
    }

    /// The peer's own address, as it is written, unless it is a unix socket.
    pub(super) fn address(&self) -> Option<&HeaderValue> {
        self.0.address.as_ref()
    }

    pub(super) fn spare(&self) -> &Spare {
        &self.0.spare
    }

    /// What a key is looked up by: worked out anew only when it is not the one that was shown here last.
    pub(super) fn hash(&self, key: &[u8]) -> TokenHash {
        let mut last = lock(&self.0.last_key);
        if last.is(key) {
            return last.hash;
        }
        let hash = hash_bytes(key);
        last.remember(key, hash);
        hash
    }
}

/// The key that was shown last, good or not.
struct LastKey {
    text: Vec<u8>,
    hash: TokenHash,
}

impl Default for LastKey {
    fn default() -> Self {
        Self { text: Vec::new(), hash: TokenHash([0; 32]) }
    }
}

impl fmt::Debug for LastKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LastKey(..)")
    }
}

impl LastKey {
    /// In a time that depends on the lengths alone: a proxy in front may bring requests of many clients.
    fn is(&self, key: &[u8]) -> bool {
        if self.text.len() != key.len() || key.is_empty() {
            return false;
        }
        let ((ours, our_rest), (shown, shown_rest)) = (self.text.as_chunks::<8>(), key.as_chunks::<8>());
        let mut differ = 0;
        for (ours, shown) in ours.iter().zip(shown) {
            differ |= u64::from_ne_bytes(*ours) ^ u64::from_ne_bytes(*shown);
        }
        for (ours, shown) in our_rest.iter().zip(shown_rest) {
            differ |= u64::from(ours ^ shown);
        }
        differ.ct_eq(&0).into()
    }

    fn remember(&mut self, key: &[u8], hash: TokenHash) {
        self.text.clear();
        if key.len() <= REMEMBERED_KEY_BYTES {
            self.text.extend_from_slice(key);
            self.hash = hash;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_keys_whatever_was_shown_before() {
        let connection = Connection::new(Peer::Unix, false);
        let long = "k".repeat(REMEMBERED_KEY_BYTES + 1);
        let near = "k".repeat(REMEMBERED_KEY_BYTES);
        let other = format!("{}j", "k".repeat(REMEMBERED_KEY_BYTES - 1));
        for key in
            ["sk-1", "sk-1", "sk-2", "sk-12345678", "sk-12345679", "sk-1", &long, &long, &near, &other, &near, ""]
        {
            for _ in 0..2 {
                assert_eq!(connection.hash(key.as_bytes()), hash_bytes(key.as_bytes()), "{key}");
            }
        }
    }

    #[test]
    fn the_key_shown_last_does_not_show() {
        let connection = Connection::new(Peer::Unix, false);
        connection.hash(b"hunter2");
        let shown = format!("{connection:?}");
        assert!(!shown.contains("hunter2") && !shown.contains(&format!("{:?}", b"hunter2")), "{shown}");
    }
}
