//! `/admin/state`: everything the status page shows, as JSON, without a secret in it.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::admin::Desk;
use crate::access::key_store::KeyRecord;
use crate::access::rate_ledger::LedgerKey;
use crate::defects::{Defect, has};
use crate::exchange::{Control, Page, PoolShown, page};
use crate::limits;
#[cfg(feature = "appproxy-legacy")]
use crate::serving::{CircuitModel, ServedCircuit};
use crate::serving::{ModelPool, PoolKey};
use crate::time::Moment;

/// The whole state of this node now. Keys are shown up to [`limits::KEYS_SHOWN`], the operator's own first; `counts.keys` and
/// `operator_keys` have their numbers.
pub(super) fn state(desk: &Desk<'_>) -> Value {
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
        fields.insert("models".to_owned(), models(desk));
        #[cfg(feature = "appproxy-legacy")]
        fields.insert("circuits".to_owned(), circuits(desk));
        fields.insert("keys".to_owned(), keys(desk));
        fields.insert("operator_keys".to_owned(), node.rules.operator_keys.len().into());
        fields.insert("notices".to_owned(), notices(desk));
    }
    shown
}

/// The names that share a pool once, with what stands behind them.
fn models(desk: &Desk<'_>) -> Value {
    let mut pools: BTreeMap<&PoolKey, (Vec<&Arc<str>>, &ModelPool)> = BTreeMap::new();
    let view = desk.node.view;
    for (name, pool) in view.published().chain(view.static_models()) {
        pools.entry(&pool.key).or_insert_with(|| (Vec::new(), pool)).0.push(name);
    }
    let shown = pools.into_values().map(|(names, pool)| {
        json!({
            "names": names,
            "can_serve": pool.can_serve(),
            "pool": PoolShown::of(pool, desk.states.loads()),
            "fallback": names.iter().find_map(|name| desk.node.rules.fallbacks.after(name)),
        })
    });
    shown.collect()
}

#[cfg(feature = "appproxy-legacy")]
fn circuits(desk: &Desk<'_>) -> Value {
    let registry = desk.node.view.registry();
    let mut hosts: BTreeMap<_, Vec<&Arc<str>>> = BTreeMap::new();
    registry.sub_domains().for_each(|(name, id)| hosts.entry(id).or_default().push(name));
    let shown = |circuit: &Arc<ServedCircuit>| {
        let model = match &circuit.model {
            CircuitModel::Held => "not known yet",
            CircuitModel::Opaque => "lists no models",
            CircuitModel::Known { canonical, .. } => canonical,
        };
        json!({
            "circuit": circuit.id,
            "sub_domains": hosts.get(&circuit.id),
            "open_to_public": circuit.open_to_public,
            "model": model,
            "lists": circuit.models(),
            "can_serve": circuit.pool.can_serve(),
            "pool": PoolShown::of(&circuit.pool, desk.states.loads()),
        })
    };
    registry.circuits().map(shown).collect()
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

/// The operator's own keys, then those of the coordinator.
fn keys(desk: &Desk<'_>) -> Value {
    let node = desk.node;
    let own = node.rules.operator_keys.iter().map(|key| (key, true));
    let all = own.chain(node.view.keys().iter().map(|key| (key, false)));
    all.take(limits::KEYS_SHOWN).map(|(key, own)| shown_key(desk, key, own)).collect()
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
