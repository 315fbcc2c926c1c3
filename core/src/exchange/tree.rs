//! A pool as the draws see it: endpoints, groups, replicas, each level with its parts (worker-protocol 6.1).

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::draw::Draw;
use super::load::{Load, Loads};
use super::rendezvous::{Score, score};
use crate::desired::{Backend, Target};
use crate::serving::{EndpointKey, EndpointPool, GroupKey, GroupPool, ModelPool, RoutingWeights};
use crate::trie::Spread as _;

/// A replica that can be picked.
#[derive(Debug, Clone)]
pub(super) struct Arm {
    pub(super) backend: Arc<Backend>,
    pub(super) load: Arc<Load>,
    /// Its name as a number, the same on every node.
    point: u64,
    /// Its address, read when it is first picked.
    target: OnceLock<Option<Arc<Target>>>,
}

impl Arm {
    /// Its address; `None`: what it is told to be is none.
    pub(super) fn target(&self) -> Option<Arc<Target>> {
        self.target.get_or_init(|| self.backend.target().map(Arc::new)).clone()
    }
}

/// What a pick may end at.
pub(super) type Open<'a> = &'a dyn Fn(&Arm) -> bool;
/// The same, with the arm's share of the pool.
pub(super) type OpenShare<'a> = &'a dyn Fn(&Arm, f64) -> bool;

#[derive(Debug, Clone)]
pub(super) enum Tree {
    /// `routing.weights: normalised`.
    Nested(Draw<EndpointKey>, Vec<EndpointDraw>),
    /// `routing.weights: literal`.
    Flat(ReplicaDraw),
}

#[derive(Debug, Clone)]
pub(super) struct EndpointDraw {
    /// What this was made from; the same object means that nothing changed.
    seen: Arc<EndpointPool>,
    level: Draw<GroupKey>,
    groups: Vec<ReplicaDraw>,
}

/// A level whose children are replicas: those of a group, or of the whole pool.
#[derive(Debug, Clone)]
pub(super) struct ReplicaDraw {
    level: Draw<Arc<str>>,
    arms: Vec<Arm>,
}

impl Tree {
    /// The pool as it is now, with the state of every level that did not change.
    pub(super) fn renewed(before: Option<Self>, pool: &ModelPool, loads: &Loads) -> Self {
        let serving = pool.endpoints.iter().filter(|share| share.ratio > 0.0 && share.endpoint.can_serve());
        match pool.weights {
            RoutingWeights::Normalised => {
                let (level, endpoints) = match before {
                    Some(Self::Nested(level, endpoints)) => (Some(level), endpoints),
                    _ => (None, Vec::new()),
                };
                let mut held: BTreeMap<EndpointKey, EndpointDraw> =
                    endpoints.into_iter().map(|draw| (draw.seen.key, draw)).collect();
                let children = serving.clone().map(|share| (share.endpoint.key, share.ratio)).collect();
                let endpoints = serving
                    .map(|share| EndpointDraw::renewed(held.remove(&share.endpoint.key), &share.endpoint, loads));
                Self::Nested(Draw::renewed(level, children), endpoints.collect())
            }
            RoutingWeights::Literal => {
                let before = match before {
                    Some(Self::Flat(draw)) => Some(draw),
                    _ => None,
                };
                let candidates = serving
                    .flat_map(|share| &share.endpoint.groups)
                    .filter(|group| group.traffic_weight > 0.0)
                    .flat_map(|group| &group.candidates)
                    .filter(|candidate| candidate.weight() > 0.0);
                let weighed = candidates.map(|one| (one.backend.clone(), f64::from(one.backend.weight)));
                Self::Flat(ReplicaDraw::renewed(before, weighed.filter(|(_, weight)| *weight > 0.0).collect(), loads))
            }
        }
    }

    /// As [`Self::renewed`], in place.
    pub(super) fn renew(&mut self, pool: &ModelPool, loads: &Loads) {
        let before = core::mem::replace(self, Self::Nested(Draw::renewed(None, Vec::new()), Vec::new()));
        *self = Self::renewed(Some(before), pool, loads);
    }

