//! Which replica takes the next request (data-plane 3.3; worker-protocol 6.1).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::flat::Flat;
use super::load::{Loads, Ticket};
use super::outbound::speaks;
use super::outcome::AttemptRecord;
use super::queue::{Place, WaitQueue};
use super::surface::Surface;
use super::tree::{Arm, Tree};
pub use crate::config::routing::Strategy;
use crate::desired::{Backend, BackendKind, Target};
use crate::serving::{EndpointShare, ModelPool, PoolKey, RoutingWeights, ServingView};
use crate::time::Moment;

/// Replicas may hold this much more than their share of what is in flight before a key is moved on, in percent.
const BOUND_PERCENT: f64 = 125.0;

/// The draws of all pools, and who waits for them. A pick costs a look at each child of the levels it passes
/// (strategies by load, latency or key: at each replica); a pool that changed since its last pick is gone through once.
#[derive(Debug, Default)]
pub struct Selection {
    loads: Loads,
    pools: BTreeMap<PoolKey, PoolDraw>,
    pub(super) queue: WaitQueue,
}

/// What a pick depends on besides the pool.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// `selection_strategy`.
    pub strategy: Strategy,
    /// The attempts of this request so far: their backends are not picked again.
    pub tried: &'a [AttemptRecord],
    /// Whose protocol the replica must speak; `None`: any.
    pub surface: Option<Surface>,
    /// Keeps a client with its replica, whatever the strategy (`routing.affinity_header`).
    pub sticky: Option<u64>,
    /// What `consistent_hash` and `prefix_aware` go by.
    pub key: u64,
    /// 64 random bits.
    pub draw: u64,
    /// `routing.max_in_flight`.
    pub max_in_flight: Option<u32>,
    /// When.
    pub now: Moment,
}

impl Default for Ask<'_> {
    fn default() -> Self {
        Self {
            strategy: Strategy::Weighted,
            tried: &[],
            surface: None,
            sticky: None,
            key: 0,
            draw: 0,
            max_in_flight: None,
            now: Moment::START,
        }
    }
}

impl Ask<'_> {
    fn new_here(&self, arm: &Arm) -> bool {
        !self.tried.iter().any(|attempt| attempt.ended.backend == arm.backend.name)
            && self.surface.is_none_or(|surface| speaks(arm.backend.kind, surface))
    }

    fn has_room(&self, arm: &Arm) -> bool {
        self.max_in_flight.is_none_or(|most| arm.load.in_flight() < most)
    }

    fn open(&self, arm: &Arm) -> bool {
        self.has_room(arm) && self.new_here(arm)
    }
}

/// A replica for a request.
#[derive(Debug)]
pub struct Pick {
    /// The replica.
    pub backend: Arc<Backend>,
    /// The request's place there.
    pub ticket: Ticket,
    /// The replica's address; `None`: what it is told to be is none.
    pub target: Option<Arc<Target>>,
}

impl Pick {
    fn of(arm: &Arm) -> Self {
        Self { backend: arm.backend.clone(), ticket: Ticket::take(&arm.load), target: arm.target() }
    }
}

/// What a pick comes to.
#[derive(Debug)]
pub enum Choice {
    /// This one.
    Picked(Pick),
    /// There are candidates, and all of them are at `routing.max_in_flight`.
    Full,
    /// There are replicas, and none speaks the surface.
    NotSpoken,
    /// No candidate is left.
    Nothing,
}

impl Selection {
    /// Nothing picked yet, with loads of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Nothing picked yet; counts in `loads`. All shards of one node share them.
    #[must_use]
    pub fn counting_in(loads: &Loads) -> Self {
        Self { loads: loads.clone(), ..Self::default() }
    }

    /// Where this counts.
    #[must_use]
    pub const fn loads(&self) -> &Loads {
        &self.loads
    }

