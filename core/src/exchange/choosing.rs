//! A request between two attempts: which replica, of which model of the chain, and from when (data-plane 3.2-3.7, 9).

use core::time::Duration;
use http::StatusCode;
use std::sync::Arc;

use super::admitted::{Admitted, Wanted};
use super::answer::Answer;
use super::asking_again;
use super::attempt::{Attempt, not_spoken, upstream_error};
use super::budget::RetryBudget;
use super::chain::Fallback;
use super::connection::Connection;
use super::control::Node;
use super::denial::{Code, Denial};
use super::outbound::{can_ask, replacement, speaks};
use super::outcome::{AttemptRecord, Outcome, Trail};
use super::passage::{Carried, Passage};
use super::queued::{Queued, Turn};
use super::rendezvous::mix;
use super::rules::ExchangeRules;
use super::selection::{Ask, Choice, Pick, Selection};
use super::surface::Surface;
use crate::desired::Backend;
use crate::serving::{AttemptEnd, ExchangeEnded, Health, ModelPool, PoolKey};
use crate::time::Moment;
use crate::trie::Spread as _;

/// A request that needs a replica. When [`Self::not_before`] has come, [`Self::choose`] gives it one.
#[derive(Debug)]
#[must_use = "a request goes on by `choose`"]
pub struct Choosing {
    pub(super) tries: Tries,
    pub(super) not_before: Option<Moment>,
}

/// What a choice comes to.
#[derive(Debug)]
pub enum Chosen {
    /// To be sent: [`Attempt::write_head`] and [`Attempt::payload`], or [`Attempt::request`].
    Send(Attempt),
    /// Another model of the chain is up, with a pool of its own: choose again, with the shard of that pool.
    Elsewhere(Choosing),
    /// Every replica is at `routing.max_in_flight`.
    Queue(Queued),
}

impl Choosing {
    /// What a shard of [`Selection`] is chosen by: one pool's picks follow one draw.
    #[must_use]
    pub fn pool(&self) -> &PoolKey {
        self.tries.pool()
    }

    /// When to go on; `None`: now. Only ever given when the one replica that there is has failed and is asked again.
    #[must_use]
    pub const fn not_before(&self) -> Option<Moment> {
        self.not_before
    }

    /// The end of the attempt before this choice, once: health should hear of a failure now, not when the whole exchange
    /// has ended.
    pub fn take_ended(&mut self) -> Option<ExchangeEnded> {
        let last = self.tries.trail().attempts.last_mut()?;
        if last.told || last.ended.end == AttemptEnd::Abandoned {
            return None;
        }
        last.told = true;
        Some(last.ended.clone())
    }

    /// Picks a replica and makes the request for it.
    ///
    /// # Errors
    /// The answer, when there is no candidate (503; 502 after failed attempts) or none speaks this surface (501).
    pub fn choose(self, selection: &mut Selection, node: Node<'_>) -> Result<Chosen, Box<Answer>> {
        self.tries.choose(selection, node)
    }

    /// Refuses for a reason that only the shell can see.
    #[must_use]
    pub fn refuse(self, denial: &Denial) -> Box<Answer> {
        self.tries.into_passage().refuse(denial)
    }

    /// The client went away.
    #[must_use]
    pub fn gone(self) -> Outcome {
        self.tries.into_passage().gone()
    }
}

/// What is left to try. The trail's records say which backends were.
#[derive(Debug)]
pub(super) struct Tries {
    pub(super) passage: Carried,
    pub(super) fallback: Fallback,
    /// Further attempts at this model.
    pub(super) retries: u32,
    /// One of them was made beyond the budget, in a stand-in's place.
    pub(super) beyond_budget: bool,
    pub(super) same: Option<Same>,
    pub(super) turn: Option<Turn>,
}

/// The replica of the last attempt, once more.
#[derive(Debug)]
pub(super) struct Same {
    name: Arc<str>,
    /// It is the same attempt, on a fresh connection.
    fresh: bool,
}

impl Tries {
    pub(super) fn begun(admitted: Admitted) -> Self {
        Self {
            passage: admitted.passage,
            fallback: Fallback::NotYet,
            retries: 0,
            beyond_budget: false,
            same: None,
            turn: None,
        }
    }

    pub(super) fn pool(&self) -> &PoolKey {
        &self.passage.wanted.pool
    }

    pub(super) fn trail(&mut self) -> &mut Trail {
        &mut self.passage.trail
    }

    pub(super) fn trail_so_far(&self) -> &Trail {
        &self.passage.trail
    }

    pub(super) fn passage(&self) -> &Passage {
        &self.passage
    }

    pub(super) const fn connection(&self) -> &Connection {
        self.passage.connection()
    }

    pub(super) fn into_passage(self) -> Carried {
        self.passage
    }

    /// Whether the request may be sent twice: its body is kept, and nobody knows of a harm that comes of it. What goes
    /// through as it is may have acted, unless its method is a safe one.
    pub(super) fn replayable(&self, rules: &ExchangeRules) -> bool {
        let Passage { parts, .. } = &*self.passage;
        self.passage.wanted.streamed.is_none()
            && (!self.passage.is_raw() || parts.method.is_safe())
            && u64::try_from(self.passage.wanted.body.len()).is_ok_and(|len| len <= rules.retry_buffer)
    }