    /// The next replica in turn.
    pub(super) fn next(&mut self) -> Option<&Arm> {
        match self {
            Self::Nested(level, endpoints) => endpoints.get_mut(level.next()?)?.next(),
            Self::Flat(draw) => draw.next(),
        }
    }

    /// The next replica in turn among those that are open, apart from [`Self::next`].
    pub(super) fn next_open(&mut self, open: Open<'_>) -> Option<&Arm> {
        match self {
            Self::Nested(level, endpoints) => {
                let at = level.next_open(|at| endpoints.get(at).is_some_and(|endpoint| endpoint.open(open)))?;
                endpoints.get_mut(at)?.next_open(open)
            }
            Self::Flat(draw) => draw.next_open(open),
        }
    }

    /// The open replica that `key` belongs to: of every level the child with the highest score. When a child comes or
    /// goes, only keys that move to it or away from it move.
    pub(super) fn rendezvous(&self, key: u64, open: OpenShare<'_>) -> Option<&Arm> {
        match self {
            Self::Nested(level, endpoints) => {
                let open_child = |at: usize| endpoints.get(at).is_some_and(|one| one.open_share(level.share(at), open));
                let at = best(level, |child| endpoint_point(*child), key, open_child)?;
                endpoints.get(at)?.rendezvous(key, level.share(at), open)
            }
            Self::Flat(draw) => draw.rendezvous(key, 1.0, open),
        }
    }

    /// Every replica with its exact share.
    pub(super) fn each(&self, mut look: impl FnMut(&Arm, f64)) {
        match self {
            Self::Nested(level, endpoints) => {
                for (at, endpoint) in endpoints.iter().enumerate() {
                    for (group_at, group) in endpoint.groups.iter().enumerate() {
                        group.each(level.share(at) * endpoint.level.share(group_at), &mut look);
                    }
                }
            }
            Self::Flat(draw) => draw.each(1.0, &mut look),
        }
    }

    /// The replica of this name.
    pub(super) fn arm(&self, name: &str) -> Option<&Arm> {
        let of = |draw: &'_ ReplicaDraw| draw.arms.iter().position(|arm| *arm.backend.name == *name);
        match self {
            Self::Nested(_, endpoints) => {
                let mut groups = endpoints.iter().flat_map(|endpoint| &endpoint.groups);
                groups.find_map(|group| group.arms.get(of(group)?))
            }
            Self::Flat(draw) => draw.arms.get(of(draw)?),
        }
    }

    /// Whether there is a replica for which this holds.
    pub(super) fn any(&self, is: Open<'_>) -> bool {
        match self {
            Self::Nested(_, endpoints) => endpoints.iter().any(|endpoint| endpoint.open(is)),
            Self::Flat(draw) => draw.open(is),
        }
    }
}

impl EndpointDraw {
    fn renewed(before: Option<Self>, pool: &Arc<EndpointPool>, loads: &Loads) -> Self {
        let (level, groups) = match before {
            Some(before) if Arc::ptr_eq(&before.seen, pool) => return before,
            Some(before) => (Some(before.level), before.groups),
            None => (None, Vec::new()),
        };
        let keys = level.iter().flat_map(|level| level.keys()).copied();
        let mut held: BTreeMap<GroupKey, ReplicaDraw> = keys.zip(groups).collect();
        let serving = pool.groups.iter().filter(|group| group.traffic_weight > 0.0 && group.can_serve());
        let children = serving.clone().map(|group| (group.key, group.traffic_weight)).collect();
        let groups = serving.map(|group| ReplicaDraw::of_group(held.remove(&group.key), group, loads)).collect();
        Self { seen: pool.clone(), level: Draw::renewed(level, children), groups }
    }

    fn open(&self, open: Open<'_>) -> bool {
        self.groups.iter().any(|group| group.open(open))
    }

    fn open_share(&self, part: f64, open: OpenShare<'_>) -> bool {
        let mut groups = self.groups.iter().enumerate();
        groups.any(|(at, group)| group.open_share(part * self.level.share(at), open))
    }

