//! Model API keys as requests look them up: by SHA-256, in a table that views share (worker-protocol 5.3, 9).

use core::cmp::Ordering;
use std::sync::Arc;
use subtle::ConstantTimeEq;

use super::ip_list::IpList;
use crate::time::UnixMillis;
use crate::trie::{Item, Trie};
use crate::wire::ids::KeyId;
use crate::wire::key::{ApiKey, TokenHash};

/// One key, packed: a million of them are held at once. The parts that many keys have in common are shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    token_hash: TokenHash,
    key_id: KeyId,
    allowed: Option<Arc<[Arc<str>]>>,
    addresses: Option<Arc<IpList>>,
    /// Milliseconds; [`NEVER`] when it does not end.
    expires_at: i64,
    /// Requests a minute; [`UNLIMITED`] when there is no limit.
    rate_limit: u32,
}

const NEVER: i64 = i64::MAX;
const UNLIMITED: u32 = u32::MAX;

impl KeyRecord {
    pub(super) fn pack(key: &ApiKey, allowed: Option<Arc<[Arc<str>]>>, addresses: Option<Arc<IpList>>) -> Self {
        Self {
            token_hash: key.token_hash,
            key_id: key.key_id.clone(),
            allowed,
            addresses,
            expires_at: key.expires_at.map_or(NEVER, |at| at.0),
            rate_limit: key.rate_limit.unwrap_or(UNLIMITED),
        }
    }

    /// The hash of the key: never shown.
    pub(crate) const fn token_hash(&self) -> &TokenHash {
        &self.token_hash
    }

    /// Its id, safe to show.
    #[must_use]
    pub const fn key_id(&self) -> &KeyId {
        &self.key_id
    }

    /// Whether it may use a name: each name for itself, and every one when none is listed.
    #[must_use]
    pub fn may_use(&self, name: &str) -> bool {
        self.allowed.as_ref().is_none_or(|names| names.binary_search_by(|listed| (**listed).cmp(name)).is_ok())
    }

    /// The names it may use, sorted; `None` is every one.
    #[must_use]
    pub fn allowed_models(&self) -> Option<&[Arc<str>]> {
        self.allowed.as_deref()
    }

    /// Where it may be used from.
    #[must_use]
    pub fn addresses(&self) -> &IpList {
        self.addresses.as_deref().unwrap_or(&IpList::Anyone)
    }

    /// When it ends; `None` is never.
    #[must_use]
    pub const fn expires_at(&self) -> Option<UnixMillis> {
        if self.expires_at == NEVER { None } else { Some(UnixMillis(self.expires_at)) }
    }

    /// Whether it has ended: at its expiry and after (worker-protocol 5.3).
    #[must_use]
    pub const fn expired(&self, wall: UnixMillis) -> bool {
        wall.0 >= self.expires_at && self.expires_at != NEVER
    }

    /// Requests a minute; `None` is no limit, 0 is blocked.
    #[must_use]
    pub const fn rate_limit(&self) -> Option<u32> {
        if self.rate_limit == UNLIMITED { None } else { Some(self.rate_limit) }
    }
}

impl Item for KeyRecord {
    const LEAF: usize = 32;

    fn spread(&self) -> u64 {
        spread(&self.token_hash)
    }

    fn order(&self, other: &Self) -> Ordering {
        (&self.token_hash, &self.key_id).cmp(&(&other.token_hash, &other.key_id))
    }
}

/// A hash is its own spread.
fn spread(hash: &TokenHash) -> u64 {
    hash.0.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}

