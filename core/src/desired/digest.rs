//! `desired_state_digest`: equal on all nodes of an authority when they agree (data-plane 9).

use core::fmt;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

use crate::wire::circuit::{AppMode, Circuit, Protocol, ReplicaGroup, Route};
use crate::wire::ids::CircuitId;
use crate::wire::key::{ApiKey, TokenHash};
use crate::wire::publication::{ControlMode, Publication};

/// The sum, modulo 2^128, of one hash per circuit, publication and key. Written as 32 hex digits.
///
/// Sums do not care for order and can be updated: an edit takes the old entity's hash off and puts the new one's on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StateDigest(u128);

impl StateDigest {
    pub(super) fn add(&mut self, entity: Self) {
        self.0 = self.0.wrapping_add(entity.0);
    }

    pub(super) fn take(&mut self, entity: Self) {
        self.0 = self.0.wrapping_sub(entity.0);
    }
}

impl fmt::Display for StateDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for StateDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StateDigest({self})")
    }
}

/// What stands for a key's hash wherever the hash must not be seen: the first 16 bytes of
/// `SHA-256(authority || token_hash)`. The journal writes the same value.
#[must_use]
pub fn pseudonym(authority: &str, hash: &TokenHash) -> [u8; 16] {
    let mut hasher = Sha256::new();
    hasher.update(authority.as_bytes());
    hasher.update(hash.0);
    cut(hasher)
}

/// One circuit's part. The order in which routes and groups were listed does not count.
pub(super) fn of_circuit(circuit: &Circuit) -> StateDigest {
    let mut out = Writer::new("circuit");
    out.bytes(circuit.id.0.as_bytes());
    out.optional(circuit.app.as_deref());
    out.number(protocol_number(circuit.protocol));
    out.number(match circuit.app_mode {
        AppMode::Inference => 0,
        AppMode::Interactive => 1,
        AppMode::Other => 2,
    });
    out.number(u64::from(circuit.open_to_public));
    out.optional(circuit.allowed_client_ips.as_deref());
    out.optional(circuit.subdomain.as_deref());
    out.id(circuit.endpoint_id.map(|id| id.0));
    out.optional(circuit.runtime_variant.as_deref());
    out.optional(circuit.created_at.as_deref());
    out.sorted(circuit.routes.iter().map(|route| of_route(circuit.id, route)));
    out.sorted(circuit.replica_groups.iter().map(of_group));
    out.finish()
}

fn of_route(circuit: CircuitId, route: &Route) -> [u8; 16] {
    let mut out = Writer::new("route");
    out.bytes(circuit.0.as_bytes());
    out.id(route.route_id.map(|id| id.0));
    // Only a route without an id is known by its place.
    out.number(if route.route_id.is_none() { u64::from(route.index) } else { 0 });
    out.id(route.session_id);
    out.optional(route.kernel_host.as_deref());
    out.number(u64::from(route.kernel_port));
    out.number(protocol_number(route.protocol));
    out.number(route.traffic_ratio.sanitised().to_bits());
    out.id(route.replica_group_id.map(|id| id.0));
    cut(out.0)
}

fn of_group(group: &ReplicaGroup) -> [u8; 16] {
    let mut out = Writer::new("group");
    out.bytes(group.id.0.as_bytes());
    out.number(group.traffic_weight.sanitised().to_bits());
    out.optional(group.lifecycle.as_deref());
    cut(out.0)
}

/// One publication's part. The order of aliases and mappings does not count.
pub(super) fn of_publication(publication: &Publication) -> StateDigest {
    let mut out = Writer::new("publication");
    out.bytes(publication.model.as_bytes());
    out.texts(publication.aliases.iter().map(AsRef::as_ref));
    out.sorted(publication.mappings.iter().map(|mapping| {
        let mut part = Writer::new("mapping");
        part.bytes(mapping.endpoint_id.0.as_bytes());
        part.number(mapping.ratio.sanitised().to_bits());
        cut(part.0)
    }));
    out.bytes(match &publication.control_mode {
        ControlMode::Manual => b"manual",
        ControlMode::StrategyManaged => b"strategy_managed",
        ControlMode::Unknown(word) => word.as_bytes(),
    });
    out.finish()
}

