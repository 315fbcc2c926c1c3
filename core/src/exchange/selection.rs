//! Which replica takes the next request: the nested weighted draw (worker-protocol 6.1).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::draw::Draw;
use crate::desired::Backend;
use crate::serving::{
    EndpointKey, EndpointPool, EndpointShare, GroupKey, GroupPool, ModelPool, PoolKey, RoutingWeights, ServingView,
};

/// The draws of all pools. A pick costs a look at each child of the levels it passes; a pool that changed since its
/// last pick is gone through once.
#[derive(Debug, Default)]
pub struct Selection {
    pools: BTreeMap<PoolKey, PoolDraw>,
}

impl Selection {
    /// Nothing picked yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The replica for the next attempt of a request that has tried the backends of these names. `None`: no candidate
    /// is left. A part of 0 on any level is never picked, whoever else is missing.
    ///
    /// First attempts (`tried` is empty) keep each endpoint within 2 of its exact share over any window, and each
    /// replica within 4; further attempts are drawn apart and leave that alone.
    pub fn pick(&mut self, pool: &ModelPool, tried: &[Arc<str>]) -> Option<Arc<Backend>> {
        match self.pools.get_mut(&pool.key) {
            Some(draw) if draw.fits(pool) => draw.pick(tried),
            _ => {
                let draw = PoolDraw::renewed(self.pools.remove(&pool.key), pool);
                self.pools.entry(pool.key.clone()).or_insert(draw).pick(tried)
            }
        }
    }

    /// Lets go of pools that this view does not have, once more are held than it has. Call it with each new view.
    pub fn forget_absent(&mut self, view: &ServingView) {
        let statics = view.static_models().map(|(_, pool)| pool);
        if self.pools.len() > view.counts().names + view.static_models().count() {
            let present: BTreeSet<&PoolKey> =
                view.published().map(|(_, pool)| pool).chain(statics).map(|pool| &pool.key).collect();
            self.pools.retain(|key, _| present.contains(key));
        }
    }

    /// How many pools are held.
    #[must_use]
    pub fn pools(&self) -> usize {
        self.pools.len()
    }
}

#[derive(Debug)]
struct PoolDraw {
    /// What this was made from; the same object means that nothing changed.
    seen: Arc<[EndpointShare]>,
    weights: RoutingWeights,
    shape: Shape,
}

#[derive(Debug)]
enum Shape {
    Nested(Draw<EndpointKey>, Vec<EndpointDraw>),
    Flat(ReplicaDraw),
}

#[derive(Debug)]
struct EndpointDraw {
    seen: Arc<EndpointPool>,
    level: Draw<GroupKey>,
    groups: Vec<ReplicaDraw>,
}

/// A level whose children are replicas: those of a group, or of the whole pool.
#[derive(Debug)]
struct ReplicaDraw {
    level: Draw<Arc<str>>,
    backends: Vec<Arc<Backend>>,
}

impl PoolDraw {
    fn fits(&self, pool: &ModelPool) -> bool {
        self.weights == pool.weights && Arc::ptr_eq(&self.seen, &pool.endpoints)
    }

    /// The pool as it is now, with the state of every level that did not change.
    fn renewed(before: Option<Self>, pool: &ModelPool) -> Self {
        let before = before.map(|before| before.shape);
        let serving = pool.endpoints.iter().filter(|share| share.ratio > 0.0 && share.endpoint.can_serve());
        let shape = match pool.weights {
            RoutingWeights::Normalised => {
                let (level, endpoints) = match before {
                    Some(Shape::Nested(level, endpoints)) => (Some(level), endpoints),
                    _ => (None, Vec::new()),
                };
                let mut held: BTreeMap<EndpointKey, EndpointDraw> =
                    endpoints.into_iter().map(|draw| (draw.seen.key, draw)).collect();
                let children = serving.clone().map(|share| (share.endpoint.key, share.ratio)).collect();
                let endpoints =
                    serving.map(|share| EndpointDraw::renewed(held.remove(&share.endpoint.key), &share.endpoint));
                Shape::Nested(Draw::renewed(level, children), endpoints.collect())
            }
            RoutingWeights::Literal => {
                let before = match before {
                    Some(Shape::Flat(draw)) => Some(draw),
                    _ => None,
                };
                let candidates = serving
                    .flat_map(|share| &share.endpoint.groups)
                    .filter(|group| group.traffic_weight > 0.0)
                    .flat_map(|group| &group.candidates)
                    .filter(|candidate| candidate.weight() > 0.0);
                let weighed = candidates.map(|one| (one.backend.clone(), f64::from(one.backend.weight)));
                Shape::Flat(ReplicaDraw::renewed(before, weighed.filter(|(_, weight)| *weight > 0.0).collect()))
            }
        };
        Self { seen: pool.endpoints.clone(), weights: pool.weights, shape }
    }

