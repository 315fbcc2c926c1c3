//! Who asks, and what they may use: the one decision behind calls, listings and single models (worker-protocol 5.3).

use std::sync::Arc;

use super::control::Node;
use super::denial::{Code, Denial};
use super::quoted::quoted;
use crate::access::ip_list::IpList;
use crate::access::key_store::KeyRecord;
use crate::access::rate_ledger::LedgerKey;
use crate::defects::{Defect, has};
use crate::serving::ModelPool;

/// Who a request comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Holder {
    /// Nobody in particular: no key is needed here.
    Anyone,
    /// A key of the configuration: published and static models.
    Operator(KeyRecord),
    /// A model API key: published models only.
    Published(KeyRecord),
}

impl Holder {
    const fn record(&self) -> Option<&KeyRecord> {
        match self {
            Self::Anyone => None,
            Self::Operator(record) | Self::Published(record) => Some(record),
        }
    }

    pub(super) fn ledger_key(&self) -> Option<LedgerKey> {
        match self {
            Self::Anyone => None,
            Self::Operator(record) => Some(LedgerKey::Operator(record.key_id().clone())),
            Self::Published(record) => Some(LedgerKey::Published(record.key_id().clone())),
        }
    }

    pub(super) fn rate_limit(&self) -> Option<u32> {
        self.record().and_then(KeyRecord::rate_limit)
    }

    pub(super) fn addresses(&self) -> &IpList {
        self.record().map_or(&IpList::Anyone, KeyRecord::addresses)
    }

    /// What serves a name, if this holder may use it; else why not.
    pub(super) fn model<'a>(&self, name: &str, node: Node<'a>) -> Result<&'a Arc<ModelPool>, Denial> {
        let pool = self.pool(name, node).ok_or_else(|| not_found(name))?;
        if self.may_use(name) {
            Ok(pool)
        } else if node.rules.hide_forbidden_models {
            Err(not_found(name))
        } else {
            Err(Denial::new(
                Code::ModelNotAllowed,
                format!("This API key may not use the model {}. Ask for access, or use another model.", quoted(name)),
            ))
        }
    }

    /// Every name this holder may use, sorted.
    pub(super) fn models<'a>(&'a self, node: Node<'a>) -> Vec<&'a Arc<str>> {
        let statics = (!matches!(self, Self::Published(_))).then(|| node.view.static_models().map(|(name, _)| name));
        let mut names: Vec<_> = node
            .view
            .published()
            .map(|(name, _)| name)
            .chain(statics.into_iter().flatten())
            .filter(|name| self.may_use(name) || has(Defect::EverythingListed))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// What serves a name that exists for this holder, allowed or not. Published names come before static ones.
    pub(super) fn pool<'a>(&self, name: &str, node: Node<'a>) -> Option<&'a Arc<ModelPool>> {
        match self {
            Self::Published(_) => node.view.model(name),
            Self::Operator(_) | Self::Anyone => node.view.model(name).or_else(|| node.view.static_model(name)),
        }
    }

    fn may_use(&self, name: &str) -> bool {
        self.record().is_none_or(|record| record.may_use(name))
    }
}

fn not_found(name: &str) -> Denial {
    Denial::new(
        Code::ModelNotFound,
        format!("The model {} does not exist here. GET /v1/models lists the models you may use.", quoted(name)),
    )
}