    /// The replica for the next attempt of a request that has tried the backends of these names, by the weighted
    /// strategy. `None`: no candidate is left. A part of 0 on any level is never picked, whoever else is missing.
    ///
    /// First attempts (`tried` is empty) keep each endpoint within 2 of its exact share over any window, and each
    /// replica within 4; further attempts are drawn apart and leave that alone.
    pub fn pick(&mut self, pool: &ModelPool, tried: &[Arc<str>]) -> Option<Arc<Backend>> {
        let tried: Vec<AttemptRecord> =
            tried.iter().map(|name| AttemptRecord::begun(name.clone(), Moment::START)).collect();
        match self.choose(pool, &Ask { tried: &tried, ..Ask::default() }) {
            Choice::Picked(pick) => Some(pick.backend),
            Choice::Full | Choice::NotSpoken | Choice::Nothing => None,
        }
    }

    /// The replica for a request's next attempt. A part of 0 on any level is never picked, whoever else is missing.
    pub fn choose(&mut self, pool: &ModelPool, ask: &Ask<'_>) -> Choice {
        let draw = self.draw_of(pool);
        if let Some(arm) = draw.pick(ask) {
            return Choice::Picked(Pick::of(arm));
        }
        if draw.tree.any(&|arm| ask.new_here(arm)) {
            Choice::Full
        } else if ask.surface.is_some_and(|surface| draw.speaks_nothing_of(surface)) {
            Choice::NotSpoken
        } else {
            Choice::Nothing
        }
    }

    /// The replica of this name once more, whatever the strategy and the bounds say. `None`: the pool has it no longer.
    pub(super) fn again(&mut self, pool: &ModelPool, name: &str) -> Option<Pick> {
        self.draw_of(pool).tree.arm(name).map(Pick::of)
    }

    /// The replica that [`Self::choose`] would pick next, with nothing picked.
    #[must_use]
    pub fn look_ahead(&self, pool: &ModelPool, ask: &Ask<'_>) -> Option<Arc<Backend>> {
        let mut draw = match self.pools.get(&pool.key) {
            Some(draw) => draw.clone(),
            None => PoolDraw::new(pool, &self.loads),
        };
        draw.renew(pool, &self.loads);
        draw.pick(ask).map(|arm| arm.backend.clone())
    }

    /// A request of this pool has ended and its ticket is gone: whoever waits at this place should choose again. A place
    /// that nobody waits at any more passes its turn on: ask again.
    pub fn freed(&mut self, pool: &PoolKey, now: Moment) -> Option<Place> {
        self.queue.freed(pool, now)
    }

    /// How many requests wait for a replica.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Lets go of pools that this view does not have, once more are held than it has. Call it with each new view.
    pub fn forget_absent(&mut self, view: &ServingView) {
        let statics = view.static_models().map(|(_, pool)| pool);
        let circuits = view.counts().registry.map_or(0, |counts| counts.known + counts.opaque + counts.held);
        if self.pools.len() > view.counts().names + view.static_models().count() + circuits {
            let circuits = view.registry().circuits().map(|circuit| &circuit.pool);
            let present: BTreeSet<&PoolKey> =
                view.published().map(|(_, pool)| pool).chain(statics).chain(circuits).map(|pool| &pool.key).collect();
            self.pools.retain(|key, _| present.contains(key));
        }
    }

    /// How many pools are held.
    #[must_use]
    pub fn pools(&self) -> usize {
        self.pools.len()
    }

    fn draw_of(&mut self, pool: &ModelPool) -> &mut PoolDraw {
        let Self { loads, pools, .. } = self;
        let draw = pools.entry(pool.key.clone()).or_insert_with(|| PoolDraw::new(pool, loads));
        draw.renew(pool, loads);
        draw
    }
}

