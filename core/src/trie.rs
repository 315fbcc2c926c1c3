//! A map that many holders share and one changes: copying it is one pointer, changing a copy costs what changed.
//!
//! A copy-on-write trie over a 64-bit spread of the key: branches of 8, small leaves sorted by the items' own order.
//! A change copies one leaf and the branches above it; their depth follows the number of items (five for a million
//! items in leaves of 32). Copying a node touches each of its children's counters, which is what a change costs most
//! for, so both are small.

use core::borrow::Borrow;
use core::cmp::Ordering;
use std::sync::Arc;

/// Bits of the spread that one branch parts by.
const BRANCH_BITS: u32 = 3;
const FANOUT: usize = 1 << BRANCH_BITS;
/// Past this depth no bits are left: a leaf there holds whatever it must.
const DEPTH: u32 = u64::BITS / BRANCH_BITS;
/// Room made at once in a leaf: less slack than doubling, over a million items.
const LEAF_STEP: usize = 4;

/// What a trie holds.
pub(crate) trait Item: Clone {
    /// Items of one leaf before it is parted.
    const LEAF: usize;
    /// An even spread of the key: equal keys, equal spreads.
    fn spread(&self) -> u64;
    /// A total order in which only items of one key are equal.
    fn order(&self, other: &Self) -> Ordering;
}

#[derive(Debug, Clone)]
pub(crate) struct Trie<T> {
    root: Option<Arc<Node<T>>>,
    len: usize,
}

#[derive(Debug, Clone)]
enum Node<T> {
    Branch([Option<Arc<Self>>; FANOUT]),
    Leaf(Vec<T>),
}

impl<T> Default for Trie<T> {
    fn default() -> Self {
        Self { root: None, len: 0 }
    }
}

impl<T> Trie<T> {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The leaf in which items of this spread are, if anywhere.
    pub(crate) fn leaf(&self, spread: u64) -> &[T] {
        let Some(mut node) = self.root.as_deref() else { return &[] };
        let mut depth = 0;
        loop {
            match node {
                Node::Leaf(items) => return items,
                Node::Branch(children) => match children.get(branch(spread, depth)).and_then(Option::as_deref) {
                    Some(child) => node = child,
                    None => return &[],
                },
            }
            depth += 1;
        }
    }

    /// Every item, in the order of the spreads: always the same, and of no meaning.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let mut waiting: Vec<&Node<T>> = self.root.as_deref().into_iter().collect();
        core::iter::from_fn(move || {
            loop {
                match waiting.pop()? {
                    Node::Leaf(items) => return Some(items),
                    Node::Branch(children) => waiting.extend(children.iter().rev().flatten().map(|child| &**child)),
                }
            }
        })
        .flatten()
    }
}

impl<T: Item> Trie<T> {
    /// Puts an item in, or in the place of the one with its key.
    pub(crate) fn put(&mut self, item: T) {
        let root = self.root.get_or_insert_with(|| Arc::new(Node::Leaf(Vec::new())));
        if put(root, 0, item) {
            self.len += 1;
        }
    }

    /// Takes out the item that `is_it` picks in the leaf of this spread. A miss copies nothing.
    pub(crate) fn take(&mut self, spread: u64, is_it: impl Fn(&T) -> bool) -> bool {
        let Some(at) = self.leaf(spread).iter().position(is_it) else { return false };
        if self.root.as_mut().is_some_and(|root| take(root, 0, spread, at)) {
            self.root = None;
        }
        self.len -= 1;
        true
    }
}

/// Whether the item is one more, not a replacement.
fn put<T: Item>(node: &mut Arc<Node<T>>, depth: u32, item: T) -> bool {
    match Arc::make_mut(node) {
        Node::Branch(children) => {
            let Some(child) = children.get_mut(branch(item.spread(), depth)) else { return false };
            put(child.get_or_insert_with(|| Arc::new(Node::Leaf(Vec::new()))), depth + 1, item)
        }
        Node::Leaf(items) => match items.binary_search_by(|held| held.order(&item)) {
            Ok(at) => {
                if let Some(held) = items.get_mut(at) {
                    *held = item;
                }
                false
            }
            Err(at) => {
                if items.len() == items.capacity() {
                    items.reserve_exact(LEAF_STEP);
                }
                items.insert(at, item);
                if divisible(items, depth) {
                    let items = core::mem::take(items);
                    *node = Arc::new(part(items, depth));
                }
                true
            }
        },
    }
}

/// Whether the node is empty now and can go.
fn take<T: Item>(node: &mut Arc<Node<T>>, depth: u32, spread: u64, at: usize) -> bool {
    match Arc::make_mut(node) {
        Node::Branch(children) => {
            if let Some(slot) = children.get_mut(branch(spread, depth))
                && let Some(child) = slot
                && take(child, depth + 1, spread, at)
            {
                *slot = None;
            }
            children.iter().all(Option::is_none)
        }
        Node::Leaf(items) => {
            if at < items.len() {
                items.remove(at);
            }
            items.is_empty()
        }
    }
}

fn divisible<T: Item>(items: &[T], depth: u32) -> bool {
    let first = items.first().map(Item::spread);
    items.len() > T::LEAF && depth < DEPTH && items.iter().any(|item| Some(item.spread()) != first)
}

fn part<T: Item>(items: Vec<T>, depth: u32) -> Node<T> {
    let mut leaves: [Vec<T>; FANOUT] = Default::default();
    for item in items {
        if let Some(leaf) = leaves.get_mut(branch(item.spread(), depth)) {
            leaf.push(item);
        }
    }
    Node::Branch(leaves.map(|mut leaf| {
        leaf.shrink_to_fit();
        let parted = divisible(&leaf, depth + 1);
        (!leaf.is_empty()).then(|| Arc::new(if parted { part(leaf, depth + 1) } else { Node::Leaf(leaf) }))
    }))
}

