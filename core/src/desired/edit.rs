//! The desired state and its edits. Every edit is idempotent; that of one entity says whether it changed anything.

use core::fmt;
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;

use super::digest::{self, Pseudonyms, StateDigest};
use super::learned::Learned;
use super::sub_domains::{Arrivals, SubDomains, claimed};
use super::touched::Touched;
use crate::trie::TrieMap;
use crate::wire::circuit::Circuit;
use crate::wire::ids::{CircuitId, EndpointId, KeyId};
use crate::wire::key::ApiKey;
use crate::wire::publication::Publication;

/// Circuits, publications and keys as the coordinator wants them, with the indexes that make an edit cheap.
#[derive(Clone)]
pub struct Desired {
    pseudonyms: Pseudonyms,
    pub(super) circuits: BTreeMap<CircuitId, Circuit>,
    publications: BTreeMap<Arc<str>, Arc<Publication>>,
    keys: BTreeMap<KeyId, ApiKey>,
    keys_loaded: bool,
    circuits_of: BTreeMap<EndpointId, BTreeSet<CircuitId>>,
    /// Each list sorted by primary name; so are those of `claims`.
    publications_of: BTreeMap<EndpointId, Vec<Arc<Publication>>>,
    /// Looked up for every name of a touched endpoint: a search in a tree of texts costs a cache miss for each text.
    claims: TrieMap<Arc<str>, Vec<Arc<Publication>>>,
    /// Names with more than one claimant: few, so that to ask is cheap.
    contested: BTreeSet<Arc<str>>,
    pub(super) sub_domains: SubDomains,
    pub(super) arrivals: Arrivals,
    /// Not the coordinator's: what its replicas said. No part of the digest.
    pub(super) learned: BTreeMap<EndpointId, Learned>,
    digest: StateDigest,
    pub(super) touched: Touched,
}

impl Desired {
    /// Nothing known yet. `authority` enters the digest of keys (data-plane 9).
    #[must_use]
    pub fn new(authority: &str) -> Self {
        Self::with(Pseudonyms::Made(authority.into()))
    }

    /// Nothing known yet, and keys will have pseudonyms in the place of their hashes: for replay.
    #[must_use]
    pub fn of_pseudonyms() -> Self {
        Self::with(Pseudonyms::InPlace)
    }

    fn with(pseudonyms: Pseudonyms) -> Self {
        Self {
            pseudonyms,
            circuits: BTreeMap::new(),
            publications: BTreeMap::new(),
            keys: BTreeMap::new(),
            keys_loaded: false,
            circuits_of: BTreeMap::new(),
            publications_of: BTreeMap::new(),
            claims: TrieMap::default(),
            contested: BTreeSet::new(),
            sub_domains: SubDomains::new(),
            arrivals: Arrivals::default(),
            learned: BTreeMap::new(),
            digest: StateDigest::default(),
            touched: Touched::default(),
        }
    }

    /// Creates a circuit or replaces it whole.
    pub fn upsert_circuit(&mut self, circuit: Circuit) -> bool {
        let (id, fresh) = (circuit.id, circuit.routable());
        let label = claimed(&circuit).map(Arc::from);
        let old = match self.circuits.entry(id) {
            Entry::Vacant(slot) => {
                slot.insert(circuit);
                None
            }
            Entry::Occupied(slot) if *slot.get() == circuit => return false,
            Entry::Occupied(mut slot) => Some(slot.insert(circuit)),
        };
        self.touched.circuits.insert(id);
        self.touched.endpoints.extend(fresh);
        if let Some(circuit) = self.circuits.get(&id) {
            self.digest.add(digest::of_circuit(circuit));
        }
        let before = old.as_ref().and_then(Circuit::routable);
        self.touched.endpoints.extend(before);
        self.move_claim(id, old.as_ref().and_then(claimed).map(Arc::from), label);
        if let Some(old) = &old {
            self.digest.take(digest::of_circuit(old));
        }
        if before != fresh {
            if let Some(endpoint) = before {
                unlink(&mut self.circuits_of, &endpoint, &id);
            }
            if let Some(endpoint) = fresh {
                self.circuits_of.entry(endpoint).or_default().insert(id);
            }
        }
        true
    }