/// How the pseudonym of a key's hash is known.
#[derive(Clone)]
pub(super) enum Pseudonyms {
    /// Made from the authority and the hash.
    Made(Arc<str>),
    /// The journal has put it in the hash's place.
    InPlace,
}

impl Pseudonyms {
    fn of(&self, hash: &TokenHash) -> [u8; 16] {
        match self {
            Self::Made(authority) => pseudonym(authority, hash),
            Self::InPlace => {
                let mut half = [0; 16];
                for (to, from) in half.iter_mut().zip(hash.0) {
                    *to = from;
                }
                half
            }
        }
    }
}

/// What stands in a journal in a hash's place: its pseudonym, which the digest of a replayed worker takes as it is.
#[must_use]
pub fn pseudonymised(authority: &str, hash: &TokenHash) -> TokenHash {
    let mut whole = [0; 32];
    for (to, from) in whole.iter_mut().zip(pseudonym(authority, hash)) {
        *to = from;
    }
    TokenHash(whole)
}

/// One key's part: its hash enters as its pseudonym.
pub(super) fn of_key(pseudonyms: &Pseudonyms, key: &ApiKey) -> StateDigest {
    let mut out = Writer::new("key");
    out.bytes(key.key_id.as_str().as_bytes());
    out.bytes(&pseudonyms.of(&key.token_hash));
    out.texts(key.allowed_models.iter().map(AsRef::as_ref));
    out.number(u64::from(key.expires_at.is_some()));
    out.bytes(&key.expires_at.map_or(0, |at| at.0).to_le_bytes());
    out.number(key.rate_limit.map_or(u64::MAX, u64::from));
    out.number(u64::from(key.allowed_client_ips.is_some()));
    out.texts(key.allowed_client_ips.iter().flatten().map(String::as_str));
    out.finish()
}

fn protocol_number(protocol: Protocol) -> u64 {
    match protocol {
        Protocol::Http => 0,
        Protocol::Other => 1,
    }
}

fn cut(hasher: Sha256) -> [u8; 16] {
    let mut half = [0; 16];
    for (to, from) in half.iter_mut().zip(hasher.finalize()) {
        *to = from;
    }
    half
}

/// Feeds fields into a hash so that no two field lists read alike: every field carries its length.
struct Writer(Sha256);

impl Writer {
    fn new(tag: &str) -> Self {
        let mut out = Self(Sha256::new());
        out.bytes(tag.as_bytes());
        out
    }

    fn number(&mut self, number: u64) {
        self.0.update(number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.update(bytes);
    }

    fn optional(&mut self, text: Option<&str>) {
        self.number(u64::from(text.is_some()));
        self.bytes(text.unwrap_or_default().as_bytes());
    }

    fn id(&mut self, id: Option<uuid::Uuid>) {
        self.number(u64::from(id.is_some()));
        self.0.update(id.unwrap_or_default().as_bytes());
    }

    fn texts<'a>(&mut self, texts: impl Iterator<Item = &'a str>) {
        let mut texts: Vec<&str> = texts.collect();
        texts.sort_unstable();
        texts.dedup();
        self.number(texts.len() as u64);
        for text in texts {
            self.bytes(text.as_bytes());
        }
    }

    fn sorted(&mut self, parts: impl Iterator<Item = [u8; 16]>) {
        let mut parts: Vec<[u8; 16]> = parts.collect();
        parts.sort_unstable();
        self.number(parts.len() as u64);
        for part in parts {
            self.0.update(part);
        }
    }

    fn finish(self) -> StateDigest {
        StateDigest(u128::from_be_bytes(cut(self.0)))
    }
}
