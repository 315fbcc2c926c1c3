//! Bus events that concern this worker (worker-protocol 3.2).

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::circuit::{Circuit, ReceivedCircuit};
use super::ids::{CircuitId, KeyId};
use super::malformed::Malformed;
use super::publication::Publication;

/// One event for our authority, understood.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BusEvent {
    /// `metadata.request_id`, echoed in the ack.
    pub request_id: Option<String>,
    /// What it says.
    pub kind: EventKind,
    /// Elements of it that could not be read; the others count.
    pub malformed: Vec<Malformed>,
}

/// What an event says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// Circuits were created; acked once registered and visible.
    CircuitsCreated(Vec<ReceivedCircuit>),
    /// A circuit's whole route table; creates an unknown circuit. Not acked.
    RouteUpdated(Box<Circuit>),
    /// Circuits are gone. Not acked.
    CircuitsRemoved(Vec<CircuitId>),
    /// A publication's whole new form; acked.
    ModelUpdated(Publication),
    /// A publication is gone, by its primary name; acked.
    ModelRemoved(Arc<str>),
    /// A notice that a key changed: pull, then ack.
    KeyUpdated(KeyId),
    /// A key is gone; acked.
    KeyRemoved(KeyId),
}

impl EventKind {
    /// The event's name as a metric label.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::CircuitsCreated(_) => "circuit_created",
            Self::RouteUpdated(_) => "route_updated",
            Self::CircuitsRemoved(_) => "circuit_removed",
            Self::ModelUpdated(_) => "model_updated",
            Self::ModelRemoved(_) => "model_removed",
            Self::KeyUpdated(_) => "key_updated",
            Self::KeyRemoved(_) => "key_removed",
        }
    }
}

/// What became of one bus message.
#[derive(Debug, Clone, PartialEq)]
pub enum Decoded {
    /// It is for us and says this.
    Event(BusEvent),
    /// Another authority's, our own ack, or an event we have no use for: dropped silently.
    NotForUs,
    /// It could not be read; counted, never an end of the subscription.
    Malformed(Malformed),
}

/// What is published to say that a change is in force (worker-protocol 3.2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ack {
    /// `appproxy_worker_circuit_added_event`: the circuits of one created event, as they came.
    Circuits(Vec<ReceivedCircuit>),
    /// `appproxy_worker_router_config_applied_event` with kind `model` and the primary name.
    Model(Arc<str>),
    /// `appproxy_worker_router_config_applied_event` with kind `key` and the key id.
    Key(KeyId),
}
