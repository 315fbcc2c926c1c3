//! One replica, asked and not yet answering (data-plane 3.4, 9).

use core::time::Duration;
use http::header::RETRY_AFTER;
use http::{StatusCode, response};
use std::sync::Arc;

use super::answer::Answer;
use super::budget::RetryBudget;
use super::choosing::{Choosing, Tries};
use super::committed::{Committed, ReplyHead, commit};
use super::control::Node;
use super::denial::{Code, Denial};
use super::explained::Explained;
use super::load::Ticket;
use super::outcome::{Outcome, Trail};
use crate::defects::{Defect, has};
use crate::desired::{Backend, Target};
use crate::serving::{AttemptEnd, PoolKey};
use crate::time::Moment;

/// How far an attempt had come when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailStage {
    /// Nothing of the request was sent: no connection. Another replica may always be tried.
    Connect,
    /// A connection that had served before proved closed before any byte of the answer came. Says nothing about the
    /// replica: the same request goes to it once more, on a fresh connection.
    Stale,
    /// Some of the request may have been sent.
    SendHead,
    /// The request was sent, and no whole head of an answer came.
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

/// A 503 that asks for a longer wait than this is passed on at once: the client can wait as well as we can.
const LONGEST_ASKED_WAIT: Duration = Duration::from_secs(2);

/// One replica, asked and not yet answering. Ends in exactly one of its methods; its place at the replica is given back
/// by whatever way it ends.
#[derive(Debug)]
#[must_use = "an attempt ends by `head`, `failed`, `refuse`, `broken_off` or `gone`"]
pub struct Attempt {
    pub(super) tries: Tries,
    pub(super) backend: Arc<Backend>,
    pub(super) ticket: Ticket,
    pub(super) sent: Moment,
    /// Whether the request must not go out on a pooled connection.
    pub(super) fresh: bool,
    pub(super) target: Arc<Target>,
    /// What stands in the place of the model's name.
    pub(super) new_name: Option<Arc<str>>,
    pub(super) forward_credentials: bool,
}

/// What becomes of a replica's answer.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "moved once and taken apart at once; a box would be an allocation each")]
pub enum Head {
    /// It goes to the client. From here on nothing is tried again.
    Commit(Committed, ReplyHead),
    /// It is an error, whose body is read before it is answered.
    Explain(Box<Explained>),
    /// Its body is dropped, and another replica is chosen.
    Again(Choosing),
}

impl Attempt {
    /// The replica.
    #[must_use]
    pub const fn backend(&self) -> &Arc<Backend> {
        &self.backend
    }

    /// What is known of the request.
    #[must_use]
    pub fn trail(&self) -> &Trail {
        self.tries.trail_so_far()
    }

    /// As [`Choosing::pool`].
    #[must_use]
    pub fn pool(&self) -> &PoolKey {
        self.tries.pool()
    }

    /// The model of a fallback chain that is asked instead of the one that was.
    #[must_use]
    pub fn stands_in(&self) -> Option<&Arc<str>> {
        self.tries.trail_so_far().fallback()
    }

    /// Whether the request must go out on a connection of its own: the one before it was stale, or its body is too large
    /// to be sent twice, so that it must not meet a stale one.
    #[must_use]
    pub const fn needs_fresh_connection(&self) -> bool {
        self.fresh
    }

    /// The replica's answer began: its head, made fit for the client; or, for 502, 503 and 504, the next attempt, if
    /// one is left.
    ///
    /// # Errors
    /// The answer to give instead of the replica's, whose body is then dropped.
    pub fn head(self, reply: response::Parts, budget: &mut RetryBudget, node: Node<'_>) -> Result<Head, Box<Answer>> {
        let Self { mut tries, backend, ticket, sent, .. } = self;
        let took = node.now.moment.since(sent);
        let status = reply.status;
        tries.trail().settle(AttemptEnd::Answered(status.as_u16()));
        if let Some(record) = tries.trail().attempts.last_mut() {
            record.first_byte = Some(took);
        }
        if is_upstream_failure(status) {
            let waits = asked_wait(&reply).is_none_or(|wait| wait <= LONGEST_ASKED_WAIT);
            if tries.replayable(node.rules) {
                tries = match tries.further(budget, node, waits) {
                    Ok(choosing) => return Ok(Head::Again(choosing)),
                    Err(tries) => tries,
                };
            }
        } else {
            // A failure that comes fast must not look like a fast replica.
            ticket.load().note_first_byte(took, node.now.moment);
        }
        commit(tries.into_passage(), &backend, reply, ticket)
    }

    /// The attempt failed at `stage`: the next one, if that is safe and one is left.
    ///
    /// # Errors
    /// The answer, when there is nothing more to try.
    pub fn failed(
        self,
        stage: FailStage,
        failure: Failure,
        budget: &mut RetryBudget,
        node: Node<'_>,
    ) -> Result<Choosing, Box<Answer>> {
        let Self { mut tries, backend, ticket, sent, fresh, .. } = self;
        if stage == FailStage::Stale && failure == Failure::Broke && !fresh && !has(Defect::StaleCounts) {
            return Ok(tries.on_a_fresh_connection(&backend));
        }
        tries.trail().settle(match (stage, failure) {
            (FailStage::Connect, _) => AttemptEnd::NotConnected,
            (_, Failure::Broke) => AttemptEnd::Broke,
            (_, Failure::TimedOut) => AttemptEnd::Silent,
        });
        if stage != FailStage::Connect && failure == Failure::TimedOut {
            ticket.load().note_first_byte(node.now.moment.since(sent), node.now.moment);
            // The replica may be computing: asking another one would have both do it.
            return Err(tries.into_passage().refuse(&Denial::new(
                Code::UpstreamTimeout,
                "The model did not begin to answer in time. Try again, or ask for a shorter answer.",
            )));
        }
        drop(ticket);
        // What was not sent may be sent, however large.
        if stage != FailStage::Connect && !tries.replayable(node.rules) {
            return Err(tries.into_passage().refuse(&upstream_error()));
        }
        tries.further(budget, node, true).map_err(|tries| tries.into_passage().refuse(&upstream_error()))
    }

    /// Refuses for a reason that only the shell can see.
    #[must_use]
    pub fn refuse(self, denial: &Denial) -> Box<Answer> {
        self.tries.into_passage().refuse(denial)
    }

    /// The body broke off: the client went away, or closed its side too soon.
    #[must_use]
    pub fn broken_off(self) -> Box<Answer> {
        Answer::broken_off(self.tries.into_passage().end())
    }

    /// The client went away.
    #[must_use]
    pub fn gone(self) -> Outcome {
        self.tries.into_passage().gone()
    }
}

/// Whether a status says that another replica may do better.
const fn is_upstream_failure(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT)
}

/// `retry-after` in seconds; a date is taken for a long time.
fn asked_wait(reply: &response::Parts) -> Option<Duration> {
    let text = reply.headers.get(RETRY_AFTER)?.to_str().ok()?;
    Some(text.trim().parse().map_or(Duration::MAX, Duration::from_secs))
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