    /// The same replica at once, without counting anything.
    pub(super) fn on_a_fresh_connection(mut self, backend: &Backend) -> Choosing {
        self.same = Some(Same { name: backend.name.clone(), fresh: true });
        Choosing { tries: self, not_before: None }
    }

    /// What comes after a failed attempt: another candidate, else another model of the chain, else the same replica when
    /// it is all there is and `may_wait`. With the budget spent a stand-in would be asked all the same: then another
    /// candidate of the model that was asked for has its place, once.
    pub(super) fn further(
        mut self,
        budget: &mut RetryBudget,
        node: Node<'_>,
        may_wait: bool,
    ) -> Result<Choosing, Self> {
        let now = node.now.moment;
        let retries_left = self.retries < node.rules.max_retries;
        let pool = self.pool_now(node).cloned();
        if retries_left && pool.as_ref().is_some_and(|pool| self.untried(pool)) {
            let within = budget.take(now);
            if !within && self.next_sibling(node) {
                return Ok(Choosing { tries: self, not_before: None });
            }
            if within || self.may_replace_a_stand_in(node) {
                self.beyond_budget |= !within;
                self.retries += 1;
                return Ok(Choosing { tries: self, not_before: None });
            }
        }
        // A stand-in is no retry: whom it relieves is not asked again.
        if self.move_on(node) {
            return Ok(Choosing { tries: self, not_before: None });
        }
        let only = pool.and_then(|pool| self.only_replica(&pool));
        match only {
            Some(name) if may_wait && self.may_ask(&name, retries_left, node.rules) && budget.take(now) => {
                let backoff = self.backoff(&name, node.rules);
                self.retries += 1;
                self.same = Some(Same { name, fresh: false });
                Ok(Choosing { tries: self, not_before: Some(now.after(backoff)) })
            }
            _ => Err(self),
        }
    }

    fn choose(mut self, selection: &mut Selection, node: Node<'_>) -> Result<Chosen, Box<Answer>> {
        let mut not_spoken_here = false;
        loop {
            // The view of this moment: a replica that went away meanwhile gets no new attempt.
            let pool = self.pool_now(node).cloned();
            if let (Some(same), Some(pool)) = (self.same.take(), &pool)
                && let Some(pick) = selection.again(pool, &same.name)
            {
                if same.fresh {
                    self.trail().attempts.pop();
                }
                match self.attempt(pick, same.fresh, node) {
                    Ok(attempt) => return Ok(Chosen::Send(attempt)),
                    Err(tries) => self = tries,
                }
                continue;
            }
            let choice = match &pool {
                Some(pool) if self.may_choose(selection, node) => selection.choose(pool, &self.ask(node)),
                Some(_) => Choice::Full,
                None => Choice::Nothing,
            };
            match choice {
                Choice::Picked(pick) => {
                    self.end_turn(selection);
                    match self.attempt(pick, false, node) {
                        Ok(attempt) => return Ok(Chosen::Send(attempt)),
                        // A backend whose address makes no URI cannot be reached, like one that refuses the connection.
                        Err(tries) => self = tries,
                    }
                    continue;
                }
                Choice::Full => {
                    self = match self.wait(selection, node) {
                        Ok(queued) => return Ok(Chosen::Queue(queued)),
                        Err(tries) => tries,
                    };
                    if !self.move_on(node) {
                        return Err(self.into_passage().refuse(&Denial::overloaded()));
                    }
                }
                Choice::NotSpoken | Choice::Nothing => {
                    self.end_turn(selection);
                    not_spoken_here |= matches!(choice, Choice::NotSpoken);
                    if !self.move_on(node) {
                        return Err(self.exhausted(not_spoken_here, pool.as_deref()));
                    }
                }
            }
            return Ok(Chosen::Elsewhere(Choosing { tries: self, not_before: None }));
        }
    }

    pub(super) fn attempt(
        mut self,
        Pick { backend, ticket, target }: Pick,
        fresh: bool,
        node: Node<'_>,
    ) -> Result<Attempt, Self> {
        let trail = self.trail();
        trail.backend = Some(backend.name.clone());
        trail.attempts.push(AttemptRecord::begun(backend.name.clone(), node.now.moment));
        let new_name = replacement(&self.passage, &backend, node.rules);
        match target.filter(|target| can_ask(&self.passage, &backend, target, new_name.as_deref())) {
            Some(target) => {
                let fresh = fresh || !self.replayable(node.rules);
                let (sent, forward_credentials) = (node.now.moment, node.rules.forward_credentials);
                Ok(Attempt { tries: self, backend, ticket, sent, fresh, target, new_name, forward_credentials })
            }
            None => {
                self.trail().settle(AttemptEnd::NotConnected);
                Err(self)
            }
        }
    }

