//! What only legacy worlds have: circuits under sub-domains that change hands, and replicas that say which models they
//! have.

use appproxy_core::worker::{Probe, TransportFailure};
use appproxy_fixtures::Request;
use http::StatusCode;
use serde_json::json;

use super::changes::MODELS;
use super::fault::Fault;
use super::reference::Meaning;
use super::state::AUTHORITY;
use super::world::{Happening, World};

/// The sub-domains that circuits may have.
pub const LABELS: [&str; 4] = ["alpha", "beta", "gamma", "delta"];

/// An address list that lets in the callers from inside.
pub const INSIDE: &str = "10.0.0.0/8";

/// An address list of which nothing can be read.
const BROKEN: &str = "the office";

impl World {
    /// The manager changes a legacy worker's circuits.
    pub(super) fn change_wildcard(&mut self) {
        match self.draws.below(100) {
            0..30 => self.create_wildcard(),
            30..50 => self.change_routes(),
            50..75 => self.change_access(),
            _ => self.remove_circuit(),
        }
    }

    /// A circuit of its own endpoint, under a label that no other has now. Nodes may still know an older one under it.
    pub(super) fn create_wildcard(&mut self) {
        let used: Vec<String> =
            self.coordinator.circuits(AUTHORITY).filter_map(|circuit| circuit.subdomain.clone()).collect();
        let free: Vec<&str> = LABELS.into_iter().filter(|label| !used.iter().any(|it| it == label)).collect();
        let Some(label) = self.one_of(&free) else { return self.remove_circuit() };
        let (id, endpoint, routes) = (self.draws.uuid(), self.draws.uuid(), self.routes());
        let (public, addresses) = self.access();
        let body = json!({
            "authority": AUTHORITY, "id": id, "endpoint_id": endpoint, "routes": routes, "subdomain": label,
            "open_to_public": public, "allowed_client_ips": addresses,
        });
        let handled = self.ask(Request::post("/dev/circuits", &body));
        self.callers.made(id, label);
        if let Some(circuit) = self.circuit(id) {
            self.publish(handled, &Meaning::Created(id, circuit));
        }
    }

    fn access(&mut self) -> (bool, Option<&'static str>) {
        let public = self.draws.below(3) == 0;
        let addresses = match self.draws.below(8) {
            0 | 1 => Some(INSIDE),
            2 => Some(BROKEN),
            3 => Some(" "),
            _ => None,
        };
        (public, addresses)
    }

    fn change_access(&mut self) {
        let Some(id) = self.some_circuit() else { return };
        let (public, addresses) = self.access();
        let body = json!({"open_to_public": public, "allowed_client_ips": addresses});
        let handled = self.ask(Request::put(format!("/dev/circuits/{id}/access"), &body));
        if let Some(circuit) = self.circuit(id) {
            self.publish(handled, &Meaning::Routes(id, circuit));
        }
    }

    /// A node asks a replica which models it has. Of eight replicas one lists none.
    pub(super) fn inquired(&mut self, node: usize, life: u64, probe: Probe) {
        let port = usize::from(probe.request().uri().port_u16().unwrap_or_default());
        let ended = if self.strikes(Fault::CallFailed) {
            probe.failed(TransportFailure::Refused)
        } else if port.is_multiple_of(8) {
            probe.answered(StatusCode::NOT_FOUND, b"")
        } else {
            let model = MODELS[port % MODELS.len()];
            probe.answered(StatusCode::OK, json!({"data": [{ "id": model }]}).to_string().as_bytes())
        };
        let after = self.latency();
        self.later(after, Happening::Inquired { node, life, ended });
    }
}
