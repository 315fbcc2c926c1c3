//! Models and circuits in the state: those in trouble first, and no more of them than are asked for.

use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::admin::Desk;
use super::wanted::Wanted;
use crate::exchange::PoolShown;
#[cfg(feature = "appproxy-legacy")]
use crate::serving::{CircuitModel, ServedCircuit};
use crate::serving::{EndpointKey, GroupKey, ModelPool, PoolKey};

/// How a pool is; the worst comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// Nothing of it can take a request.
    CannotServe,
    /// It serves without a replica, or an endpoint, that has a share.
    InTrouble,
    Well,
}

impl Standing {
    fn of(pool: &ModelPool) -> Self {
        let endpoint_out = || pool.endpoints.iter().any(|part| part.ratio > 0.0 && !part.endpoint.can_serve());
        let replica_out = || pool.candidates().any(|one| one.ratio > 0.0 && !one.health.serves());
        match pool.can_serve() {
            false => Self::CannotServe,
            true if endpoint_out() || replica_out() => Self::InTrouble,
            true => Self::Well,
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::CannotServe => "cannot_serve",
            Self::InTrouble => "in_trouble",
            Self::Well => "well",
        }
    }
}

/// What is shown of a list, and how much there is.
pub(super) struct Shown {
    pub(super) list: Value,
    /// All, those that the text is found in, and of these the ones that cannot serve and the ones in trouble.
    pub(super) found: Value,
}

/// Sorts `all`, counts them, and shows as many as are wanted.
fn shown<T>(
    all: impl Iterator<Item = T>,
    wanted: &Wanted,
    pool: impl Fn(&T) -> &ModelPool,
    names: impl Fn(&T) -> Vec<String>,
    show: impl Fn(&T, Standing) -> Value,
) -> Shown {
    let (mut total, mut cannot, mut trouble) = (0_usize, 0_usize, 0_usize);
    let mut found = Vec::new();
    for one in all {
        total += 1;
        let named = wanted.find.is_empty() || wanted.finds(names(&one).into_iter().map(Cow::Owned));
        if !named && !wanted.finds(texts(pool(&one))) {
            continue;
        }
        let standing = Standing::of(pool(&one));
        match standing {
            Standing::CannotServe => cannot += 1,
            Standing::InTrouble => trouble += 1,
            Standing::Well => {}
        }
        found.push((!named, standing, one));
    }
    let counts = json!({"all": total, "found": found.len(), "cannot_serve": cannot, "in_trouble": trouble});
    // What has the text in a name comes before what only has it in an id. Stable: among equals the order of names stays.
    found.sort_by_key(|(elsewhere, standing, _)| (*elsewhere, *standing));
    let wanted_ones = found.iter().filter(|(_, standing, _)| !wanted.trouble || *standing != Standing::Well);
    let list = wanted_ones.take(wanted.most).map(|(_, standing, one)| show(one, *standing)).collect();
    Shown { list, found: counts }
}

/// What a pool is looked for by.
fn texts(pool: &ModelPool) -> impl Iterator<Item = Cow<'_, str>> {
    let no_circuit = pool.no_circuit.iter().map(|id| Cow::Owned(id.to_string()));
    no_circuit.chain(pool.endpoints.iter().flat_map(|part| {
        let endpoint = match part.endpoint.key {
            EndpointKey::Static => Cow::Borrowed("static"),
            EndpointKey::Deployment(id) => Cow::Owned(id.0.to_string()),
        };
        core::iter::once(endpoint).chain(part.endpoint.groups.iter().flat_map(|group| {
            let listed = match group.key {
                GroupKey::Implicit => None,
                GroupKey::Listed(id) => Some(Cow::Owned(id.0.to_string())),
            };
            listed.into_iter().chain(group.candidates.iter().flat_map(|candidate| {
                let name = Cow::Borrowed(&*candidate.backend.name);
                [name, Cow::Owned(candidate.backend.authority()), Cow::Borrowed(candidate.health.label())]
            }))
        }))
    }))
}

/// The names that share a pool once, with what stands behind them.
pub(super) fn models(desk: &Desk<'_>, wanted: &Wanted) -> Shown {
    let mut pools: BTreeMap<&PoolKey, (Vec<&Arc<str>>, &ModelPool)> = BTreeMap::new();
    let view = desk.node.view;
    for (name, pool) in view.published().chain(view.static_models()) {
        pools.entry(&pool.key).or_insert_with(|| (Vec::new(), pool)).0.push(name);
    }
    shown(
        pools.into_values(),
        wanted,
        |(_, pool)| pool,
        |(names, _)| names.iter().map(ToString::to_string).collect(),
        |(names, pool), standing| {
            json!({
                "names": names,
                "standing": standing.label(),
                "can_serve": standing != Standing::CannotServe,
                "pool": PoolShown::of(pool, desk.states.loads()),
                "fallback": names.iter().find_map(|name| desk.node.rules.fallbacks.after(name)),
            })
        },
    )
}

#[cfg(feature = "appproxy-legacy")]
pub(super) fn circuits(desk: &Desk<'_>, wanted: &Wanted) -> Shown {
    let registry = desk.node.view.registry();
    let mut hosts: BTreeMap<_, Vec<&Arc<str>>> = BTreeMap::new();
    registry.sub_domains().for_each(|(name, id)| hosts.entry(id).or_default().push(name));
    let names = |circuit: &&Arc<ServedCircuit>| {
        let own = hosts.get(&circuit.id).into_iter().flatten().map(ToString::to_string);
        let listed = circuit.models().iter().map(ToString::to_string);
        own.chain(listed).chain([circuit.id.to_string()]).collect()
    };
    let show = |circuit: &&Arc<ServedCircuit>, standing: Standing| {
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
            "standing": standing.label(),
            "can_serve": standing != Standing::CannotServe,
            "pool": PoolShown::of(&circuit.pool, desk.states.loads()),
        })
    };
    shown(registry.circuits(), wanted, |circuit| &circuit.pool, names, show)
}
