//! What a state does while it waits.

use appproxy_core::exchange::{Answer, Denial, Gated, Outcome};

use tokio::time::Instant;

use crate::data::record;
use crate::node::Node;

/// A state that waits for something. When the client goes away meanwhile, the server drops the whole exchange; this
/// records it.
pub(crate) struct Held<'a, S: Waiting> {
    node: &'a Node,
    began: Instant,
    state: Option<S>,
}

pub(crate) trait Waiting {
    fn gone(self, node: &Node) -> Outcome;
    fn refuse(self, denial: &Denial, node: &Node) -> Box<Answer>;
}

impl Waiting for Gated {
    fn gone(self, _: &Node) -> Outcome {
        Self::gone(self)
    }

    fn refuse(self, denial: &Denial, _: &Node) -> Box<Answer> {
        Self::refuse(self, denial)
    }
}

impl<'a, S: Waiting> Held<'a, S> {
    pub(crate) const fn new(node: &'a Node, began: Instant, state: S) -> Self {
        Self { node, began, state: Some(state) }
    }

    /// Waits for `work`, then gives the state back with its result. A node that stops answers instead.
    pub(crate) async fn through<T>(mut self, work: impl Future<Output = T>) -> Result<(S, T), Box<Answer>> {
        let done = tokio::select! {
            // In this order: work that is done at once never queues at the token, which all requests share.
            biased;
            done = work => Some(done),
            () = self.node.phases.cutting.cancelled() => None,
        };
        match (self.state.take(), done) {
            (Some(state), Some(done)) => Ok((state, done)),
            (Some(state), None) => Err(state.refuse(&Denial::overloaded(), self.node)),
            // Only `drop` and this take it, and this runs once.
            (None, _) => unreachable!("a state is taken once"),
        }
    }
}

impl<S: Waiting> Drop for Held<'_, S> {
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            record(self.node, &state.gone(self.node), self.began, None);
        }
    }
}