/// A hash in four words: compared in a quarter of the steps that its bytes would take, and as evenly.
fn words(hash: &TokenHash) -> [u64; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(hash.0.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    words
}

/// Keys by hash. A clone is cheap and does not see later changes: views share what did not change.
#[derive(Debug, Clone, Default)]
pub struct KeyTable {
    trie: Trie<KeyRecord>,
}

impl KeyTable {
    /// Puts a key in, or in the place of the one with its id and hash.
    pub fn upsert(&mut self, record: KeyRecord) {
        self.trie.put(record);
    }

    /// Takes the key with this id out from under the hash it has. Whether it was there.
    pub fn remove(&mut self, hash: &TokenHash, key_id: &KeyId) -> bool {
        self.trie.take(spread(hash), |record| record.token_hash == *hash && record.key_id == *key_id)
    }

    /// The keys with this hash, sorted by id; the hit is compared in constant time.
    #[must_use]
    pub fn by_hash(&self, hash: &TokenHash) -> &[KeyRecord] {
        let leaf = self.trie.leaf(spread(hash));
        let start = leaf.partition_point(|record| record.token_hash < *hash);
        let end = leaf.partition_point(|record| record.token_hash <= *hash);
        let hit = leaf.get(start..end).unwrap_or_default();
        // The search may stop early; whether it found *this* hash is said in constant time.
        let same = |record: &KeyRecord| bool::from(words(&record.token_hash).ct_eq(&words(hash)));
        if hit.first().is_some_and(same) { hit } else { &[] }
    }

    /// The key a request is judged by: the first of its hash that is valid now, else the first (which is expired).
    #[must_use]
    pub fn judge(&self, hash: &TokenHash, wall: UnixMillis) -> Option<&KeyRecord> {
        let records = self.by_hash(hash);
        records.iter().find(|record| !record.expired(wall)).or_else(|| records.first())
    }

    /// Every key, in the order of their hashes: for pages.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &KeyRecord> {
        self.trie.iter()
    }

    /// How many keys there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.trie.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.trie.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::key_parts::KeyParts;
    use sha2::{Digest as _, Sha256};

    fn key(id: &str, hash: [u8; 32]) -> ApiKey {
        ApiKey {
            key_id: KeyId::from(id),
            token_hash: TokenHash(hash),
            allowed_models: vec!["b".into(), "a".into(), "b".into()],
            expires_at: Some(UnixMillis(5_000)),
            rate_limit: Some(0),
            allowed_client_ips: Some(vec!["10.0.0.0/8".to_owned(), "office".to_owned()]),
        }
    }

    fn hash(first: u8, last: u8) -> [u8; 32] {
        let mut hash = [0x55; 32];
        hash[0] = first;
        hash[31] = last;
        hash
    }

    #[test]
    fn a_record_says_what_the_key_said() {
        let (record, rejected) = KeyParts::default().record(&key("k", hash(1, 1)));
        assert_eq!(rejected, ["office"]);
        assert!(record.may_use("a") && record.may_use("b") && !record.may_use("B") && !record.may_use(""));
        assert_eq!(record.allowed_models().map(<[_]>::len), Some(2));
        assert_eq!((record.rate_limit(), record.expires_at()), (Some(0), Some(UnixMillis(5_000))));
        assert!(!record.expired(UnixMillis(4_999)) && record.expired(UnixMillis(5_000)));
        assert!(record.addresses().allows("10.1.2.3".parse().ok()) && !record.addresses().allows(None));
        assert!(!format!("{record:?}").contains("85, 85"));
        let open = ApiKey {
            allowed_models: vec![],
            expires_at: None,
            rate_limit: None,
            allowed_client_ips: None,
            ..key("k", hash(1, 1))
        };
        let (record, _) = KeyParts::default().record(&open);
        assert!(record.may_use("anything") && !record.expired(UnixMillis(i64::MAX)));
        assert_eq!((record.rate_limit(), record.expires_at(), record.addresses()), (None, None, &IpList::Anyone));
    }

    #[test]
    fn keys_of_one_hash_are_judged_by_the_first_that_is_valid() {
        let (mut parts, mut table) = (KeyParts::default(), KeyTable::default());
        let later = ApiKey { expires_at: Some(UnixMillis(9_000)), ..key("k2", hash(1, 1)) };
        // More than a leaf holds, and not to be parted; neighbours differ only in their last byte.
        for number in 3..60 {
            table.upsert(parts.record(&key(&format!("z{number}"), hash(1, 1))).0);
            table.upsert(parts.record(&key("next", hash(1, number))).0);
        }
        table.upsert(parts.record(&later).0);
        table.upsert(parts.record(&key("k1", hash(1, 1))).0);
        let judged =
            |table: &KeyTable, wall| table.judge(&TokenHash(hash(1, 1)), UnixMillis(wall)).unwrap().key_id().clone();
        assert_eq!(judged(&table, 0).as_str(), "k1");
        assert_eq!(judged(&table, 5_000).as_str(), "k2");
        assert_eq!(judged(&table, 9_000).as_str(), "k1");
        assert!(table.remove(&TokenHash(hash(1, 1)), &KeyId::from("k1")));
        assert!(!table.remove(&TokenHash(hash(1, 1)), &KeyId::from("k1")));
        assert_eq!(judged(&table, 0).as_str(), "k2");
        assert_eq!(table.by_hash(&TokenHash(hash(1, 1))).len(), 58);
        assert_eq!(table.by_hash(&TokenHash(hash(1, 7))).len(), 1);
        assert!(table.by_hash(&TokenHash(hash(1, 200))).is_empty() && table.by_hash(&TokenHash(hash(9, 1))).is_empty());
        assert_eq!(table.len(), 58 + 57);
    }

    #[test]
    fn each_of_many_keys_is_found_beside_a_few_others() {
        let (mut parts, mut table) = (KeyParts::default(), KeyTable::default());
        assert!(table.is_empty());
        let hashes: Vec<TokenHash> =
            (0..2_000_u32).map(|n| TokenHash(Sha256::digest(n.to_be_bytes()).into())).collect();
        for (number, hash) in hashes.iter().enumerate() {
            table.upsert(parts.record(&key(&format!("k{number}"), hash.0)).0);
        }
        assert!(table.len() == hashes.len() && !table.is_empty());
        for (number, hash) in hashes.iter().enumerate() {
            assert!(table.trie.leaf(spread(hash)).len() <= KeyRecord::LEAF, "a request looks at no more");
            let id = KeyId::from(format!("k{number}").as_str());
            assert_eq!(table.by_hash(hash).iter().map(KeyRecord::key_id).collect::<Vec<_>>(), [&id]);
            assert!(table.remove(hash, &id) && table.by_hash(hash).is_empty());
        }
        assert!(table.is_empty());
    }

    #[test]
    fn equal_lists_are_held_once_and_let_go() {
        let mut parts = KeyParts::default();
        let (one, _) = parts.record(&key("k1", hash(1, 1)));
        let (two, _) = parts.record(&key("k2", hash(2, 2)));
        assert!(one.allowed_models().map(<[_]>::as_ptr) == two.allowed_models().map(<[_]>::as_ptr));
        let held = one.allowed.clone().unwrap();
        drop((one, two));
        for number in 0..5_000 {
            let passing = ApiKey { allowed_models: vec![format!("m{number}").into()], ..key("k", hash(3, 3)) };
            let _ = parts.record(&passing);
        }
        // Held here; the passing ones went with the sweeps.
        assert!(parts.held() < 3_000, "{}", parts.held());
        assert!(Arc::strong_count(&held) >= 1);
    }
}
