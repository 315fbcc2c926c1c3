//! What may end an exchange while it waits for something.

use super::answer::Answer;
use super::attempt::Attempt;
use super::choosing::Choosing;
use super::denial::Denial;
use super::explained::Explained;
use super::gated::Gated;
use super::outcome::Outcome;
use super::queued::Queued;
use super::states::States;
use crate::serving::PoolKey;

/// A state that waits: for its body, for a moment, for a replica or its answer.
pub trait Waiting: Sized {
    /// The client went away.
    fn gone(self, states: &States) -> Outcome;

    /// Refuses for a reason that only the shell can see.
    fn refuse(self, denial: &Denial, states: &States) -> Box<Answer>;

    /// The pool in whose queue it stands. When it has ended there, ask [`super::selection::Selection::freed`] who is next.
    fn queue(&self) -> Option<&PoolKey> {
        None
    }
}

macro_rules! waits {
    ($($state:ty),+) => {$(
        impl Waiting for $state {
            fn gone(self, _: &States) -> Outcome {
                Self::gone(self)
            }

            fn refuse(self, denial: &Denial, _: &States) -> Box<Answer> {
                Self::refuse(self, denial)
            }
        }
    )+};
}

waits!(Gated, Attempt, Choosing);

impl Waiting for Explained {
    fn gone(self, _: &States) -> Outcome {
        Self::gone(self)
    }

    /// The replica's error goes on without its words.
    fn refuse(self, _: &Denial, _: &States) -> Box<Answer> {
        self.body(None)
    }
}

impl Waiting for Queued {
    fn gone(self, states: &States) -> Outcome {
        let pool = self.pool().clone();
        Self::gone(self, &mut states.selection(&pool))
    }

    fn refuse(self, denial: &Denial, states: &States) -> Box<Answer> {
        let pool = self.pool().clone();
        Self::refuse(self, denial, &mut states.selection(&pool))
    }

    fn queue(&self) -> Option<&PoolKey> {
        Some(self.pool())
    }
}