    /// Removes a circuit.
    pub fn remove_circuit(&mut self, id: CircuitId) -> bool {
        let Some(old) = self.circuits.remove(&id) else { return false };
        self.touched.circuits.insert(id);
        self.arrivals.forget(id);
        self.move_claim(id, claimed(&old).map(Arc::from), None);
        self.digest.take(digest::of_circuit(&old));
        if let Some(endpoint) = old.routable() {
            self.touched.endpoints.insert(endpoint);
            unlink(&mut self.circuits_of, &endpoint, &id);
        }
        true
    }

    /// Creates a publication or replaces it whole.
    pub fn upsert_publication(&mut self, publication: Publication) -> bool {
        if self.publications.get(&publication.model).is_some_and(|held| **held == publication) {
            return false;
        }
        self.remove_publication(&publication.model);
        let publication = Arc::new(publication);
        self.touch_publication(&publication);
        self.digest.add(digest::of_publication(&publication));
        for mapping in &publication.mappings {
            join(self.publications_of.entry(mapping.endpoint_id).or_default(), &publication);
        }
        for name in publication.names() {
            let mut claimants = self.claims.get(&**name).cloned().unwrap_or_default();
            join(&mut claimants, &publication);
            if claimants.len() > 1 {
                self.contested.insert(name.clone());
            }
            self.claims.put::<str>(name.clone(), claimants);
        }
        self.publications.insert(publication.model.clone(), publication);
        true
    }

    /// Removes a publication by its primary name; an alias removes nothing (worker-protocol 9).
    pub fn remove_publication(&mut self, model: &str) -> bool {
        let Some(old) = self.publications.remove(model) else { return false };
        self.touch_publication(&old);
        self.digest.take(digest::of_publication(&old));
        for mapping in &old.mappings {
            if let Some(held) = self.publications_of.get_mut(&mapping.endpoint_id) {
                held.retain(|one| one.model != old.model);
                if held.is_empty() {
                    self.publications_of.remove(&mapping.endpoint_id);
                }
            }
        }
        for name in old.names() {
            let others = self.claims.get(&**name).into_iter().flatten().filter(|one| one.model != old.model);
            let others: Vec<_> = others.cloned().collect();
            if others.len() < 2 {
                self.contested.remove(name);
            }
            if others.is_empty() {
                self.claims.take(&**name);
            } else {
                self.claims.put::<str>(name.clone(), others);
            }
        }
        true
    }

    /// Creates a key or replaces it whole.
    pub fn upsert_key(&mut self, key: ApiKey) -> bool {
        if self.keys.get(&key.key_id) == Some(&key) {
            return false;
        }
        self.digest.add(digest::of_key(&self.pseudonyms, &key));
        let id = key.key_id.clone();
        let old = self.keys.insert(id.clone(), key);
        if let Some(old) = &old {
            self.digest.take(digest::of_key(&self.pseudonyms, old));
        }
        // The first record stands: it is the hash under which the key was last served.
        self.touched.keys.entry(id).or_insert_with(|| old.map(|old| old.token_hash));
        true
    }

    /// Removes a key.
    pub fn remove_key(&mut self, id: &KeyId) -> bool {
        let Some(old) = self.keys.remove(id) else { return false };
        self.digest.take(digest::of_key(&self.pseudonyms, &old));
        self.touched.keys.entry(id.clone()).or_insert(Some(old.token_hash));
        true
    }

    /// Makes the circuits exactly these.
    pub fn replace_circuits(&mut self, circuits: BTreeMap<CircuitId, Circuit>) {
        let gone: Vec<CircuitId> = self.circuits.keys().filter(|id| !circuits.contains_key(*id)).copied().collect();
        for id in gone {
            self.remove_circuit(id);
        }
        for circuit in circuits.into_values() {
            self.upsert_circuit(circuit);
        }
    }

    /// Makes the publications exactly these; each counts under its own `model`.
    pub fn replace_publications(&mut self, publications: BTreeMap<Arc<str>, Publication>) {
        let gone: Vec<Arc<str>> =
            self.publications.keys().filter(|model| !publications.contains_key(*model)).cloned().collect();
        for model in gone {
            self.remove_publication(&model);
        }
        for publication in publications.into_values() {
            self.upsert_publication(publication);
        }
    }

