//! Who of the replicas can take requests, by probes and by live traffic (data-plane 4).
//!
//! ```text
//!             good                503 (at once), or bad x threshold, the last a 503
//!   Unknown ───────> Ready ───────────────────────────────> WarmingUp
//!      │               │  ^                                   │    │ ^
//!      │ bad x         │  │ good x healthy_threshold          │    │ │ 503, unless it
//!      │ threshold     v  └───────────────────────────────────┘    v │ has just had its time
//!      └────────────> Down <────────────────────────────────────────
//!                              bad x threshold, or 503 past max_warmup_duration
//! ```
//!
//! Good is any answer below 500, bad is no answer or another one from 500 on. Beside that, live traffic puts a replica
//! into quarantine for a while. Health only says who is picked: what the control plane published stays.

mod book;
mod model_list;
mod record;
mod traffic;

use core::fmt;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

pub(crate) use book::Book;
pub(super) use book::Known;
pub use model_list::{is_model_list, served_names};
pub use record::ProbeSign;
pub use traffic::{AttemptEnd, ExchangeEnded, Witnesses};

/// How a replica is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// New, or not probed: serves.
    #[default]
    Unknown,
    /// Answers its probes: serves.
    Ready,
    /// Said 503: not there yet, asked more often.
    WarmingUp,
    /// Failed its probes.
    Down,
    /// Failed live traffic: out for a while, whatever its probes say.
    Quarantined,
    /// Taken out by an operator, on this node and until it starts anew; what runs there ends there.
    Drained,
}

impl Health {
    /// Every state, in order.
    pub const ALL: [Self; 6] =
        [Self::Unknown, Self::Ready, Self::WarmingUp, Self::Down, Self::Quarantined, Self::Drained];

    /// Whether it takes new requests.
    #[must_use]
    pub const fn serves(self) -> bool {
        match self {
            Self::Unknown | Self::Ready => true,
            Self::WarmingUp | Self::Down | Self::Quarantined | Self::Drained => false,
        }
    }

    /// The state as a word for logs, metrics and pages.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Ready => "ready",
            Self::WarmingUp => "warming_up",
            Self::Down => "down",
            Self::Quarantined => "quarantined",
            Self::Drained => "drained",
        }
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// How many backends are in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HealthCounts {
    /// [`Health::Unknown`].
    pub unknown: usize,
    /// [`Health::Ready`].
    pub ready: usize,
    /// [`Health::WarmingUp`].
    pub warming_up: usize,
    /// [`Health::Down`].
    pub down: usize,
    /// [`Health::Quarantined`].
    pub quarantined: usize,
    /// [`Health::Drained`].
    #[serde(default)]
    pub drained: usize,
}

impl HealthCounts {
    /// The number in one state.
    #[must_use]
    pub const fn of(&self, health: Health) -> usize {
        match health {
            Health::Unknown => self.unknown,
            Health::Ready => self.ready,
            Health::WarmingUp => self.warming_up,
            Health::Down => self.down,
            Health::Quarantined => self.quarantined,
            Health::Drained => self.drained,
        }
    }

    const fn place(&mut self, health: Health) -> &mut usize {
        match health {
            Health::Unknown => &mut self.unknown,
            Health::Ready => &mut self.ready,
            Health::WarmingUp => &mut self.warming_up,
            Health::Down => &mut self.down,
            Health::Quarantined => &mut self.quarantined,
            Health::Drained => &mut self.drained,
        }
    }
}

/// An operator takes a backend out on this node, or puts it back (data-plane 2, `/admin/backends`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    /// Its name; one that is not there is passed over.
    pub backend: Arc<str>,
    /// Out, or back in.
    pub out: bool,
}

/// What is said of a backend on this node, on its way to whoever judges.
#[derive(Debug, Clone, PartialEq)]
pub enum Testimony {
    /// By a request.
    Ended(ExchangeEnded),
    /// By an operator.
    Drain(Drain),
}

/// A backend's state changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthChange {
    /// Its name.
    pub backend: Arc<str>,
    /// What it was.
    pub from: Health,
    /// What it is.
    pub to: Health,
    /// By what: `probe`, `traffic`, `quarantine_over`, `needed` (quarantine ended early, too few others were left),
    /// `moved` (another address), `not_probed` (probes were turned off), `operator` (drained, or not any more).
    pub why: Cow<'static, str>,
}

/// Backends that came and went since the last look: whom to probe. One that moved both went and came.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Roster {
    /// No more to be probed.
    pub gone: BTreeSet<Arc<str>>,
    /// To be probed from now on.
    pub came: BTreeSet<Arc<str>>,
}
