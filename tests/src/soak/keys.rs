//! Keys that are revoked and issued while they are used, and what is known of each at any time.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use appproxy_core::seed::Draws;
use serde_json::{Value, json};

use super::{PULL, Shared};
use crate::world::{AUTHORITY, hash};

/// The key that is never touched.
pub(super) const STEADY: &str = "sk-steady";
/// Keys that come and go.
const SLOTS: usize = 8;
/// What a pull may take beyond its interval: it is asked for, applied, and may have to be asked again.
const MARGIN: Duration = Duration::from_secs(8);

/// What a request with a key must have met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opinion {
    /// It was good from before the request began until now.
    Good,
    /// It was revoked, surely, before the request began.
    Revoked,
    /// Something was under way.
    Open,
}

#[derive(Debug, Clone)]
struct Slot {
    key: String,
    good: bool,
    /// When the state was surely in force; before that either answer is right. `None`: a change is under way.
    since: Option<Instant>,
}

/// All that come and go.
#[derive(Debug)]
pub(super) struct Keys(Mutex<Vec<Slot>>);

impl Keys {
    pub(super) fn new() -> Self {
        let slot = |number| Slot { key: format!("sk-changing-{number}"), good: false, since: None };
        Self(Mutex::new((0..SLOTS).map(slot).collect()))
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The steady key mostly, else one of the others, with its place.
    pub(super) fn some(&self, draws: &mut Draws) -> (String, Option<usize>) {
        let at = usize::try_from(draws.next_u64() % 32).unwrap_or(0);
        match self.slots().get(at) {
            Some(slot) => (slot.key.clone(), Some(at)),
            None => (STEADY.to_owned(), None),
        }
    }

    /// What is known of the key for a request that began then and was answered now.
    pub(super) fn opinion(&self, slot: Option<usize>, began: Instant) -> Opinion {
        let Some(at) = slot else { return Opinion::Good };
        match self.slots().get(at) {
            Some(Slot { good, since: Some(since), .. }) if *since < began => {
                if *good {
                    Opinion::Good
                } else {
                    Opinion::Revoked
                }
            }
            _ => Opinion::Open,
        }
    }
}

/// Revokes and issues one key after the other.
pub(super) fn change(shared: &Shared, mut draws: Draws, _: &[Vec<u16>]) {
    while !shared.stopped() {
        thread::sleep(Duration::from_millis(100 + draws.next_u64() % 400));
        let at = usize::try_from(draws.next_u64()).unwrap_or(0) % SLOTS;
        let Some(slot) = shared.keys.slots().get_mut(at).map(|slot| {
            slot.since = None;
            slot.clone()
        }) else {
            continue;
        };
        let path = format!("/v2/routers/{AUTHORITY}/api-keys/changing-{at}");
        let sure = if slot.good {
            let answer = shared.manage("DELETE", &format!("{path}?strict=true"), &Value::Null);
            answer.map(|answer| answer["unconfirmed"].as_array().is_some_and(Vec::is_empty))
        } else {
            let answer = shared.manage("PUT", &path, &json!({"token_hash": hash(&slot.key)}));
            answer.map(|answer| answer["status"] == "acked")
        };
        shared.key_changes.fetch_add(1, Ordering::Relaxed);
        // A call that failed may have changed something or nothing: tried again, with either answer right until then.
        let Some(sure) = sure else { continue };
        let now = Instant::now();
        let since = if sure { now } else { now + PULL + MARGIN };
        if let Some(slot) = shared.keys.slots().get_mut(at) {
            (slot.good, slot.since) = (!slot.good, Some(since));
        }
    }
}
