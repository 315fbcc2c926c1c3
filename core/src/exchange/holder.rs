//! Who asks, and what they may use: the one decision behind calls, listings and single models (worker-protocol 5.3).

use std::sync::Arc;

use super::control::Node;
use super::denial::{Code, Denial};
#[cfg(feature = "appproxy-legacy")]
use super::legacy::Caller;
use super::quoted::quoted;
use crate::access::ip_list::IpList;
use crate::access::key_store::KeyRecord;
use crate::access::rate_ledger::LedgerKey;
use crate::defects::{Defect, has};
use crate::serving::{ModelPool, PoolKey};

/// Who a request comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Holder {
    /// Nobody in particular: no key is needed here.
    Anyone,
    /// A key of the configuration: published and static models.
    Operator(KeyRecord),
    /// A model API key: published models only.
    Published(KeyRecord),
    /// Whoever asks a circuit, or all of them.
    #[cfg(feature = "appproxy-legacy")]
    Caller(Caller),
}

/// What a request may be served by.
#[derive(Debug)]
pub(super) struct Granted<'a> {
    /// The model, as what serves it knows it; empty when none counts.
    pub(super) model: Arc<str>,
    pub(super) pool: &'a Arc<ModelPool>,
    /// Further pools of the same model, for when this one is spent.
    pub(super) siblings: Vec<PoolKey>,
}

impl Holder {
    const fn record(&self) -> Option<&KeyRecord> {
        match self {
            Self::Anyone => None,
            Self::Operator(record) | Self::Published(record) => Some(record),
            #[cfg(feature = "appproxy-legacy")]
            Self::Caller(caller) => caller.operator(),
        }
    }

    pub(super) fn ledger_key(&self) -> Option<LedgerKey> {
        let id = self.record()?.key_id().clone();
        Some(if matches!(self, Self::Published(_)) { LedgerKey::Published(id) } else { LedgerKey::Operator(id) })
    }

    pub(super) fn rate_limit(&self) -> Option<u32> {
        self.record().and_then(KeyRecord::rate_limit)
    }

    pub(super) fn addresses(&self) -> &IpList {
        self.record().map_or(&IpList::Anyone, KeyRecord::addresses)
    }

