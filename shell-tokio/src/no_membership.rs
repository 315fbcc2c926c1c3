//! A build without a control plane: a plain router only.

use std::sync::Arc;

use appproxy_core::config::Config;
use appproxy_core::exchange::Control as Situation;
use appproxy_core::seed::Draws;
use appproxy_core::serving::ServingSettings;

use crate::Failed;
use crate::node::Node;

/// What a node is a member of: nothing.
#[derive(Debug)]
pub(crate) struct Membership;

impl Membership {
    pub(crate) fn join(_: &Config, _: &ServingSettings, _: Draws, _: &Arc<Node>) -> Result<Self, Failed> {
        Ok(Self)
    }

    pub(crate) async fn leave(&self, node: &Node) {
        node.set_situation(Situation::Alone { leaving: true });
    }

    pub(crate) async fn drained(&mut self) {}

    pub(crate) async fn broken(&mut self) -> Failed {
        core::future::pending().await
    }
}
