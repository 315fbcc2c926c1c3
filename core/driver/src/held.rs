//! What a state does while it waits.

use core::future::poll_fn;
use core::pin::Pin;
use core::task::Poll;
use std::time::Instant;

use appproxy_core::exchange::{Answer, Denial, States, Waiting};

use crate::attempts::call_next;
use crate::data::record;
use crate::node::Node;
use crate::runtime::Runtime;

/// A state that waits for something. When the client goes away meanwhile, the server drops the whole exchange; this
/// records it.
pub(crate) struct Held<'a, R: Runtime, S: Waiting> {
    node: &'a Node<R>,
    began: Instant,
    state: Option<S>,
}

impl<'a, R: Runtime, S: Waiting> Held<'a, R, S> {
    pub(crate) const fn new(node: &'a Node<R>, began: Instant, state: S) -> Self {
        Self { node, began, state: Some(state) }
    }

    /// Waits for `work` (borrowed: taken by value it would be held twice, and moved), then gives the state back with its result. A node that stops answers instead.
    pub(crate) async fn through<T>(
        mut self,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> Result<(S, T), Box<Answer>> {
        let done = poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            // Whoever carries the client's connection is woken when running requests are cut.
            Poll::Pending if self.node.phases.cutting.is_turned() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await;
        match (self.state.take(), done) {
            (Some(state), Some(done)) => Ok((state, done)),
            (Some(state), None) => Err(self.end(state, |state, states| state.refuse(&Denial::overloaded(), states))),
            // Only `drop` and this take it, and this runs once.
            (None, _) => unreachable!("a state is taken once"),
        }
    }

    /// Ends a state; whoever stands behind it in a queue is called: it may just have been called itself.
    fn end<T>(&self, state: S, end: impl FnOnce(S, &States) -> T) -> T {
        let queue = state.queue().cloned();
        let ended = end(state, &self.node.states);
        queue.iter().for_each(|pool| call_next(self.node, pool));
        ended
    }
}

impl<R: Runtime, S: Waiting> Drop for Held<'_, R, S> {
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            let outcome = self.end(state, S::gone);
            record(self.node, &outcome, self.began, None);
        }
    }
}