    /// What serves a name, if this holder may use it; else why not.
    pub(super) fn model<'a>(&self, name: &str, node: Node<'a>) -> Result<&'a Arc<ModelPool>, Denial> {
        match self {
            #[cfg(feature = "appproxy-legacy")]
            Self::Caller(caller) => caller.grant(Some(&Arc::from(name)), 0, node).map(|granted| granted.pool),
            _ if self.may_use(name) => self.pool(name, node).ok_or_else(|| not_found(name)),
            _ if self.pool(name, node).is_some() => Err(forbidden(name, node)),
            _ => Err(not_found(name)),
        }
    }

    /// What serves a request for this model; `None`: it names none, and none counts. `published` is what it resolves to
    /// as a published name, where somebody has looked already. `spread` parts requests over several pools of one model.
    pub(super) fn grant<'a>(
        &self,
        asked: Option<&Arc<str>>,
        published: Option<&'a Arc<ModelPool>>,
        spread: u64,
        node: Node<'a>,
    ) -> Result<Granted<'a>, Denial> {
        match self {
            #[cfg(feature = "appproxy-legacy")]
            Self::Caller(caller) => caller.grant(asked, spread, node),
            _ => {
                let _ = spread;
                let model = asked.cloned().unwrap_or_default();
                let pool = match published {
                    Some(pool) if self.may_use(&model) => pool,
                    _ => self.model(&model, node)?,
                };
                Ok(Granted { model, pool, siblings: Vec::new() })
            }
        }
    }

    /// Whether only one circuit is asked, as its own clients know it: every API passes, and a model that it does not
    /// list becomes its canonical one.
    pub(super) const fn is_pinned(&self) -> bool {
        match self {
            #[cfg(feature = "appproxy-legacy")]
            Self::Caller(caller) => caller.is_pinned(),
            _ => false,
        }
    }

    /// Whether what this holder asks of `pool` goes through as it is: one circuit's, of which nobody knows what it serves.
    pub(super) fn asks_unseen(&self, pool: &PoolKey, node: Node<'_>) -> bool {
        match (self, pool) {
            #[cfg(feature = "appproxy-legacy")]
            (Self::Caller(caller), PoolKey::Circuit(id)) => caller.asks_unseen(*id, node),
            _ => {
                let _ = node;
                false
            }
        }
    }

    /// What is behind `key` now, which was granted under the name of `model`.
    pub(super) fn granted_pool<'a>(&self, key: &PoolKey, model: &str, node: Node<'a>) -> Option<&'a Arc<ModelPool>> {
        match (self, key) {
            #[cfg(feature = "appproxy-legacy")]
            (Self::Caller(caller), PoolKey::Circuit(id)) => caller.circuit_pool(*id, node),
            #[cfg(feature = "appproxy-legacy")]
            (Self::Caller(caller), _) => node.view.static_model(model).filter(|_| caller.operator().is_some()),
            _ => {
                let _ = key;
                self.pool(model, node)
            }
        }
    }

    /// What is behind `key` now, which stands in under the name of `model`.
    pub(super) fn stand_in_pool<'a>(&self, key: &PoolKey, model: &str, node: Node<'a>) -> Option<&'a Arc<ModelPool>> {
        match (self, key) {
            #[cfg(feature = "appproxy-legacy")]
            (Self::Caller(caller), PoolKey::Circuit(id)) => caller.circuit_pool(*id, node),
            #[cfg(feature = "appproxy-legacy")]
            (Self::Caller(_), _) => node.view.static_model(model),
            _ => {
                let _ = key;
                self.stand_in(model, 0, node)
            }
        }
    }

    /// What serves a model of a chain: the operator configured it, and whose key it is does not matter there.
    pub(super) fn stand_in<'a>(&self, model: &str, spread: u64, node: Node<'a>) -> Option<&'a Arc<ModelPool>> {
        match self {
            #[cfg(feature = "appproxy-legacy")]
            Self::Caller(caller) => caller.stand_in(model, spread, node),
            _ => {
                let _ = spread;
                node.view.model(model).or_else(|| node.view.static_model(model))
            }
        }
    }

    /// Every name this holder may use, sorted.
    pub(super) fn models<'a>(&'a self, node: Node<'a>) -> Vec<&'a Arc<str>> {
        let statics = (!matches!(self, Self::Published(_))).then(|| node.view.static_models().map(|(name, _)| name));
        let all: Vec<_> = match self {
            #[cfg(feature = "appproxy-legacy")]
            Self::Caller(caller) => caller.models(node),
            _ => node.view.published().map(|(name, _)| name).chain(statics.into_iter().flatten()).collect(),
        };
        let mut names: Vec<_> =
            all.into_iter().filter(|name| self.may_use(name) || has(Defect::EverythingListed)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// What serves a name that exists for this holder, allowed or not. Published names come before static ones.
    fn pool<'a>(&self, name: &str, node: Node<'a>) -> Option<&'a Arc<ModelPool>> {
        match self {
            Self::Published(_) => node.view.model(name),
            Self::Operator(_) | Self::Anyone => node.view.model(name).or_else(|| node.view.static_model(name)),
            #[cfg(feature = "appproxy-legacy")]
            Self::Caller(_) => None,
        }
    }

    fn may_use(&self, name: &str) -> bool {
        self.record().is_none_or(|record| record.may_use(name))
    }
}

pub(super) fn forbidden(name: &str, node: Node<'_>) -> Denial {
    if node.rules.hide_forbidden_models {
        return not_found(name);
    }
    Denial::new(
        Code::ModelNotAllowed,
        format!("This API key may not use the model {}. Ask for access, or use another model.", quoted(name)),
    )
}

pub(super) fn not_found(name: &str) -> Denial {
    Denial::new(
        Code::ModelNotFound,
        format!("The model {} does not exist here. GET /v1/models lists the models you may use.", quoted(name)),
    )
}
