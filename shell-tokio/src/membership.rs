//! This process as one node of an authority: the control loop, and what it is told.

use std::sync::Arc;

use appproxy_core::config::Config;
use appproxy_core::exchange::Control as Situation;
use appproxy_core::seed::{Draws, Seed};
use appproxy_core::serving::ServingSettings;
use appproxy_core::worker::{Input, Worker};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::Failed;
use crate::bus::Bus;
use crate::control::Control;
use crate::coordinator::Coordinator;
use crate::node::Node;

/// Orders for the control loop: one shutdown, one drained.
const ORDERS: usize = 4;

/// The running control plane; none in a plain router. Dropping it ends it at once.
#[derive(Debug)]
pub(crate) struct Membership {
    orders: mpsc::Sender<Input>,
    control: Option<JoinHandle<()>>,
}

impl Membership {
    /// Starts the control loop, if the configuration has a worker section.
    pub(crate) fn join(
        config: &Config,
        settings: &ServingSettings,
        mut draws: Draws,
        node: &Arc<Node>,
    ) -> Result<Self, Failed> {
        let (orders, taken) = mpsc::channel(ORDERS);
        let Some(config) = &config.worker else { return Ok(Self { orders, control: None }) };
        let coordinator = Coordinator::new(config, node.clock).map_err(Failed::config)?;
        let bus = Bus::new(config).map_err(Failed::config)?;
        let mut seed = [0; 32];
        for part in seed.chunks_exact_mut(8) {
            part.copy_from_slice(&draws.next_u64().to_le_bytes());
        }
        let worker = Worker::new(config.clone(), settings, Seed(seed), node.clock.now());
        let control = Control::new(worker, node.clone(), config.authority.clone(), coordinator, bus, taken);
        Ok(Self { orders, control: Some(tokio::spawn(control.run())) })
    }

    /// Begins to leave: not ready any more.
    pub(crate) async fn leave(&self, node: &Node) {
        match self.control {
            Some(_) => drop(self.orders.send(Input::Shutdown).await),
            None => node.set_situation(Situation::Alone { leaving: true }),
        }
    }

    /// The last request has ended: leaves the coordinator. Returns when that is done.
    pub(crate) async fn drained(&mut self) {
        if let Some(control) = self.control.take() {
            drop(self.orders.send(Input::Drained).await);
            drop(control.await);
        }
    }

    /// Resolves when the control loop has ended by itself.
    pub(crate) async fn broken(&mut self) -> Failed {
        let Some(control) = &mut self.control else { return core::future::pending().await };
        let ended = control.await;
        self.control = None;
        Failed::run(format!("the control plane ended unexpectedly ({ended:?}); please report it"))
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        if let Some(control) = &self.control {
            control.abort();
        }
    }
}