#[derive(Debug, Clone)]
struct PoolDraw {
    /// What this was made from; the same object means that nothing changed.
    seen: Arc<[EndpointShare]>,
    weights: RoutingWeights,
    tree: Tree,
    /// Made when a strategy needs it.
    flat: Option<Flat>,
    /// What its replicas speak, each kind once; mostly one.
    kinds: Vec<BackendKind>,
}

impl PoolDraw {
    fn new(pool: &ModelPool, loads: &Loads) -> Self {
        let tree = Tree::renewed(None, pool, loads);
        let kinds = kinds(&tree);
        Self { seen: pool.endpoints.clone(), weights: pool.weights, tree, flat: None, kinds }
    }

    /// The pool as it is now, with the state of every level that did not change.
    fn renew(&mut self, pool: &ModelPool, loads: &Loads) {
        if self.weights == pool.weights && Arc::ptr_eq(&self.seen, &pool.endpoints) {
            return;
        }
        self.tree.renew(pool, loads);
        self.flat = self.flat.take().map(|flat| Flat::renewed(Some(flat), &self.tree));
        self.kinds = kinds(&self.tree);
        (self.seen, self.weights) = (pool.endpoints.clone(), pool.weights);
    }

    fn speaks_nothing_of(&self, surface: Surface) -> bool {
        !self.kinds.is_empty() && !self.kinds.iter().any(|kind| speaks(*kind, surface))
    }

    fn pick(&mut self, ask: &Ask<'_>) -> Option<&Arm> {
        let open = |arm: &Arm| ask.open(arm);
        if let Some(sticky) = ask.sticky {
            return self.tree.rendezvous(sticky, &|arm, _| open(arm));
        }
        let tree = &mut self.tree;
        let constrained = !ask.tried.is_empty()
            || ask.surface.is_some_and(|surface| self.kinds.iter().any(|kind| !speaks(*kind, surface)))
            || (ask.max_in_flight.is_some() && tree.any(&|arm| !ask.has_room(arm)));
        match ask.strategy {
            Strategy::Weighted if constrained => tree.next_open(&open),
            Strategy::Weighted => tree.next(),
            Strategy::ConsistentHash | Strategy::PrefixAware => bounded(tree, ask),
            Strategy::RoundRobin => flat_of(&mut self.flat, tree).round_robin(constrained, &open),
            Strategy::Random => flat_of(&mut self.flat, tree).random(ask.draw, &open),
            Strategy::LeastLatency => flat_of(&mut self.flat, tree).least_latency(ask.draw, ask.now, &open),
            Strategy::LeastLoaded => flat_of(&mut self.flat, tree).least_loaded(ask.draw, &open),
        }
    }
}

/// What the replicas speak, each kind once.
fn kinds(tree: &Tree) -> Vec<BackendKind> {
    let mut kinds = Vec::new();
    tree.each(|arm, _| {
        if !kinds.contains(&arm.backend.kind) {
            kinds.push(arm.backend.kind);
        }
    });
    kinds
}

fn flat_of<'a>(flat: &'a mut Option<Flat>, tree: &Tree) -> &'a mut Flat {
    flat.get_or_insert_with(|| Flat::renewed(None, tree))
}

/// Where the key belongs, or, while that replica holds more than its share of what is in flight, where it would belong
/// without it.
fn bounded<'a>(tree: &'a Tree, ask: &Ask<'_>) -> Option<&'a Arm> {
    let mut in_flight = 0_u64;
    tree.each(|arm, _| in_flight += u64::from(arm.load.in_flight()));
    let most = (in_flight + 1) as f64 * BOUND_PERCENT / 100.0;
    let below = |arm: &Arm, share: f64| f64::from(arm.load.in_flight()) < (most * share).ceil() && ask.open(arm);
    // When the open ones are all above their shares, because others are closed, the key stays where it belongs.
    tree.rendezvous(ask.key, &below).or_else(|| tree.rendezvous(ask.key, &|arm, _| ask.open(arm)))
}

#[cfg(test)]
#[path = "selection_tests.rs"]
mod tests;
