//! This process as one node of an authority, or by itself: the control loop, and what it is told.

use core::future::pending;
use std::sync::Arc;

use appproxy_core::config::Config;
use appproxy_core::exchange::ExchangeRules;
use appproxy_core::serving::{Reconfigured, ServingSettings, Testimony};
use appproxy_core::worker::{Candidate, Input};
use async_channel::{Receiver, Sender, bounded};

use crate::Failed;
use crate::bus::Bus;
use crate::calls::Coordinator;
use crate::control::{Control, Order, Peers};
use crate::journal::Journal;
use crate::node::Node;
use crate::prober::Prober;
use crate::runtime::Runtime;

/// Orders for the control loop: one shutdown, one drained.
const ORDERS: usize = 4;

/// The running control plane. Dropping it ends it at once.
pub(crate) struct Membership<R: Runtime> {
    orders: Sender<Order>,
    control: Option<R::Task<()>>,
}

impl<R: Runtime> Membership<R> {
    /// Starts the control loop, which hears of live traffic by `said`.
    pub(crate) fn join(
        candidate: Candidate,
        said: Receiver<Testimony>,
        config: &Config,
        node: &Arc<Node<R>>,
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
        let journal = candidate
            .journal(config, &format!("{} {}", R::PROGRAM, env!("CARGO_PKG_VERSION")))
            .map(|(file, bounds, parts)| Journal::start(file, bounds, parts));
        let journal =
            journal.transpose().map_err(|error| Failed::run(format!("journal.file: no thread for it: {error}")))?;
        let control = Control::new(candidate.into_worker(), node.clone(), peers, said, taken, journal);
        Ok(Self { orders, control: Some(R::spawn(control.run())) })
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
