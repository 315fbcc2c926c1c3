//! A request that may be served: what every attempt at it is made from.

use bytes::Bytes;
use core::ops::Range;
use std::sync::Arc;

use super::budget::RetryBudget;
use super::choosing::{Choosing, Tries};
use super::control::Node;
use super::facts::Facts;
use super::outcome::Outcome;
use super::passage::Carried;
use super::peek::Spelling;
use crate::serving::{Generation, ModelPool, PoolKey};
use crate::wire::ids::CircuitId;

/// A request that passed every gate. Nothing was sent yet.
pub struct Admitted {
    pub(super) passage: Carried,
}

/// What is asked for, and what may serve it.
pub(super) struct Wanted {
    /// The model asked for; `None`: none counts.
    pub(super) asked: Option<Arc<str>>,
    /// The model that is served: the one asked for, or one of its chain.
    pub(super) model: Arc<str>,
    /// What stands behind it.
    pub(super) pool: PoolKey,
    /// The same as it was granted, and in which view.
    pub(super) granted: Option<(Generation, Arc<ModelPool>)>,
    /// Further pools of the same model.
    pub(super) siblings: Vec<PoolKey>,
    pub(super) body: Bytes,
    /// The body is not here: it goes on as it comes.
    pub(super) streamed: Option<Streamed>,
    /// Where the model stands in the body; `None` when it stands in the path.
    pub(super) place: Option<Place>,
    /// Where the body names the model of the path again (Gemini).
    pub(super) named: Vec<Range<usize>>,
    /// What the strategies by key go by.
    pub(super) key: u64,
    pub(super) sticky: Option<u64>,
    /// What parts requests over several pools of one model.
    pub(super) spread: u64,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            asked: None,
            model: Arc::default(),
            pool: NOWHERE,
            granted: None,
            siblings: Vec::new(),
            body: Bytes::new(),
            streamed: None,
            place: None,
            named: Vec::new(),
            key: 0,
            sticky: None,
            spread: 0,
        }
    }
}

impl Wanted {
    /// Lets go of what is the request's. The model's name stays until the next one: an empty one would be one that all
    /// cores count the holders of.
    pub(super) fn clear(&mut self) {
        let Self { asked, pool, granted, siblings, body, streamed, place, named, .. } = self;
        (*asked, *granted, *streamed, *place) = (None, None, None, None);
        *pool = NOWHERE;
        *body = Bytes::new();
        (*siblings, *named) = (Vec::new(), Vec::new());
    }
}

/// What nothing stands behind.
const NOWHERE: PoolKey = PoolKey::Circuit(CircuitId(uuid::Uuid::nil()));

/// Where the name of the model stands in a body, and how it is written there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) span: Range<usize>,
    pub(super) spelling: Spelling,
}

/// A body that goes to the replica as it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Streamed {
    /// Its length, when the client said it.
    pub(super) length: Option<u64>,
}

impl Streamed {
    /// What the client's head says of its body; `None`: there is none.
    pub(super) fn of(facts: &Facts) -> Option<Self> {
        if facts.coded {
            return Some(Self { length: None });
        }
        facts.length.filter(|length| *length > 0).map(|length| Self { length: Some(length) })
    }
}

impl core::fmt::Debug for Admitted {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Admitted({:?}, {} bytes)", self.passage, self.body_len())
    }
}

impl Admitted {
    /// Bytes of the body, unpacked: what the request holds in memory until its answer begins.
    #[must_use]
    pub fn body_len(&self) -> usize {
        self.passage.wanted.body.len()
    }

    /// Goes on to the first attempt; the request counts for the retry budget.
    pub fn begin(self, budget: &mut RetryBudget, node: Node<'_>) -> Choosing {
        budget.count(node.now.moment);
        Choosing { tries: Tries::begun(self), not_before: None }
    }

    /// The client went away before a replica was tried.
    #[must_use]
    pub fn gone(self) -> Outcome {
        self.passage.gone()
    }
}
