//! This process as one node of an authority, or by itself: the control loop, and what it is told.

use core::future::pending;
use std::sync::Arc;

use appproxy_core::config::Config;
use appproxy_core::config::worker::WorkerConfig;
use appproxy_core::exchange::ExchangeRules;
use appproxy_core::seed::{Draws, Seed};
use appproxy_core::serving::{Reconfigured, ServingSettings, ServingView, Testimony};
use appproxy_core::time::Now;
use appproxy_core::worker::journal::{PartBounds, Parts};
use appproxy_core::worker::{Input, Worker};
use async_channel::{Receiver, Sender, bounded};

use crate::bus::Bus;
use crate::calls::Coordinator;
use crate::clock::Clock;
use crate::control::{Control, Order, Peers};
use crate::executor::{Task, spawn};
use crate::journal::Journal;
use crate::node::Node;
use crate::prober::Prober;
use crate::{Failed, PROGRAM};

/// Orders for the control loop: one shutdown, one drained.
const ORDERS: usize = 4;

/// The worker before it runs. A plain router has one too: it probes.
pub(crate) struct Candidate {
    worker: Worker,
    seed: Seed,
    start: Now,
}

impl Candidate {
    /// The worker that `config` describes.
    pub(crate) fn new(config: &Config, draws: &mut Draws, clock: Clock) -> Self {
        let mut seed = [0; 32];
        for part in seed.chunks_exact_mut(8) {
            part.copy_from_slice(&draws.next_u64().to_le_bytes());
        }
        let of_worker = config.worker.clone().unwrap_or_else(WorkerConfig::plain);
        let (seed, start) = (Seed(seed), clock.now());
        Self { worker: Worker::new(of_worker, &ServingSettings::from(config), seed, start), seed, start }
    }

    /// What requests read at first.
    pub(crate) fn view(&self) -> Arc<ServingView> {
        self.worker.view().clone()
    }
}

/// The running control plane. Dropping it said it at once.
#[derive(Debug)]
pub(crate) struct Membership {
    orders: Sender<Order>,
    control: Option<Task<()>>,
}

impl Membership {
    /// Starts the control loop, which hears of live traffic by `said`.
    pub(crate) fn join(
        candidate: Candidate,
        said: Receiver<Testimony>,
        config: &Config,
        node: &Arc<Node>,
    ) -> Result<Self, Failed> {
        let (orders, taken) = bounded(ORDERS);
        let prober = Prober::new(node.clock).map_err(Failed::run)?;
        let peers = match &config.worker {
            Some(config) => {
                let coordinator = Coordinator::new(config, node.clock).map_err(Failed::config)?;
                let bus = Bus::new(config).map_err(Failed::config)?;
                Peers { coordinator: Some((coordinator, config.authority.clone())), bus, prober }
            }
            None => Peers { coordinator: None, bus: None, prober },
        };
        let Candidate { worker, seed, start } = candidate;
        let journal = match (&config.journal.file, &config.worker) {
            (Some(file), Some(of_worker)) => {
                let (bounds, settings) = (PartBounds::from(&config.journal), ServingSettings::from(config));
                let program = format!("{PROGRAM} {}", env!("CARGO_PKG_VERSION"));
                let parts = Parts::of(bounds, program, of_worker, &settings, seed, start);
                let journal = Journal::start(file, bounds, parts);
                Some(journal.map_err(|error| Failed::run(format!("journal.file: no thread for it: {error}")))?)
            }
            (Some(_) | None, _) => None,
        };
        let control = Control::new(worker, node.clone(), peers, said, taken, journal);
        Ok(Self { orders, control: Some(spawn(control.run())) })
    }

    /// Begins to leave: not ready any more.
    pub(crate) async fn leave(&self) {
        drop(self.orders.send(Order::Tell(Input::Shutdown)).await);
    }

    /// Puts another configuration in force: view and rules together.
    pub(crate) async fn configure(&self, config: &Config, rekeyed: Vec<Arc<str>>, rules: ExchangeRules) {
        let (done, in_force) = bounded(1);
        let fresh = Reconfigured { settings: ServingSettings::from(config), rekeyed };
        drop(self.orders.send(Order::Configure(Box::new(fresh), Arc::new(rules), done)).await);
        // Nothing is ever sent: it is hung up on.
        let _ = in_force.recv().await;
    }

    /// The last request has ended: leaves the coordinator. Returns when that is done.
    pub(crate) async fn drained(&mut self) {
        if let Some(control) = self.control.take() {
            drop(self.orders.send(Order::Tell(Input::Drained)).await);
            drop(control.await);
        }
    }

    /// Resolves when the control loop has ended by itself.
    pub(crate) async fn broken(&mut self) -> Failed {
        let Some(control) = &mut self.control else { return pending().await };
        let ended = control.await;
        self.control = None;
        let how = if ended.is_ok() { "by itself" } else { "by a fault" };
        Failed::run(format!("the control plane ended unexpectedly ({how}); please report it"))
    }
}