    fn next(&mut self) -> Option<&Arm> {
        self.groups.get_mut(self.level.next()?)?.next()
    }

    fn next_open(&mut self, open: Open<'_>) -> Option<&Arm> {
        let Self { level, groups, .. } = self;
        let at = level.next_open(|at| groups.get(at).is_some_and(|group| group.open(open)))?;
        groups.get_mut(at)?.next_open(open)
    }

    fn rendezvous(&self, key: u64, part: f64, open: OpenShare<'_>) -> Option<&Arm> {
        let part_of = |at: usize| part * self.level.share(at);
        let open_child = |at: usize| self.groups.get(at).is_some_and(|group| group.open_share(part_of(at), open));
        let at = best(&self.level, |child| group_point(*child), key, open_child)?;
        self.groups.get(at)?.rendezvous(key, part_of(at), open)
    }
}

impl ReplicaDraw {
    fn of_group(before: Option<Self>, group: &GroupPool, loads: &Loads) -> Self {
        let serving = group.candidates.iter().filter(|candidate| candidate.weight() > 0.0);
        Self::renewed(before, serving.map(|one| (one.backend.clone(), one.weight())).collect(), loads)
    }

    fn renewed(before: Option<Self>, weighed: Vec<(Arc<Backend>, f64)>, loads: &Loads) -> Self {
        let children = weighed.iter().map(|(backend, weight)| (backend.name.clone(), *weight)).collect();
        let arm = |(backend, _): (Arc<Backend>, f64)| Arm {
            load: loads.of(&backend.name),
            point: backend.name.spread(),
            target: OnceLock::new(),
            backend,
        };
        let arms = weighed.into_iter().map(arm).collect();
        Self { level: Draw::renewed(before.map(|before| before.level), children), arms }
    }

    fn open(&self, open: Open<'_>) -> bool {
        self.arms.iter().any(open)
    }

    fn open_share(&self, part: f64, open: OpenShare<'_>) -> bool {
        self.arms.iter().enumerate().any(|(at, arm)| open(arm, part * self.level.share(at)))
    }

    fn next(&mut self) -> Option<&Arm> {
        self.arms.get(self.level.next()?)
    }

    fn next_open(&mut self, open: Open<'_>) -> Option<&Arm> {
        let Self { level, arms } = self;
        arms.get(level.next_open(|at| arms.get(at).is_some_and(open))?)
    }

    fn rendezvous(&self, key: u64, part: f64, open: OpenShare<'_>) -> Option<&Arm> {
        let open_child = |at: usize| self.arms.get(at).is_some_and(|arm| open(arm, part * self.level.share(at)));
        let mut points = self.arms.iter().map(|arm| arm.point);
        self.arms.get(best(&self.level, |_| points.next().unwrap_or_default(), key, open_child)?)
    }

    fn each(&self, part: f64, look: &mut impl FnMut(&Arm, f64)) {
        for (at, arm) in self.arms.iter().enumerate() {
            look(arm, part * self.level.share(at));
        }
    }
}

/// The open child of a level with the highest score for `key`; of equal ones the first. `point` is asked for each child
/// in turn.
fn best<K: PartialEq>(
    level: &Draw<K>,
    mut point: impl FnMut(&K) -> u64,
    key: u64,
    open: impl Fn(usize) -> bool,
) -> Option<usize> {
    let mut best: Option<(Score, usize)> = None;
    for (at, child) in level.keys().iter().enumerate() {
        let score = score(key, point(child), level.share(at));
        if best.as_ref().is_none_or(|(highest, _)| score > *highest) && open(at) {
            best = Some((score, at));
        }
    }
    best.map(|(_, at)| at)
}

fn endpoint_point(key: EndpointKey) -> u64 {
    match key {
        EndpointKey::Static => 0,
        EndpointKey::Deployment(id) => id.0.spread(),
    }
}

fn group_point(key: GroupKey) -> u64 {
    match key {
        GroupKey::Implicit => 0,
        GroupKey::Listed(id) => id.0.spread(),
    }
}