fn branch(spread: u64, depth: u32) -> usize {
    let bits = spread.checked_shl(BRANCH_BITS * depth).unwrap_or(0) >> (u64::BITS - BRANCH_BITS);
    usize::try_from(bits).unwrap_or(0)
}

/// A key of a [`TrieMap`].
pub(crate) trait Spread {
    /// The same for equal keys, in every process.
    fn spread(&self) -> u64;
}

impl Spread for str {
    fn spread(&self) -> u64 {
        // FNV-1a, then mixed: its high bits, which part the first branches, are weak for short texts.
        let folded = self
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        mixed(folded)
    }
}

impl Spread for uuid::Uuid {
    fn spread(&self) -> u64 {
        let (high, low) = self.as_u64_pair();
        mixed(high ^ mixed(low))
    }
}

fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number ^ (number >> 32)
}

/// A map of shared values. One counter per entry is touched when its leaf is copied, and none when it is searched.
#[derive(Debug, Clone)]
pub(crate) struct TrieMap<K, V>(Trie<Slot<K, V>>);

/// An entry with its spread before it, so that a search goes to the right one at once.
#[derive(Debug)]
struct Slot<K, V> {
    spread: u64,
    entry: Arc<(K, V)>,
}

impl<K, V> Clone for Slot<K, V> {
    fn clone(&self) -> Self {
        Self { spread: self.spread, entry: self.entry.clone() }
    }
}

impl<K: Ord, V> Item for Slot<K, V> {
    const LEAF: usize = 6;

    fn spread(&self) -> u64 {
        self.spread
    }

    fn order(&self, other: &Self) -> Ordering {
        self.spread.cmp(&other.spread).then_with(|| self.entry.0.cmp(&other.entry.0))
    }
}

impl<K, V> Default for TrieMap<K, V> {
    fn default() -> Self {
        Self(Trie::default())
    }
}

impl<K: Ord, V> TrieMap<K, V> {
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get<Q: Spread + Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entry(key).map(|(_, value)| value)
    }

    /// The key and its value as they are held.
    pub(crate) fn entry<Q: Spread + Ord + ?Sized>(&self, key: &Q) -> Option<&(K, V)>
    where
        K: Borrow<Q>,
    {
        let spread = key.spread();
        let is_it = |slot: &&Slot<K, V>| slot.spread == spread && slot.entry.0.borrow() == key;
        self.0.leaf(spread).iter().find(is_it).map(|slot| &*slot.entry)
    }

    pub(crate) fn put<Q: Spread + ?Sized>(&mut self, key: K, value: V)
    where
        K: Borrow<Q>,
    {
        self.0.put(Slot { spread: key.borrow().spread(), entry: Arc::new((key, value)) });
    }

    pub(crate) fn take<Q: Spread + Ord + ?Sized>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let spread = key.spread();
        self.0.take(spread, |slot| slot.spread == spread && slot.entry.0.borrow() == key)
    }

    /// Every entry, sorted by key.
    pub(crate) fn sorted(&self) -> Vec<(&K, &V)> {
        let mut entries: Vec<_> = self.0.iter().map(|slot| (&slot.entry.0, &slot.entry.1)).collect();
        entries.sort_unstable_by(|a, b| a.0.cmp(b.0));
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A spread with few bits, so that leaves collide and branches are deep.
    #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
    struct Narrow(u16);

    impl Spread for Narrow {
        fn spread(&self) -> u64 {
            u64::from(self.0 % 7) << 2 | u64::from(self.0 % 3) << 61
        }
    }

    proptest! {
        #[test]
        fn it_is_a_map_and_copies_stand_still(edits in proptest::collection::vec((0..200_u16, 0..4_u8), 0..400)) {
            let (mut map, mut model) = (TrieMap::default(), BTreeMap::new());
            let mut held: Option<(TrieMap<Narrow, u8>, BTreeMap<Narrow, u8>)> = None;
            for (at, (key, value)) in edits.into_iter().enumerate() {
                if value == 0 {
                    prop_assert_eq!(map.take(&Narrow(key)), model.remove(&Narrow(key)).is_some());
                } else {
                    map.put::<Narrow>(Narrow(key), value);
                    model.insert(Narrow(key), value);
                }
                prop_assert_eq!(map.get(&Narrow(key)), model.get(&Narrow(key)));
                prop_assert_eq!(map.len(), model.len());
                if at % 50 == 0 {
                    held = Some((map.clone(), model.clone()));
                }
            }
            prop_assert_eq!(map.sorted(), model.iter().collect::<Vec<_>>());
            if let Some((map, model)) = held {
                prop_assert_eq!(map.sorted(), model.iter().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn emptied_it_holds_nothing() {
        let mut map = TrieMap::default();
        for number in 0..1_000_u16 {
            map.put::<Narrow>(Narrow(number), ());
        }
        for number in 0..1_000 {
            assert!(map.take(&Narrow(number)));
        }
        assert!(map.0.root.is_none());
        assert_eq!(map.len(), 0);
    }

    #[test]
    fn names_spread_evenly() {
        let mut children = [0_usize; FANOUT];
        for number in 0..8_000 {
            children[branch(format!("model-{number}").spread(), 0)] += 1;
        }
        let fair = 8_000 / FANOUT;
        assert!(children.iter().all(|count| count.abs_diff(fair) < fair / 5), "{children:?}");
    }
}
