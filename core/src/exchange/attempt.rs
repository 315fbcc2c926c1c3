//! Trying replicas, one after the other, until one answers or none is left (data-plane 3.2, 3.3, 3.4, 3.7).

use bytes::Bytes;
use http::Request;
use http::response;
use std::sync::Arc;

use super::answer::Answer;
use super::committed::{Committed, ReplyHead, commit};
use super::control::Node;
use super::denial::{Code, Denial};
use super::outbound::{Payload, build, speaks};
use super::outcome::Outcome;
use super::passage::Passage;
use super::peek::Peek;
use super::selection::Selection;
use crate::desired::Backend;
use crate::serving::PoolKey;

/// How far an attempt had come when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailStage {
    /// Nothing of the request was sent: no connection, or a pooled one that proved closed before it took a byte.
    /// Another replica may always be tried.
    Connect,
    /// Some of the request may have been sent.
    SendHead,
    /// The request was sent, and no answer had begun.
    AwaitHead,
}

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// Refused, reset, unreadable, an address that does not resolve.
    Broke,
    /// `request.connect_timeout` or `request.first_byte_timeout` is over.
    TimedOut,
}

/// A request that passed every gate. Nothing was sent yet.
pub struct Admitted {
    pub(super) passage: Passage,
    pub(super) model: Arc<str>,
    pub(super) pool: PoolKey,
    pub(super) body: Bytes,
    /// Where the model stands in the body; `None` when it stands in the path.
    pub(super) place: Option<Peek>,
}

impl core::fmt::Debug for Admitted {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Admitted({:?}, {} bytes)", self.passage, self.body.len())
    }
}

impl Admitted {
    /// What a shard of [`Selection`] is chosen by: one pool's picks follow one draw.
    #[must_use]
    pub const fn pool(&self) -> &PoolKey {
        &self.pool
    }

    /// Picks a replica and makes the request for it.
    ///
    /// # Errors
    /// The answer, when there is no candidate (503) or it does not speak this surface (501).
    pub fn attempt(
        self,
        selection: &mut Selection,
        node: Node<'_>,
    ) -> Result<(Attempt, Request<Payload>), Box<Answer>> {
        Tries { admitted: self, tried: Vec::new() }.next(selection, node)
    }

    /// The client went away before a replica was tried.
    #[must_use]
    pub fn gone(self) -> Outcome {
        self.passage.gone()
    }
}

/// What is left to try.
#[derive(Debug)]
struct Tries {
    admitted: Admitted,
    /// Names of the replicas that were tried.
    tried: Vec<Arc<str>>,
}

/// One replica, asked and not yet answering. Ends in exactly one of its methods.
#[derive(Debug)]
#[must_use = "an attempt ends by `head`, `failed` or `gone`"]
pub struct Attempt {
    tries: Tries,
    backend: Arc<Backend>,
}

impl Attempt {
    /// The replica.
    #[must_use]
    pub const fn backend(&self) -> &Arc<Backend> {
        &self.backend
    }

    /// As [`Admitted::pool`].
    #[must_use]
    pub const fn pool(&self) -> &PoolKey {
        &self.tries.admitted.pool
    }

    /// The replica's answer began: its head, made fit for the client. From here on nothing is tried again.
    ///
    /// # Errors
    /// The answer to give instead of the replica's, whose body is then dropped.
    pub fn head(self, reply: response::Parts, _node: Node<'_>) -> Result<(Committed, ReplyHead), Box<Answer>> {
        commit(self.tries.admitted.passage, &self.backend, reply)
    }

    /// The attempt failed at `stage`: the next replica, if that is safe and one is left.
    ///
    /// # Errors
    /// The answer, when there is nothing more to try.
    pub fn failed(
        self,
        stage: FailStage,
        failure: Failure,
        selection: &mut Selection,
        node: Node<'_>,
    ) -> Result<(Self, Request<Payload>), Box<Answer>> {
        let Self { tries, .. } = self;
        match (stage, failure) {
            (FailStage::Connect, _) => tries.next(selection, node),
            // The replica may be at work on it: what may be sent twice is for the retry policy to say.
            (FailStage::SendHead | FailStage::AwaitHead, Failure::TimedOut) => {
                Err(tries.admitted.passage.refuse(&Denial::new(
                    Code::UpstreamTimeout,
                    "The model did not begin to answer in time. Try again, or ask for a shorter answer.",
                )))
            }
            (FailStage::SendHead | FailStage::AwaitHead, Failure::Broke) => {
                Err(tries.admitted.passage.refuse(&upstream_error()))
            }
        }
    }

    /// Refuses for a reason that only the shell can see.
    #[must_use]
    pub fn refuse(self, denial: &Denial) -> Box<Answer> {
        self.tries.admitted.passage.refuse(denial)
    }

    /// The client went away.
    #[must_use]
    pub fn gone(self) -> Outcome {
        self.tries.admitted.passage.gone()
    }
}

impl Tries {
    fn next(mut self, selection: &mut Selection, node: Node<'_>) -> Result<(Attempt, Request<Payload>), Box<Answer>> {
        loop {
            let spent = u32::try_from(self.tried.len()).unwrap_or(u32::MAX) > node.rules.max_retries;
            // The view of this moment: a replica that went away meanwhile gets no new attempt.
            let pool = self.admitted.passage.holder.pool(&self.admitted.model, node).filter(|_| !spent);
            let Some(backend) = pool.and_then(|pool| selection.pick(pool, &self.tried)) else {
                return Err(self.exhausted());
            };
            let trail = &mut self.admitted.passage.trail;
            if !speaks(backend.kind, trail.surface) {
                return Err(self.admitted.passage.refuse(&not_spoken()));
            }
            trail.backend = Some(backend.name.clone());
            trail.attempts = trail.attempts.saturating_add(1);
            self.tried.push(backend.name.clone());
            // A backend whose address makes no URI cannot be reached, like one that refuses the connection.
            if let Some(request) = build(&self.admitted, &backend, node.rules) {
                return Ok((Attempt { tries: self, backend }, request));
            }
        }
    }

    fn exhausted(self) -> Box<Answer> {
        let denial = if self.tried.is_empty() {
            Denial::new(Code::ModelUnavailable, "No server of this model can take requests now. Try again shortly.")
        } else {
            upstream_error()
        };
        self.admitted.passage.refuse(&denial)
    }
}

/// What 502 says: never an address.
pub(super) fn upstream_error() -> Denial {
    Denial::new(Code::UpstreamError, "The server of this model could not be reached or broke off. Try again shortly.")
}

/// What 501 says of a backend that has not the paths of a surface.
pub(super) fn not_spoken() -> Denial {
    Denial::new(Code::NotSupported, "The server behind this model does not speak this API. Use another of its APIs.")
}

#[cfg(test)]
#[cfg(feature = "appproxy-router")]
#[path = "attempt_tests.rs"]
mod tests;
