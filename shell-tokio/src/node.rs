//! What requests and the control loop share: the view in force, the rules, the counts. Every lock is held for one call.

use core::time::Duration;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use appproxy_core::access::rate_ledger::RateLedger;
use appproxy_core::exchange::selection::Selection;
use appproxy_core::exchange::{self, Control, ExchangeRules, Loads, RetryBudget};
use appproxy_core::seed::Draws;
#[cfg(feature = "appproxy-common")]
use appproxy_core::serving::ChangeSet;
use appproxy_core::serving::{ExchangeEnded, ServingView};
use appproxy_core::time::Moment;
use arc_swap::{ArcSwap, Guard};

use crate::attempts::Calls;
use crate::body::Bounds;
use crate::clock::Clock;
use crate::metrics::{Levels, Metrics};
use crate::shutdown::Phases;
use crate::upstream::Upstream;
use crate::witness::Witness;

/// How many parts the per-model, per-key and per-request states are cut into, so that cores do not queue at one lock.
const SHARDS: usize = 16;

/// A refused credential is said at most this often for each backend; all are counted.
const ALARM_EVERY: Duration = Duration::from_secs(60);

/// This node.
pub(crate) struct Node {
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) phases: Phases,
    upstream: ArcSwap<Upstream>,
    bodies: ArcSwap<Bounds>,
    in_force: ArcSwap<InForce>,
    situation: ArcSwap<Control>,
    selections: [Mutex<Selection>; SHARDS],
    #[cfg(feature = "appproxy-common")]
    loads: Loads,
    budget: Mutex<RetryBudget>,
    pub(crate) calls: Calls,
    witness: Witness,
    /// When each backend's refused credential was last said. Only configured backends have one.
    alarms: Mutex<BTreeMap<Arc<str>, Moment>>,
    ledgers: [Mutex<RateLedger>; SHARDS],
    draws: [Mutex<Draws>; SHARDS],
    next_draw: AtomicUsize,
}

/// What requests go by: swapped together, so that none sees half of a change.
#[derive(Clone)]
struct InForce {
    rules: Arc<ExchangeRules>,
    view: Arc<ServingView>,
}

/// What a node is made of.
pub(crate) struct Parts {
    pub(crate) clock: Clock,
    pub(crate) upstream: Upstream,
    pub(crate) bodies: Bounds,
    pub(crate) rules: ExchangeRules,
    /// How it stands at first.
    pub(crate) situation: Control,
    pub(crate) view: Arc<ServingView>,
    pub(crate) witness: Witness,
    pub(crate) draws: Draws,
}

impl Node {
    /// A node that serves `view`.
    pub(crate) fn new(mut parts: Parts) -> Self {
        let loads = Loads::new();
        Self {
            clock: parts.clock,
            metrics: Metrics::default(),
            phases: Phases::default(),
            upstream: ArcSwap::from_pointee(parts.upstream),
            bodies: ArcSwap::from_pointee(parts.bodies),
            in_force: ArcSwap::from_pointee(InForce { rules: Arc::new(parts.rules), view: parts.view }),
            situation: ArcSwap::from_pointee(parts.situation),
            selections: core::array::from_fn(|_| Mutex::new(Selection::counting_in(&loads))),
            #[cfg(feature = "appproxy-common")]
            loads,
            budget: Mutex::default(),
            calls: Calls::default(),
            witness: parts.witness,
            alarms: Mutex::default(),
            ledgers: core::array::from_fn(|_| Mutex::default()),
            draws: core::array::from_fn(|_| Mutex::new(parts.draws.child())),
            next_draw: AtomicUsize::new(0),
        }
    }

    /// Puts a view in force, and other rules with it if there are: one pointer.
    #[cfg(feature = "appproxy-common")]
    pub(crate) fn apply(&self, view: &Arc<ServingView>, rules: Option<Arc<ExchangeRules>>, changes: &ChangeSet) {
        let rules = rules.unwrap_or_else(|| self.rules());
        self.in_force.store(Arc::new(InForce { rules, view: view.clone() }));
        if !changes.removed.is_empty() {
            self.loads.forget_absent(view);
        }
        self.witness.forget(&changes.removed);
        let gone = changes.names.iter().filter(|name| view.model(name).is_none() && view.static_model(name).is_none());
        self.metrics.forget(&changes.removed, gone.cloned());
    }

    /// Puts other rules in force, with this view or the one that is.
    pub(crate) fn rule(&self, rules: Arc<ExchangeRules>, view: Option<Arc<ServingView>>) {
        let view = view.unwrap_or_else(|| self.view());
        self.in_force.store(Arc::new(InForce { rules, view }));
    }

