//! `/admin/state`: everything the status page shows, as JSON, without a secret in it.

use serde_json::{Map, Value, json};
use std::borrow::Cow;

use super::admin::Desk;
#[cfg(feature = "appproxy-legacy")]
use super::state_pools::circuits;
use super::state_pools::{Shown, models};
use super::wanted::Wanted;
use crate::access::key_store::KeyRecord;
use crate::access::rate_ledger::LedgerKey;
use crate::defects::{Defect, has};
use crate::exchange::{Control, Page, page};
use crate::time::Moment;

/// The state of this node now, as much of it as is wanted. Keys are shown up to [`crate::limits::KEYS_SHOWN`], the operator's
/// own first, models and circuits from the worst; `found` says how many there are.
pub(super) fn state(desk: &Desk<'_>, wanted: &Wanted) -> Value {
    let node = desk.node;
    let (_, mut shown) = page(Page::Status, node);
    let (_, health) = page(Page::Health, node);
    let leaving = node.control.leaving();
    let kind = match node.control {
        Control::Alone { .. } => "plain router",
        #[cfg(feature = "appproxy-common")]
        Control::Worker { .. } if node.view.counts().registry.is_some() => "wildcard worker",
        #[cfg(feature = "appproxy-common")]
        Control::Worker { .. } => "ROUTER worker",
        Control::Unknown => "starting",
    };
    if let Some(fields) = shown.as_object_mut() {
        fields.insert("kind".to_owned(), kind.into());
        fields.insert("leaving".to_owned(), leaving.into());
        fields.insert("health".to_owned(), health);
        fields.insert("config_refusal".to_owned(), config_refusal(desk));
        fields.insert("requests_in_flight".to_owned(), desk.metrics.in_flight.get().into());
        fields.insert("connections".to_owned(), desk.metrics.connections.get().into());
        let mut found = Map::new();
        for (name, shown) in [
            ("models", models(desk, wanted)),
            #[cfg(feature = "appproxy-legacy")]
            ("circuits", circuits(desk, wanted)),
            ("keys", keys(desk, wanted)),
        ] {
            fields.insert(name.to_owned(), shown.list);
            found.insert(name.to_owned(), shown.found);
        }
        fields.insert("found".to_owned(), found.into());
        fields.insert("operator_keys".to_owned(), node.rules.operator_keys.len().into());
        fields.insert("notices".to_owned(), notices(desk));
    }
    shown
}

/// Why the configuration file was refused, while it is.
fn config_refusal(desk: &Desk<'_>) -> Value {
    desk.metrics.refusal().map_or(
        Value::Null,
        |refusal| json!({"seconds_ago": seconds_since(desk, Some(refusal.at)), "problems": refusal.problems}),
    )
}

fn seconds_since(desk: &Desk<'_>, moment: Option<Moment>) -> Option<u64> {
    moment.map(|at| desk.node.now.moment.since(at).as_secs())
}

/// The operator's own keys, then those of the coordinator, each by id.
fn keys(desk: &Desk<'_>, wanted: &Wanted) -> Shown {
    let node = desk.node;
    let own = node.rules.operator_keys.iter().map(|key| (false, key));
    let all = own.chain(node.view.keys().iter().map(|key| (true, key)));
    let mut found: Vec<_> =
        all.filter(|(_, key)| wanted.finds(core::iter::once(Cow::Borrowed(key.key_id().as_str())))).collect();
    let total = node.rules.operator_keys.len() + node.view.keys().len();
    let counts = json!({"all": total, "found": found.len()});
    // Of a hundred thousand only those that are shown are put in order.
    let by_id = |(theirs, key): &(bool, &KeyRecord)| (*theirs, key.key_id().clone());
    let most = wanted.keys();
    if most < found.len() {
        found.select_nth_unstable_by(most, |one, other| (one.0, one.1.key_id()).cmp(&(other.0, other.1.key_id())));
        found.truncate(most);
    }
    found.sort_by_cached_key(by_id);
    let list = found.into_iter().map(|(theirs, key)| shown_key(desk, key, !theirs)).collect();
    Shown { list, found: counts }
}

fn shown_key(desk: &Desk<'_>, key: &KeyRecord, own: bool) -> Value {
    let id = key.key_id().clone();
    let ledger_key = if own { LedgerKey::Operator(id) } else { LedgerKey::Published(id) };
    let mut told = json!({
        "id": key.key_id(),
        "of": if own { "operator" } else { "coordinator" },
        "allowed_models": key.allowed_models(),
        "rate_limit": key.rate_limit(),
        "expires_at_ms": key.expires_at(),
        "expired": key.expired(desk.node.now.wall),
        "restricted_to_addresses": !key.addresses().is_anyone(),
        "last_seen_seconds_ago": seconds_since(desk, desk.metrics.last_seen(&ledger_key)),
    });
    if has(Defect::StateTellsHashes) {
        told["token_hash"] = json!(key.token_hash());
    }
    told
}

fn notices(desk: &Desk<'_>) -> Value {
    let now = desk.node.now.moment;
    let shown = |noticed: &super::notices::Noticed| {
        json!({
            "seconds_ago": now.since(noticed.at).as_secs(),
            "severity": noticed.severity,
            "code": noticed.code,
            "text": noticed.text,
        })
    };
    desk.metrics.notices().newest_first().map(shown).collect()
}
