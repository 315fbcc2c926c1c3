//! A request that waits for a replica below `routing.max_in_flight`.

use core::time::Duration;

use super::answer::Answer;
use super::choosing::{Choosing, Tries};
use super::control::Node;
use super::denial::Denial;
use super::outcome::Outcome;
use super::queue::{Place, Standing};
use super::selection::Selection;
use crate::serving::PoolKey;
use crate::time::Moment;

/// Waiting requests look again so often by themselves: a replica that is in two pools tells only one of them that it has
/// room, and a new view tells none.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// A place in the queue, and until when it is held.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    place: Place,
    until: Moment,
}

/// Waiting for a replica. The shell waits until its place is called ([`Selection::freed`]) or [`Self::look_again`] has
/// come, and goes on by [`Self::again`].
#[derive(Debug)]
#[must_use = "a waiting request goes on by `again` and ends by `gone` or `refuse`"]
pub struct Queued {
    tries: Tries,
    place: Place,
    look_again: Moment,
    pushed_out: Option<Place>,
}

impl Queued {
    /// Its place, by which it is called.
    #[must_use]
    pub const fn place(&self) -> Place {
        self.place
    }

    /// When to go on without having been called.
    #[must_use]
    pub const fn look_again(&self) -> Moment {
        self.look_again
    }

    /// A place that had to make room: call it, so that it learns of it.
    #[must_use]
    pub const fn pushed_out(&self) -> Option<Place> {
        self.pushed_out
    }

    /// As [`Choosing::pool`].
    #[must_use]
    pub fn pool(&self) -> &PoolKey {
        self.tries.pool()
    }

    /// Called, or time to look again.
    pub fn again(self) -> Choosing {
        Choosing { tries: self.tries, not_before: None }
    }

    /// Refuses for a reason that only the shell can see. Then ask [`Selection::freed`] who is next in its place.
    #[must_use]
    pub fn refuse(self, denial: &Denial, selection: &mut Selection) -> Box<Answer> {
        selection.queue.leave(self.tries.pool(), self.place);
        self.tries.into_passage().refuse(denial)
    }

    /// The client went away. Then ask [`Selection::freed`] who is next in its place.
    #[must_use]
    pub fn gone(self, selection: &mut Selection) -> Outcome {
        selection.queue.leave(self.tries.pool(), self.place);
        self.tries.into_passage().gone()
    }
}

impl Tries {
    /// Whether it is this request's turn to look for a replica.
    pub(super) fn may_choose(&self, selection: &Selection, node: Node<'_>) -> bool {
        if node.rules.max_in_flight.is_none() {
            return true;
        }
        match self.turn {
            // With queues off nobody waits, and nobody is in the way.
            None => !selection.queue.is_waited_for(self.pool()),
            Some(turn) => selection.queue.standing(self.pool(), turn.place) == Standing::Next,
        }
    }

    /// Gives up the place in the queue, for a replica or for good.
    pub(super) fn end_turn(&mut self, selection: &mut Selection) {
        if let Some(turn) = self.turn.take() {
            selection.queue.leave(self.pool(), turn.place);
        }
    }

    /// Joins the queue, or waits on; gives the state back when there is no waiting: queues are off or full, its time is
    /// over, or it had to make room.
    pub(super) fn wait(mut self, selection: &mut Selection, node: Node<'_>) -> Result<Queued, Self> {
        let now = node.now.moment;
        let key = self.trail().key.clone();
        let (turn, pushed_out) = match self.turn {
            Some(turn) => {
                let out = selection.queue.standing(self.pool(), turn.place) == Standing::Out;
                if out || now >= turn.until {
                    self.end_turn(selection);
                    return Err(self);
                }
                selection.queue.wait_on(self.pool(), key, turn.place, turn.until);
                (turn, None)
            }
            None if node.rules.queue_timeout.is_zero() => return Err(self),
            None => {
                let until = now.after(node.rules.queue_timeout);
                match selection.queue.join(self.pool(), key, until, now) {
                    Ok((place, pushed_out)) => (Turn { place, until }, pushed_out),
                    Err(_) => return Err(self),
                }
            }
        };
        self.turn = Some(turn);
        let look_again = turn.until.min(now.after(LOOK_AGAIN));
        Ok(Queued { tries: self, place: turn.place, look_again, pushed_out })
    }
}

#[cfg(test)]
#[cfg(feature = "appproxy-router")]
#[path = "queued_tests.rs"]
mod tests;
