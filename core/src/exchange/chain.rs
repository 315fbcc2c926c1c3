//! What a request goes on to when the replicas of its model are spent: other pools of the model, then other models
//! (data-plane 3.6, 9).

use std::sync::Arc;

use super::choosing::{Tries, serving};
use super::control::Node;
use super::outbound::speaks;
use super::passage::Passage;
use crate::serving::{ModelPool, PoolKey};

/// How far the chain was gone along.
#[derive(Debug)]
pub(super) enum Fallback {
    /// The model asked for is served, or tried.
    NotYet,
    /// Models of `order` before `next` were tried or missing; `pools` are those that were tried.
    At { order: Arc<[Arc<str>]>, next: usize, pools: Vec<PoolKey> },
}

impl Tries {
    /// Takes the next pool of the same model that has a candidate, if there is one.
    pub(super) fn next_sibling(&mut self, node: Node<'_>) -> bool {
        while let Some(key) = self.passage.wanted.siblings.pop() {
            let pool = self.passage.holder.granted_pool(&key, &self.passage.wanted.model, node);
            if pool.is_some_and(|pool| self.untried(pool)) {
                self.passage.wanted.pool = key;
                self.passage.wanted.granted = None;
                self.same = None;
                return true;
            }
        }
        false
    }

    /// Takes the next pool of the same model, or else the next model of the chain, that has a candidate, if there is one.
    pub(super) fn move_on(&mut self, node: Node<'_>) -> bool {
        if self.next_sibling(node) {
            return true;
        }
        let (order, mut next, mut pools) = match &mut self.fallback {
            Fallback::At { order, next, pools } => (order.clone(), *next, core::mem::take(pools)),
            Fallback::NotYet => match chain_of(&self.passage, node) {
                Some(order) => (order.clone(), 0, Vec::new()),
                None => return false,
            },
        };
        pools.push(self.passage.wanted.pool.clone());
        let found = self.stand_in(&order, next, &pools, node);
        next = order.len();
        let is_found = found.is_some();
        if let Some((at, model, pool)) = found {
            next = at + 1;
            self.passage.wanted.model = model.clone();
            self.passage.wanted.pool = pool;
            self.passage.wanted.granted = None;
            self.trail().fallback = Some(model);
            self.retries = 0;
            self.same = None;
        }
        self.fallback = Fallback::At { order, next, pools };
        is_found
    }

    /// The next model of the chain, from place `next` on, that has a candidate in another pool than these: its place, its
    /// name, its pool.
    fn stand_in(
        &self,
        order: &[Arc<str>],
        next: usize,
        pools: &[PoolKey],
        node: Node<'_>,
    ) -> Option<(usize, Arc<str>, PoolKey)> {
        let Passage { holder, wanted, .. } = &*self.passage;
        order.iter().enumerate().skip(next).find_map(|(at, model)| {
            let pool = holder.stand_in(model, wanted.spread, node)?;
            let is_open = !pools.contains(&pool.key) && self.untried_stand_in(pool);
            is_open.then(|| (at, model.clone(), pool.key.clone()))
        })
    }

    /// Whether the model that was asked for may be asked once more with the budget spent: a stand-in would be asked
    /// otherwise, which is as much load, and another model.
    pub(super) fn may_replace_a_stand_in(&self, node: Node<'_>) -> bool {
        let is_asked_for = matches!(self.fallback, Fallback::NotYet) && !self.beyond_budget;
        let own = core::slice::from_ref(&self.passage.wanted.pool);
        is_asked_for && chain_of(&self.passage, node).is_some_and(|order| self.stand_in(order, 0, own, node).is_some())
    }

    /// The same for what is no pool of the model that was asked for.
    fn untried_stand_in(&self, pool: &ModelPool) -> bool {
        let surface = self.passage.trail.surface;
        serving(pool).any(|backend| speaks(backend.kind, surface) && !self.tried(backend))
    }
}

/// The chain of a request.
fn chain_of<'a>(passage: &Passage, node: Node<'a>) -> Option<&'a Arc<[Arc<str>]>> {
    // What names no model has nothing that could stand in for it.
    if passage.is_raw() {
        return None;
    }
    chain_after(&passage.wanted.model, &passage.wanted.pool, node)
}

/// The models after the one asked for; those of the primary name stand in for its aliases as well, those of a circuit's
/// canonical model for all that it lists.
pub(super) fn chain_after<'a>(model: &str, pool: &PoolKey, node: Node<'a>) -> Option<&'a Arc<[Arc<str>]>> {
    let fallbacks = &node.rules.fallbacks;
    fallbacks.after(model).or_else(|| match pool {
        PoolKey::Publication(primary) => fallbacks.after(primary),
        PoolKey::Circuit(id) => fallbacks.after(node.view.registry().circuit(*id)?.canonical()?),
        PoolKey::Contested(_) | PoolKey::Static(_) => None,
    })
}

#[cfg(test)]
#[cfg(feature = "appproxy-router")]
#[path = "chain_tests.rs"]
mod tests;
