//! What many keys have in common, held once.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::ip_list::IpList;
use super::key_store::KeyRecord;
use crate::wire::key::ApiKey;

/// Makes key records that share equal lists of names and addresses. Keys of one project mostly look alike, and a list
/// of its own for each of a million keys would outweigh everything else about them.
#[derive(Debug, Default)]
pub struct KeyParts {
    names: BTreeSet<Arc<str>>,
    allowed: BTreeSet<Arc<[Arc<str>]>>,
    addresses: BTreeSet<Arc<IpList>>,
    /// How many are held before those nobody uses any more are let go.
    sweep_at: usize,
}

/// The least number of shared parts that is worth a sweep.
const SWEEP_FROM: usize = 1024;

impl KeyParts {
    /// Packs a key. The second value lists the entries of its address list that could not be read.
    #[must_use]
    pub fn record(&mut self, key: &ApiKey) -> (KeyRecord, Vec<String>) {
        let parsed = IpList::parse(key.allowed_client_ips.iter().flatten().map(String::as_str));
        let mut allowed: Vec<Arc<str>> = key.allowed_models.iter().map(|name| shared(&mut self.names, name)).collect();
        allowed.sort_unstable();
        allowed.dedup();
        let allowed = (!allowed.is_empty()).then(|| shared(&mut self.allowed, &allowed.into()));
        let addresses = match parsed.list {
            IpList::Anyone => None,
            only @ IpList::Only(_) => Some(shared(&mut self.addresses, &Arc::new(only))),
        };
        self.sweep();
        (KeyRecord::pack(key, allowed, addresses), parsed.rejected)
    }

    /// How many parts are held.
    pub(super) fn held(&self) -> usize {
        self.names.len() + self.allowed.len() + self.addresses.len()
    }

    fn sweep(&mut self) {
        if self.held() > self.sweep_at.max(SWEEP_FROM) {
            // Lists before names: a list holds its names.
            self.allowed.retain(|list| Arc::strong_count(list) > 1);
            self.addresses.retain(|list| Arc::strong_count(list) > 1);
            self.names.retain(|name| Arc::strong_count(name) > 1);
            self.sweep_at = 2 * self.held();
        }
    }
}

fn shared<T: ?Sized + Ord>(held: &mut BTreeSet<Arc<T>>, part: &Arc<T>) -> Arc<T> {
    if let Some(same) = held.get(part) {
        return same.clone();
    }
    held.insert(part.clone());
    part.clone()
}