    /// Makes the keys exactly these. From the first call on keys are loaded, even when there are none.
    pub fn replace_keys(&mut self, keys: BTreeMap<KeyId, ApiKey>) {
        let gone: Vec<KeyId> = self.keys.keys().filter(|id| !keys.contains_key(*id)).cloned().collect();
        for id in gone {
            self.remove_key(&id);
        }
        for key in keys.into_values() {
            self.upsert_key(key);
        }
        if !self.keys_loaded {
            self.keys_loaded = true;
            self.touched.keys_loaded = true;
        }
    }

    /// All circuits, ignored ones included.
    #[must_use]
    pub const fn circuits(&self) -> &BTreeMap<CircuitId, Circuit> {
        &self.circuits
    }

    /// All publications by primary name.
    #[must_use]
    pub const fn publications(&self) -> &BTreeMap<Arc<str>, Arc<Publication>> {
        &self.publications
    }

    /// All keys.
    #[must_use]
    pub const fn keys(&self) -> &BTreeMap<KeyId, ApiKey> {
        &self.keys
    }

    /// Whether a key set ever came.
    #[must_use]
    pub const fn keys_loaded(&self) -> bool {
        self.keys_loaded
    }

    /// The digest of the state as it is now (data-plane 9).
    #[must_use]
    pub const fn digest(&self) -> StateDigest {
        self.digest
    }

    /// The routable circuits of an endpoint, by id.
    pub fn circuits_of(&self, endpoint: EndpointId) -> impl Iterator<Item = &Circuit> {
        self.circuits_of.get(&endpoint).into_iter().flatten().filter_map(|id| self.circuits.get(id))
    }

    /// The publications with a mapping to an endpoint, by primary name.
    pub fn publications_of(&self, endpoint: EndpointId) -> impl Iterator<Item = &Publication> {
        self.publications_of.get(&endpoint).into_iter().flatten().map(AsRef::as_ref)
    }

    /// The publications that claim a name, primary or alias, by primary name.
    pub fn claims(&self, name: &str) -> impl Iterator<Item = &Publication> {
        self.claims.get(name).into_iter().flatten().map(AsRef::as_ref)
    }

    /// Whether several publications claim a name.
    #[must_use]
    pub fn contested(&self, name: &str) -> bool {
        self.contested.contains(name)
    }

    /// Every published name, primaries and aliases, sorted.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.claims.sorted().into_iter().map(|(name, _)| name)
    }

    /// What changed since the last take.
    #[must_use]
    pub fn take_touched(&mut self) -> Touched {
        core::mem::take(&mut self.touched)
    }

    /// Everything, as if it had just come: for a serving state made anew.
    #[must_use]
    pub fn everything(&self) -> Touched {
        let endpoints = self.circuits_of.keys().chain(self.publications_of.keys());
        Touched {
            circuits: self.circuits.keys().copied().collect(),
            endpoints: endpoints.copied().collect(),
            sub_domains: self.sub_domains.keys().cloned().collect(),
            publications: self.publications.keys().cloned().collect(),
            names: self.names().cloned().collect(),
            keys: self.keys.keys().map(|id| (id.clone(), None)).collect(),
            keys_loaded: self.keys_loaded,
        }
    }

    fn touch_publication(&mut self, publication: &Publication) {
        self.touched.publications.insert(publication.model.clone());
        self.touched.endpoints.extend(publication.mappings.iter().map(|mapping| mapping.endpoint_id));
        self.touched.names.extend(publication.names().cloned());
    }
}

impl fmt::Debug for Desired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desired")
            .field("circuits", &self.circuits.len())
            .field("publications", &self.publications.len())
            .field("keys", &self.keys.len())
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

/// Puts a publication into a list kept sorted by primary name.
fn join(list: &mut Vec<Arc<Publication>>, publication: &Arc<Publication>) {
    match list.binary_search_by(|held| held.model.cmp(&publication.model)) {
        Ok(at) => {
            if let Some(held) = list.get_mut(at) {
                *held = publication.clone();
            }
        }
        Err(at) => list.insert(at, publication.clone()),
    }
}

pub(super) fn unlink<K: Ord, V: Ord>(index: &mut BTreeMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(set) = index.get_mut(key) {
        set.remove(value);
        if set.is_empty() {
            index.remove(key);
        }
    }
}
