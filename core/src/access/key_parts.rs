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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ids::KeyId;
    use crate::wire::key::TokenHash;

    /// A key of a model and a network of its own.
    fn key(number: u32) -> ApiKey {
        ApiKey {
            key_id: KeyId::from("k"),
            token_hash: TokenHash([1; 32]),
            allowed_models: vec![format!("m{number}").into()],
            expires_at: None,
            rate_limit: None,
            allowed_client_ips: Some(vec![format!("10.{}.{}.0/24", number / 256, number % 256)]),
        }
    }

    #[test]
    fn what_keys_hold_stays_shared_and_what_none_holds_goes() {
        let mut parts = KeyParts::default();
        let held: Vec<KeyRecord> = (0..100).map(|number| parts.record(&key(number)).0).collect();
        for passing in 100..5_000 {
            drop(parts.record(&key(passing)));
        }
        for kept in [parts.names.len(), parts.allowed.len(), parts.addresses.len()] {
            assert!((100..1_000).contains(&kept), "{kept} of a kind for 100 keys");
        }
        for (number, first) in (0..).zip(&held) {
            let (again, _) = parts.record(&key(number));
            let (one, other) = (first.allowed_models().unwrap(), again.allowed_models().unwrap());
            assert!(core::ptr::eq(one, other) && core::ptr::eq(first.addresses(), again.addresses()), "key {number}");
            let more = ApiKey { allowed_models: vec![one[0].to_string().into(), "z".into()], ..key(number) };
            assert!(Arc::ptr_eq(&one[0], &parts.record(&more).0.allowed_models().unwrap()[0]), "key {number}");
        }
    }

    #[test]
    fn what_is_in_use_is_looked_through_each_time_it_has_doubled() {
        let mut parts = KeyParts::default();
        let mut thresholds = vec![parts.sweep_at];
        let _held: Vec<KeyRecord> = (0..2_000)
            .map(|number| {
                let (record, _) = parts.record(&key(number));
                if thresholds.last() != Some(&parts.sweep_at) {
                    thresholds.push(parts.sweep_at);
                }
                record
            })
            .collect();
        // Of 6,000 parts: at 1,024, 2,052 and 4,110 of them.
        assert_eq!(thresholds.len(), 4, "{thresholds:?}");
        assert!(thresholds.windows(2).all(|two| two[1] >= 2 * two[0]), "{thresholds:?}");
    }
}
