//! Everything the control plane can be told.

use serde::{Deserialize, Serialize};

use super::call::CallEnded;
use super::output::AckId;
use super::probe::ProbeEnded;
use crate::serving::{Drain, ExchangeEnded, Generation, Reconfigured, Testimony};
use crate::wire::event::{BusEvent, Decoded};
use crate::wire::malformed::Malformed;

/// One thing that happened. The same type is API, journal line and fuzz alphabet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// The shell runs and drains outputs; sent once, first.
    Started,
    /// The subscription asked for stands.
    BusUp,
    /// The subscription is gone, or could not be made; in words, for the operator.
    BusLost(String),
    /// A bus message that `wire` understood.
    Bus(BusEvent),
    /// A bus message that `wire` could not read.
    BusMalformed(Malformed),
    /// A call ended.
    CallEnded(CallEnded),
    /// A probe ended.
    ProbeEnded(ProbeEnded),
    /// An attempt at a backend ended; those that [`crate::serving::Witnesses`] tells are enough.
    ExchangeEnded(ExchangeEnded),
    /// The view of this generation is what requests see now.
    Applied(Generation),
    /// An ack left this process.
    AckSent(AckId),
    /// An ack could not be published.
    AckFailed(AckId),
    /// An operator takes a backend out on this node, or puts it back.
    Drain(Drain),
    /// Time passed. Early ones are harmless, late ones are only late.
    Tick,
    /// The configuration is another one (data-plane 8).
    Configured(Box<Reconfigured>),
    /// Begin to leave: not ready any more; everything else goes on until [`Input::Drained`].
    Shutdown,
    /// The last request has ended: leave the coordinator and stop.
    Drained,
}

impl Input {
    /// What a bus message tells the worker; nothing when it is not for us.
    #[must_use]
    pub fn heard(decoded: Decoded) -> Option<Self> {
        match decoded {
            Decoded::Event(event) => Some(Self::Bus(event)),
            Decoded::Malformed(malformed) => Some(Self::BusMalformed(malformed)),
            Decoded::NotForUs => None,
        }
    }
}

impl From<Testimony> for Input {
    fn from(said: Testimony) -> Self {
        match said {
            Testimony::Ended(ended) => Self::ExchangeEnded(ended),
            Testimony::Drain(drain) => Self::Drain(drain),
        }
    }
}