    fn pick(&mut self, tried: &[Arc<str>]) -> Option<Arc<Backend>> {
        match &mut self.shape {
            Shape::Nested(level, endpoints) => {
                let open = |at: usize| endpoints.get(at).is_some_and(|endpoint| endpoint.open(tried));
                let at = if tried.is_empty() { level.next() } else { level.next_open(open) };
                endpoints.get_mut(at?)?.pick(tried)
            }
            Shape::Flat(draw) => draw.pick(tried),
        }
    }
}

impl EndpointDraw {
    fn renewed(before: Option<Self>, pool: &Arc<EndpointPool>) -> Self {
        let (level, groups) = match before {
            Some(before) if Arc::ptr_eq(&before.seen, pool) => return before,
            Some(before) => (Some(before.level), before.groups),
            None => (None, Vec::new()),
        };
        let keys = level.iter().flat_map(|level| level.keys()).copied();
        let mut held: BTreeMap<GroupKey, ReplicaDraw> = keys.zip(groups).collect();
        let serving = pool.groups.iter().filter(|group| group.traffic_weight > 0.0 && group.can_serve());
        let children = serving.clone().map(|group| (group.key, group.traffic_weight)).collect();
        let groups = serving.map(|group| ReplicaDraw::of_group(held.remove(&group.key), group)).collect();
        Self { seen: pool.clone(), level: Draw::renewed(level, children), groups }
    }

    fn open(&self, tried: &[Arc<str>]) -> bool {
        self.groups.iter().any(|group| group.open(tried))
    }

    fn pick(&mut self, tried: &[Arc<str>]) -> Option<Arc<Backend>> {
        let Self { level, groups, .. } = self;
        let open = |at: usize| groups.get(at).is_some_and(|group| group.open(tried));
        let at = if tried.is_empty() { level.next() } else { level.next_open(open) };
        groups.get_mut(at?)?.pick(tried)
    }
}

impl ReplicaDraw {
    fn of_group(before: Option<Self>, group: &GroupPool) -> Self {
        let serving = group.candidates.iter().filter(|candidate| candidate.weight() > 0.0);
        Self::renewed(before, serving.map(|one| (one.backend.clone(), one.weight())).collect())
    }

    fn renewed(before: Option<Self>, weighed: Vec<(Arc<Backend>, f64)>) -> Self {
        let children = weighed.iter().map(|(backend, weight)| (backend.name.clone(), *weight)).collect();
        let backends = weighed.into_iter().map(|(backend, _)| backend).collect();
        Self { level: Draw::renewed(before.map(|before| before.level), children), backends }
    }

    fn open(&self, tried: &[Arc<str>]) -> bool {
        self.backends.iter().any(|backend| !is_tried(backend, tried))
    }

    fn pick(&mut self, tried: &[Arc<str>]) -> Option<Arc<Backend>> {
        let Self { level, backends } = self;
        let open = |at: usize| backends.get(at).is_some_and(|backend| !is_tried(backend, tried));
        let at = if tried.is_empty() { level.next() } else { level.next_open(open) };
        backends.get(at?).cloned()
    }
}

fn is_tried(backend: &Backend, tried: &[Arc<str>]) -> bool {
    tried.iter().any(|name| **name == *backend.name)
}
