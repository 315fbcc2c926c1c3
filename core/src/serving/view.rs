//! The view.

use serde::{Deserialize, Serialize};

/// Numbers the views of one worker, from 1; 0 is the empty one before the first apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub u64);

/// Everything a request reads, whole and immutable.
#[derive(Debug, Clone)]
pub struct ServingView {
    /// Which view this is.
    pub generation: Generation,
}