    fn ask(&self, node: Node<'_>) -> Ask<'_> {
        let Passage { trail, entropy, wanted: Wanted { pool, key, sticky, .. }, .. } = &*self.passage;
        // Only what goes by a key asks for it.
        let apart = |key: u64| mix(key ^ pool.spread());
        let attempts = u64::try_from(trail.attempts.len()).unwrap_or(u64::MAX);
        Ask {
            strategy: node.rules.strategy,
            tried: &trail.attempts,
            surface: self.surface(),
            sticky: sticky.map(apart),
            key: if node.rules.strategy.goes_by_key() { apart(*key) } else { 0 },
            draw: mix(entropy ^ attempts),
            max_in_flight: node.rules.max_in_flight,
            now: node.now.moment,
        }
    }

    /// What the model that is up resolves to now.
    fn pool_now<'a>(&'a self, node: Node<'a>) -> Option<&'a Arc<ModelPool>> {
        let Passage { holder, wanted: Wanted { model, pool, granted, .. }, .. } = &*self.passage;
        match self.fallback {
            // In the view that it was granted in, it is what it was.
            Fallback::NotYet => match granted {
                Some((seen, pool)) if *seen == node.view.generation => Some(pool),
                _ => holder.granted_pool(pool, model, node),
            },
            Fallback::At { .. } => holder.stand_in_pool(pool, model, node),
        }
    }

    /// Whose protocol the replica must speak. Whoever asks one circuit knows what it speaks.
    fn surface(&self) -> Option<Surface> {
        let own = matches!(self.fallback, Fallback::NotYet) && self.passage.holder.is_pinned();
        (!own).then_some(self.passage.trail.surface)
    }

    fn speaks(&self, backend: &Backend) -> bool {
        self.surface().is_none_or(|surface| speaks(backend.kind, surface))
    }

    /// Whether the pool has a candidate that speaks the surface and was not tried.
    pub(super) fn untried(&self, pool: &ModelPool) -> bool {
        serving(pool).any(|backend| self.speaks(backend) && !self.tried(backend))
    }

    pub(super) fn tried(&self, backend: &Backend) -> bool {
        self.passage.trail.attempts.iter().any(|attempt| attempt.ended.backend == backend.name)
    }

    /// The replica of the last attempt, when the pool has no other.
    fn only_replica(&self, pool: &ModelPool) -> Option<Arc<str>> {
        let last = &self.passage.trail.attempts.last()?.ended.backend;
        let mut all = serving(pool).filter(|backend| self.speaks(backend));
        let only = all.next()?;
        (all.next().is_none() && only.name == *last).then(|| last.clone())
    }

    fn may_ask(&self, name: &Arc<str>, retries_left: bool, rules: &ExchangeRules) -> bool {
        let attempts = &self.passage.trail.attempts;
        let asked = attempts.iter().filter(|attempt| attempt.ended.backend == *name).count();
        asking_again::may_ask(rules.retry_overrides.get(name), u32::try_from(asked).unwrap_or(u32::MAX), retries_left)
    }

    fn backoff(&self, name: &Arc<str>, rules: &ExchangeRules) -> Duration {
        let chance = mix(self.passage.entropy ^ u64::from(self.retries));
        asking_again::pause(rules.retry_overrides.get(name), self.retries, chance)
    }

    fn exhausted(self, not_spoken_here: bool, pool: Option<&ModelPool>) -> Box<Answer> {
        let last = self.passage.trail.attempts.last().map(|attempt| attempt.ended.end);
        let denial = if let Some(AttemptEnd::Answered(status @ 502..=504)) = last {
            // It was to be tried again, and what it was went out meanwhile: the replica's own status is what there is.
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
            let message =
                format!("The server of this model answered with status {}. Try again shortly.", status.as_u16());
            Denial::with_status(Code::UpstreamError, status, message)
        } else if last.is_some() {
            upstream_error()
        } else {
            nothing_left(not_spoken_here, pool)
        };
        self.into_passage().refuse(&denial)
    }
}

/// Why a model that was found has no replica for a request that was not tried yet.
pub(super) fn nothing_left(not_spoken_here: bool, pool: Option<&ModelPool>) -> Denial {
    let warms_up = |pool: &ModelPool| pool.candidates().any(|one| one.health == Health::WarmingUp);
    if not_spoken_here {
        not_spoken()
    } else if pool.is_some_and(warms_up) {
        Denial::new(Code::ModelNotReady, "The servers of this model are starting. Try again shortly.")
    } else {
        Denial::new(Code::ModelUnavailable, "No server of this model can take requests now. Try again shortly.")
    }
}

/// What may be picked of a pool.
pub(super) fn serving(pool: &ModelPool) -> impl Iterator<Item = &Arc<Backend>> {
    let endpoints = pool.endpoints.iter().filter(|share| share.ratio > 0.0);
    let groups = endpoints.flat_map(|share| &share.endpoint.groups).filter(|group| group.traffic_weight > 0.0);
    let candidates = groups.flat_map(|group| &group.candidates).filter(|candidate| candidate.weight() > 0.0);
    candidates.map(|candidate| &candidate.backend)
}

#[cfg(test)]
#[cfg(feature = "appproxy-router")]
#[path = "choosing_tests.rs"]
pub(super) mod tests;
