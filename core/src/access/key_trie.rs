//! A copy-on-write trie over token hashes: 16-way branches, small sorted leaves.
//!
//! Hashes are evenly spread, so depth follows the number of keys (four branches for a million), and an update copies
//! one leaf and the branches above it, whatever the number of keys. Leaves hold records inline: a pointer and a header
//! for each record would cost more than the record.

use core::ops::Range;
use std::sync::Arc;
use subtle::ConstantTimeEq;

use super::key_store::KeyRecord;
use crate::wire::ids::KeyId;
use crate::wire::key::TokenHash;

/// Records of one leaf before it is parted; one hash is never parted.
const LEAF_RECORDS: usize = 32;
/// Room made at once in a leaf: less slack than doubling, over a million keys.
const LEAF_STEP: usize = 4;
const FANOUT: usize = 16;

#[derive(Debug, Clone, Default)]
pub(super) struct Trie {
    root: Option<Arc<Node>>,
    len: usize,
}

#[derive(Debug, Clone)]
enum Node {
    /// Children by the nibble at this depth.
    Branch([Option<Arc<Self>>; FANOUT]),
    /// Records sorted by hash, then id.
    Leaf(Vec<KeyRecord>),
}

impl Trie {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn upsert(&mut self, record: KeyRecord) {
        let root = self.root.get_or_insert_with(|| Arc::new(Node::Leaf(Vec::new())));
        if insert(root, 0, record) {
            self.len += 1;
        }
    }

    pub(super) fn remove(&mut self, hash: &TokenHash, key_id: &KeyId) -> bool {
        // Looked for first, so that a miss copies nothing.
        if !self.by_hash(hash).iter().any(|record| record.key_id() == key_id) {
            return false;
        }
        if let Some(root) = &mut self.root {
            if take(root, 0, hash, key_id) {
                self.root = None;
            }
            self.len -= 1;
        }
        true
    }

    pub(super) fn by_hash(&self, hash: &TokenHash) -> &[KeyRecord] {
        let Some(mut node) = self.root.as_deref() else { return &[] };
        let mut depth = 0;
        while let Node::Branch(children) = node {
            let Some(child) = children.get(nibble(hash, depth)).and_then(Option::as_deref) else { return &[] };
            node = child;
            depth += 1;
        }
        let Node::Leaf(records) = node else { return &[] };
        let hit = records.get(span(records, hash)).unwrap_or_default();
        // The search above may stop early; whether it found *this* hash is said in constant time.
        if hit.first().is_some_and(|record| bool::from(record.token_hash.0.ct_eq(&hash.0))) { hit } else { &[] }
    }
}

/// Whether the record is one more, not a replacement.
fn insert(node: &mut Arc<Node>, depth: usize, record: KeyRecord) -> bool {
    match Arc::make_mut(node) {
        Node::Branch(children) => {
            let Some(child) = children.get_mut(nibble(&record.token_hash, depth)) else { return false };
            insert(child.get_or_insert_with(|| Arc::new(Node::Leaf(Vec::new()))), depth + 1, record)
        }
        Node::Leaf(records) => {
            let place = records
                .binary_search_by(|held| (&held.token_hash, held.key_id()).cmp(&(&record.token_hash, record.key_id())));
            match place {
                Ok(at) => {
                    if let Some(held) = records.get_mut(at) {
                        *held = record;
                    }
                    false
                }
                Err(at) => {
                    if records.len() == records.capacity() {
                        records.reserve_exact(LEAF_STEP);
                    }
                    records.insert(at, record);
                    if records.len() > LEAF_RECORDS && divisible(records) {
                        let records = core::mem::take(records);
                        *node = Arc::new(part(records, depth));
                    }
                    true
                }
            }
        }
    }
}

/// Whether the node is empty now and can go.
fn take(node: &mut Arc<Node>, depth: usize, hash: &TokenHash, key_id: &KeyId) -> bool {
    match Arc::make_mut(node) {
        Node::Branch(children) => {
            if let Some(slot) = children.get_mut(nibble(hash, depth))
                && let Some(child) = slot
                && take(child, depth + 1, hash, key_id)
            {
                *slot = None;
            }
            children.iter().all(Option::is_none)
        }
        Node::Leaf(records) => {
            records.retain(|record| record.token_hash != *hash || record.key_id() != key_id);
            records.is_empty()
        }
    }
}

/// Hashes that differ part at some nibble; one hash alone never does.
fn divisible(records: &[KeyRecord]) -> bool {
    records.first().map(|record| record.token_hash) != records.last().map(|record| record.token_hash)
}

fn part(records: Vec<KeyRecord>, depth: usize) -> Node {
    let mut leaves: [Vec<KeyRecord>; FANOUT] = Default::default();
    for record in records {
        if let Some(leaf) = leaves.get_mut(nibble(&record.token_hash, depth)) {
            leaf.push(record);
        }
    }
    Node::Branch(leaves.map(|mut leaf| {
        leaf.shrink_to_fit();
        (!leaf.is_empty()).then(|| {
            let parted = leaf.len() > LEAF_RECORDS && divisible(&leaf);
            Arc::new(if parted { part(leaf, depth + 1) } else { Node::Leaf(leaf) })
        })
    }))
}

fn nibble(hash: &TokenHash, depth: usize) -> usize {
    let byte = hash.0.get(depth / 2).copied().unwrap_or(0);
    usize::from(if depth.is_multiple_of(2) { byte >> 4 } else { byte & 15 })
}

fn span(records: &[KeyRecord], hash: &TokenHash) -> Range<usize> {
    let start = records.partition_point(|record| record.token_hash < *hash);
    let end = records.partition_point(|record| record.token_hash <= *hash);
    start..end
}
