//! Circuits and their routes (worker-protocol 2).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;
use uuid::Uuid;

use super::ids::{CircuitId, EndpointId, GroupId, RouteId};
#[cfg(feature = "appproxy-common")]
pub use super::read_circuit::{parse_circuit, parse_circuits_answer};

/// A deployment endpoint bound to this authority, with its replicas.
///
/// Serde on this type is our own form (journal, snapshots); the coordinator's is read by
/// [`parse_circuits_answer`] and never written: acks echo what came ([`ReceivedCircuit`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Circuit {
    /// Its identity.
    pub id: CircuitId,
    /// The service name; may be empty.
    pub app: Option<String>,
    /// How its replicas speak; only `http` ones are served.
    pub protocol: Protocol,
    /// Only [`AppMode::Inference`] is served; the others are tracked as ignored.
    pub app_mode: AppMode,
    /// Legacy: no credential is needed.
    pub open_to_public: bool,
    /// Legacy: comma-separated addresses and networks, as they came.
    pub allowed_client_ips: Option<String>,
    /// The sub-domain, lower-cased.
    pub subdomain: Option<String>,
    /// The deployment endpoint; without one the circuit is tracked and not routable.
    pub endpoint_id: Option<EndpointId>,
    /// `vllm`, `sglang`, ...
    pub runtime_variant: Option<String>,
    /// When the coordinator made it; compared as text, only between circuits that claim one sub-domain.
    pub created_at: Option<String>,
    /// Its replicas; the malformed ones left out.
    pub routes: Vec<Route>,
    /// Replica groups (6.2), when the coordinator sends them.
    pub replica_groups: Vec<ReplicaGroup>,
}

impl Circuit {
    /// The endpoint whose replicas the routes are, when the circuit is served at all (worker-protocol 6).
    #[must_use]
    pub fn routable(&self) -> Option<EndpointId> {
        self.endpoint_id.filter(|_| self.app_mode == AppMode::Inference)
    }
}

/// One replica of a circuit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// Its identity; a temporary route has none, and its index stands in.
    pub route_id: Option<RouteId>,
    /// Its place in the list as it came, malformed neighbours counted.
    pub index: u32,
    /// The session behind it.
    pub session_id: Option<Uuid>,
    /// Where it listens; `None` means `localhost`. IPv6 literals stand without brackets.
    pub kernel_host: Option<String>,
    /// Its port, 1 or more.
    pub kernel_port: u16,
    /// Only `http` routes become backends.
    pub protocol: Protocol,
    /// Its part of its group's traffic, not sanitised yet.
    pub traffic_ratio: Ratio,
    /// Its replica group; `None` is the implicit one.
    pub replica_group_id: Option<GroupId>,
}

/// A replica group of an endpoint (worker-protocol 6.2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplicaGroup {
    /// Its identity.
    pub id: GroupId,
    /// Its part of the endpoint's traffic, 0..100.
    pub traffic_weight: Ratio,
    /// Informational.
    pub lifecycle: Option<String>,
}

/// A circuit as an event brought it, with its JSON text for the ack.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReceivedCircuit {
    /// The circuit as understood.
    pub circuit: Circuit,
    /// The circuit as it came, to the byte, unknown fields included.
    pub echo: Echo,
}

impl PartialEq for ReceivedCircuit {
    fn eq(&self, other: &Self) -> bool {
        self.circuit == other.circuit && self.echo == other.echo
    }
}

/// JSON text kept as it came. `Debug` shows only its length: `envs` and `arguments` count as secrets.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Echo(Arc<RawValue>);

impl Echo {
    /// Keeps `raw`.
    #[must_use]
    pub fn new(raw: Box<RawValue>) -> Self {
        Self(raw.into())
    }

    /// The JSON text.
    #[must_use]
    pub fn json(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for Echo {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json()
    }
}

impl core::fmt::Debug for Echo {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Echo({} bytes)", self.json().len())
    }
}

/// How a replica is spoken to. Unknown words do not break parsing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// The one that is served.
    Http,
    /// Known or unknown, not served here.
    Other,
}

/// What a circuit is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AppMode {
    /// The one that is served.
    Inference,
    /// Tracked as ignored, not acked, reported.
    Interactive,
    /// An unknown word: tracked as ignored.
    Other,
}

/// A ratio or weight as it came. Compared by its bits, so that states can be compared exactly.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ratio(pub f64);

impl Ratio {
    /// The ratio to reckon with: not-a-number, infinite and negative ones are 0 (worker-protocol 6).
    #[must_use]
    pub fn sanitised(self) -> f64 {
        if self.0.is_finite() && self.0 > 0.0 { self.0 } else { 0.0 }
    }
}

impl PartialEq for Ratio {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Ratio {}
