//! A build without a control plane: a plain router that probes nobody.

use std::sync::Arc;

use appproxy_core::config::Config;
use appproxy_core::exchange::{Control as Situation, ExchangeRules};
use appproxy_core::seed::Draws;
use appproxy_core::serving::{Serving, ServingSettings, ServingView, Testimony};
use tokio::sync::mpsc;

use crate::Failed;
use crate::clock::Clock;
use crate::node::Node;

/// What is served, for good.
pub(crate) struct Candidate(Arc<ServingView>);

impl Candidate {
    pub(crate) fn new(config: &Config, _: &mut Draws, _: Clock) -> Self {
        Self(Serving::new(&ServingSettings::from(config)).view().clone())
    }

    pub(crate) fn view(&self) -> Arc<ServingView> {
        self.0.clone()
    }
}

/// What a node is a member of: nothing.
pub(crate) struct Membership(Arc<Node>);

impl Membership {
    pub(crate) fn join(
        _: Candidate,
        _: mpsc::Receiver<Testimony>,
        _: &Config,
        node: &Arc<Node>,
    ) -> Result<Self, Failed> {
        Ok(Self(node.clone()))
    }

    pub(crate) async fn configure(&self, config: &Config, _: Vec<Arc<str>>, rules: ExchangeRules) {
        let view = Serving::new(&ServingSettings::from(config)).view().clone();
        self.0.rule(Arc::new(rules), Some(view));
    }

    pub(crate) async fn leave(&self) {
        self.0.set_situation(Situation::Alone { leaving: true });
    }

    pub(crate) async fn drained(&mut self) {}

    pub(crate) async fn broken(&mut self) -> Failed {
        core::future::pending().await
    }
}