    /// Has requests that come from now on use these.
    pub(crate) fn equip(&self, upstream: Option<Upstream>, bodies: Option<Bounds>) {
        upstream.into_iter().for_each(|upstream| self.upstream.store(Arc::new(upstream)));
        bodies.into_iter().for_each(|bodies| self.bodies.store(Arc::new(bodies)));
    }

    /// The client of replicas.
    pub(crate) fn upstream(&self) -> Arc<Upstream> {
        self.upstream.load_full()
    }

    /// An attempt at a backend has ended.
    pub(crate) fn saw(&self, ended: &ExchangeEnded) {
        if !self.witness.saw(ended) {
            self.metrics.ends_lost.inc();
        }
    }

    /// A backend refused the credential that is configured for it: an operator has to act.
    pub(crate) fn credential_refused(&self, backend: &Arc<str>) {
        self.metrics.credentials_refused.inc();
        let now = self.clock.moment();
        let mut alarms = self.alarms.lock().unwrap_or_else(PoisonError::into_inner);
        if alarms.get(backend).is_none_or(|said| now.since(*said) >= ALARM_EVERY) {
            alarms.insert(backend.clone(), now);
            tracing::error!(%backend, "the backend refuses its `api_key`: its requests are answered with 502");
        }
    }

    /// Takes note of how this node stands.
    pub(crate) fn set_situation(&self, situation: Control) {
        if **self.situation.load() != situation {
            self.situation.store(Arc::new(situation));
        }
    }

    /// Whether `/readyz` answers 200.
    pub(crate) fn ready(&self) -> bool {
        self.situation.load().ready(self.clock.moment())
    }

    /// The view in force.
    pub(crate) fn view(&self) -> Arc<ServingView> {
        self.in_force.load().view.clone()
    }

    /// Lets one step of an exchange see this node, whole and unchanging.
    pub(crate) fn see<T>(&self, step: impl FnOnce(exchange::Node<'_>) -> T) -> T {
        let (in_force, control) = (self.in_force.load(), self.situation.load());
        let InForce { rules, view } = &**in_force;
        step(exchange::Node { rules, view, control: &control, now: self.clock.now() })
    }

    /// The configuration's part.
    pub(crate) fn rules(&self) -> Arc<ExchangeRules> {
        self.in_force.load().rules.clone()
    }

    /// What bodies in memory are bounded by.
    pub(crate) fn bodies(&self) -> Guard<Arc<Bounds>> {
        self.bodies.load()
    }

    /// The draw state that belongs to `pool`.
    pub(crate) fn selection(&self, pool: &impl Hash) -> MutexGuard<'_, Selection> {
        lock(&self.selections, pool)
    }

    /// What retries are left.
    pub(crate) fn budget(&self) -> MutexGuard<'_, RetryBudget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ledger that counts for `key`.
    pub(crate) fn ledger(&self, key: &impl Hash) -> MutexGuard<'_, RateLedger> {
        lock(&self.ledgers, key)
    }

    /// One of the streams of draws, each in its turn.
    pub(crate) fn draws(&self) -> MutexGuard<'_, Draws> {
        lock(&self.draws, &self.next_draw.fetch_add(1, Ordering::Relaxed))
    }

    /// The whole metrics export.
    pub(crate) fn export(&self) -> String {
        let (view, control, now) = (self.view(), self.situation.load(), self.clock.moment());
        let counts = view.counts();
        #[cfg_attr(not(feature = "appproxy-common"), expect(unused_mut, reason = "only a member has more to say"))]
        let mut levels = Levels {
            last_pull_age: -1.0,
            generation: view.generation.0,
            digest: view.digest().to_string(),
            bus: -1,
            ready: control.ready(now),
            backends: counts.health,
            names: counts.names,
            keys: counts.keys,
            ..Levels::default()
        };
        #[cfg(feature = "appproxy-common")]
        if let Control::Worker { standing, .. } = &**control {
            levels.last_pull_age = standing.last_full_pull.map_or(-1.0, |at| now.since(at).as_secs_f64());
            levels.bus = standing.bus_up.map_or(-1, i64::from);
            levels.registered = standing.registered;
            levels.revision = standing.revision.as_ref().map(|revision| revision.0.to_string()).unwrap_or_default();
        }
        self.metrics.export(levels)
    }
}

/// A panic elsewhere must not close a shard for ever: its plain data is usable at any moment.
fn lock<'a, T>(shards: &'a [Mutex<T>; SHARDS], by: &impl Hash) -> MutexGuard<'a, T> {
    let mut hasher = DefaultHasher::new();
    by.hash(&mut hasher);
    let index = usize::try_from(hasher.finish() % (SHARDS as u64)).unwrap_or(0);
    let [first, ..] = shards;
    shards.get(index).unwrap_or(first).lock().unwrap_or_else(PoisonError::into_inner)
}
