//! What requests and the control loop share: the view in force, the rules, the counts. Every lock is held for one call.

use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use appproxy_core::config::Config;
use appproxy_core::defects::{Defect, has};
use appproxy_core::exchange::{self, BodyBounds, Control, ExchangeRules, States};
use appproxy_core::seed::Draws;
use appproxy_core::serving::ChangeSet;
use appproxy_core::serving::{Drain, ExchangeEnded, ServingView};
use appproxy_core::telemetry::{Metrics, Seldom};
use arc_swap::{ArcSwap, Guard};
use http::{Response, Version};

use crate::attempts::Calls;
use crate::clock::Clock;
use crate::runtime::Runtime;
use crate::shutdown::Phases;
use crate::upstream::Upstream;
use crate::witness::Witness;

/// A refused credential is said at most this often for each backend; all are counted.
const ALARM_EVERY: Duration = Duration::from_secs(60);

/// This node.
pub(crate) struct Node<R: Runtime> {
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) phases: Phases,
    upstream: ArcSwap<Upstream<R>>,
    bodies: ArcSwap<BodyBounds>,
    in_force: ArcSwap<InForce>,
    situation: ArcSwap<Control>,
    pub(crate) states: States,
    pub(crate) calls: Calls,
    witness: Witness,
    /// When each backend's refused credential was last said. Only configured backends have one.
    alarms: Mutex<Seldom<Arc<str>>>,
}

/// What requests go by: swapped together, so that none sees half of a change.
#[derive(Clone)]
struct InForce {
    rules: Arc<ExchangeRules>,
    view: Arc<ServingView>,
}

impl<R: Runtime> Node<R> {
    /// A node that serves `view` as `config` says.
    pub(crate) fn new(
        config: &Config,
        clock: Clock,
        view: Arc<ServingView>,
        witness: Witness,
        draws: Draws,
    ) -> Result<Self, String> {
        let situation = match config.worker {
            Some(_) => Control::Unknown,
            None => Control::Alone { leaving: false },
        };
        Ok(Self {
            clock,
            metrics: Metrics::default(),
            phases: Phases::default(),
            upstream: ArcSwap::from_pointee(Upstream::new(config.request.connect_timeout, clock)?),
            bodies: ArcSwap::from_pointee(BodyBounds::of(&config.server)),
            in_force: ArcSwap::from_pointee(InForce { rules: Arc::new(ExchangeRules::from(config)), view }),
            situation: ArcSwap::from_pointee(situation),
            states: States::new(draws),
            calls: Calls::default(),
            witness,
            alarms: Mutex::new(Seldom::every(ALARM_EVERY)),
        })
    }

    /// Puts a view in force, and other rules with it if there are: one pointer.
    pub(crate) fn apply(&self, view: &Arc<ServingView>, rules: Option<Arc<ExchangeRules>>, changes: &ChangeSet) {
        let (before, rules) = (self.view(), rules.unwrap_or_else(|| self.rules()));
        self.in_force.store(Arc::new(InForce { rules, view: view.clone() }));
        if !changes.removed.is_empty() {
            self.states.forget_absent(view);
        }
        if !has(Defect::IdleKept) {
            // A replica at another address is another one, whatever its name.
            let address = |view: &ServingView, name| view.backend(name).map(|it| (it.host.clone(), it.port));
            let moved = changes.updated.iter().filter(|name| address(&before, name) != address(view, name));
            self.upstream.load().forget(changes.removed.iter().chain(moved));
        }
        self.witness.forget(&changes.removed);
        let gone: Vec<_> = changes.names.iter().filter(|name| !view.names_model(name)).cloned().collect();
        self.metrics.each(|counts| counts.forget(&changes.removed, &gone));
    }

    /// Puts other rules in force, with this view or the one that is.
    pub(crate) fn rule(&self, rules: Arc<ExchangeRules>, view: Option<Arc<ServingView>>) {
        let view = view.unwrap_or_else(|| self.view());
        self.in_force.store(Arc::new(InForce { rules, view }));
    }

    /// Has requests that come from now on use these.
    pub(crate) fn equip(&self, upstream: Option<Upstream<R>>, bodies: Option<BodyBounds>) {
        upstream.into_iter().for_each(|upstream| self.upstream.store(Arc::new(upstream)));
        bodies.into_iter().for_each(|bodies| self.bodies.store(Arc::new(bodies)));
    }

    /// The client of replicas.
    pub(crate) fn upstream(&self) -> Arc<Upstream<R>> {
        self.upstream.load_full()
    }

    /// An attempt at a backend has ended.
    pub(crate) fn saw(&self, ended: &ExchangeEnded) {
        if !self.witness.saw(ended) {
            self.metrics.counts().end_lost();
        }
    }

    /// An operator takes a backend out, or puts it back; `false`: it was lost, there is too much on the way.
    pub(crate) fn drain(&self, drain: Drain) -> bool {
        self.witness.drain(drain)
    }

    /// A backend refused the credential that is configured for it: an operator has to act.
    pub(crate) fn credential_refused(&self, backend: &Arc<str>) {
        let mut alarms = self.alarms.lock().unwrap_or_else(PoisonError::into_inner);
        if alarms.may_say(backend, self.clock.moment()).is_some() {
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

    /// Has an answer say that its connection ends with it, if this node leaves.
    pub(crate) fn mark_last<B>(&self, version: Version, response: &mut Response<B>) {
        let status = response.status();
        self.situation.load().mark_last(version, status, response.headers_mut());
    }

    /// The view in force.
    pub(crate) fn view(&self) -> Arc<ServingView> {
        self.in_force.load().view.clone()
    }

    /// Lets one step of an exchange see this node, whole and unchanging.
    pub(crate) fn see<T>(&self, step: impl FnOnce(exchange::Node<'_>) -> T) -> T {
        let (in_force, control) = (self.in_force.load(), self.situation.load());
        let InForce { rules, view } = &**in_force;
        let file_refused = self.metrics.file_refused();
        step(exchange::Node { rules, view, control: &control, now: self.clock.now(), file_refused })
    }

    /// The configuration's part.
    pub(crate) fn rules(&self) -> Arc<ExchangeRules> {
        self.in_force.load().rules.clone()
    }

    /// What bodies in memory are bounded by.
    pub(crate) fn bodies(&self) -> Guard<Arc<BodyBounds>> {
        self.bodies.load()
    }
}
