//! One node: a real worker, the shell's part played by the world, and everything that is held against it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use appproxy_core::access::rate_ledger::RateLedger;
use appproxy_core::config::health::HealthChecks;
use appproxy_core::config::worker::{EventDialect, Mode, RouterMode, WorkerConfig};
use appproxy_core::desired::{BackendKind, StateDigest};
use appproxy_core::exchange::Control;
use appproxy_core::exchange::selection::Selection;
use appproxy_core::secret::Secret;
use appproxy_core::seed::{Draws, Seed};
use appproxy_core::serving::{ServingSettings, ServingView, StaticBackend, StaticModel};
use appproxy_core::time::Now;
use appproxy_core::worker::{CallId, Worker};

use super::conduct::{Conduct, Purpose};
use super::promises::{Promises, Standpoint};
use super::reference::{Answer, Reference};
use super::run::Kind;
use super::state::{AUTHORITY, State};

/// The secret that coordinator and workers share.
pub const SECRET: &str = "simulated-secret";

/// How the subscription of a node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bus {
    /// Not asked for, or lost.
    Off,
    /// Asked for.
    Asked,
    /// It stands; numbered.
    Up(u64),
}

/// A call that the worker waits for.
#[derive(Debug, Clone)]
pub struct LiveCall {
    /// What for.
    pub purpose: Purpose,
    /// When the worker gives it up.
    pub deadline: u64,
    /// The pull that it belongs to.
    pub pull: Option<u64>,
}

/// A process.
#[derive(Debug)]
pub struct Node {
    /// Tells the processes in one place apart.
    pub life: u64,
    /// The machine under test.
    pub worker: Worker,
    /// When it wants to be woken.
    pub wait: Option<u64>,
    /// What requests see.
    pub view: Arc<ServingView>,
    /// The same in the simulation's words.
    pub in_force: Arc<State>,
    /// Views handed out and not swapped in yet, by generation.
    pub issued: BTreeMap<u64, Arc<State>>,
    /// The last generation handed out.
    pub newest: u64,
    /// How it stands with its coordinator, for requests.
    pub control: Control,
    /// Its subscription.
    pub bus: Bus,
    /// Counts subscriptions.
    pub subscriptions: u64,
    /// What it must want to serve.
    pub reference: Reference,
    /// What it owes.
    pub promises: Promises,
    /// How it behaves.
    pub conduct: Conduct,
    /// Calls that it waits for.
    pub calls: BTreeMap<CallId, LiveCall>,
    /// Counts pulls.
    pub pulls: u64,
    /// Whether it was told to leave, and whether its last request has ended.
    pub leaving: (bool, bool),
    /// Key notices that a removal overruled: they need another answer at once.
    pub ask_again: BTreeSet<String>,
    /// When removal events of keys were heard, last.
    pub keys_gone: BTreeMap<String, u64>,
    /// The state that was last held against the reference.
    pub checked: Option<(StateDigest, u64)>,
    /// What the next outputs must say.
    pub must_tell: Option<&'static str>,
    /// When the last view handed out is swapped in.
    pub swap_at: u64,
    /// Its selection, for all requests.
    pub selection: Selection,
    /// Its rate ledger.
    pub ledger: RateLedger,
    /// Its own draws, for request ids.
    pub draws: Draws,
}

impl Node {
    /// A process that starts now.
    #[must_use]
    pub fn new(config: &WorkerConfig, life: u64, seed: u64, now: Now) -> Self {
        let worker = Worker::new(config.clone(), &settings(), Seed::from_number(seed), now);
        let control = Control::Worker { authority: AUTHORITY.into(), standing: worker.standing() };
        let mut first = appproxy_core::serving::Serving::new(&settings());
        let empty = appproxy_core::desired::Desired::new(AUTHORITY);
        let view = first.update(&empty, &empty.everything()).map_or_else(|| first.view().clone(), |update| update.view);
        Self {
            life,
            worker,
            wait: None,
            view,
            in_force: Arc::new(State::default()),
            issued: BTreeMap::new(),
            newest: 0,
            control,
            bus: Bus::Off,
            subscriptions: 0,
            reference: Reference::new(),
            promises: Promises::default(),
            conduct: Conduct::new(config, now.moment.as_millis()),
            calls: BTreeMap::new(),
            pulls: 0,
            leaving: (false, false),
            ask_again: BTreeSet::new(),
            keys_gone: BTreeMap::new(),
            checked: None,
            must_tell: None,
            swap_at: 0,
            selection: Selection::new(),
            ledger: RateLedger::new(),
            draws: Draws::new(Seed::from_number(seed ^ 0x5eed)),
        }
    }

    /// How it stands, for acks.
    #[must_use]
    pub fn standpoint(&self, now: u64) -> Standpoint<'_> {
        Standpoint {
            now,
            in_force: self.view.generation.0,
            state: &self.in_force,
            bus_up: matches!(self.bus, Bus::Up(_)),
            leaving: self.leaving.0,
        }
    }

    /// Hands an answer to the pull that it belongs to.
    pub fn answered(&mut self, call: &LiveCall, answer: Option<Answer>) {
        let Some(flight) = self.reference.flight.as_mut().filter(|flight| Some(flight.number) == call.pull) else {
            return;
        };
        match answer {
            Some(Answer::Circuits(circuits)) => flight.circuits = Some(Some(circuits)),
            Some(config) => flight.config = Some(Some(config)),
            None => {}
        }
    }
}

/// The configuration of one run's workers; times are drawn from what an operator may set.
#[must_use]
pub fn config(draws: &mut Draws, kind: Kind) -> WorkerConfig {
    let mut one_of = |choices: [u64; 3]| {
        let at = usize::try_from(draws.below(3)).unwrap_or_default();
        Duration::from_millis(choices.get(at).copied().unwrap_or(1_000))
    };
    WorkerConfig {
        mode: match kind {
            Kind::Router => Mode::Router(RouterMode::default()),
            Kind::Legacy => Mode::Legacy(super::callers::mode()),
        },
        coordinator_url: "http://127.0.0.1:1".into(),
        api_secret: Secret::new(SECRET),
        redis_url: Some(Secret::new("redis://127.0.0.1:1/4")),
        ca_file: None,
        authority: AUTHORITY.into(),
        hostname: "router.example.com".into(),
        tls_listen: false,
        tls_advertised: true,
        api_port: 8080,
        traffic_port: 443,
        heartbeat_period: one_of([3_000, 10_000, 10_000]),
        reconcile_interval: one_of([4_000, 15_000, 15_000]),
        events_enabled: true,
        event_dialect: EventDialect::Both,
        call_timeout: one_of([2_000, 10_000, 10_000]),
        pull_timeout: one_of([5_000, 30_000, 30_000]),
        max_staleness: None,
    }
}

/// The name of the static backend, and of the model that it serves.
pub const STATIC: &str = "static-1";

/// One static backend beside everything the coordinator says.
#[must_use]
pub fn settings() -> ServingSettings {
    ServingSettings {
        backends: vec![StaticBackend {
            name: STATIC.into(),
            kind: BackendKind::Generic,
            tls: false,
            host: "static.example.com".into(),
            port: 8000,
            base_path: "".into(),
            credential: None,
            weight: 1,
            models: vec![StaticModel { name: STATIC.into(), aliases: Vec::new() }],
            probed: false,
        }],
        // What is tried here is the way of the coordinator's word: no replica is probed.
        checks: HealthChecks { enabled: false, ..HealthChecks::default() },
        ..ServingSettings::default()
    }
}
