//! Small desired states, written short.

#![allow(dead_code, unreachable_pub, reason = "every test takes what it needs")]

use std::sync::Arc;

use appproxy_core::desired::Desired;
use appproxy_core::time::UnixMillis;
use appproxy_core::wire::circuit::{AppMode, Circuit, Protocol, Ratio, ReplicaGroup, Route};
use appproxy_core::wire::ids::{CircuitId, EndpointId, GroupId, KeyId, RouteId};
use appproxy_core::wire::key::{ApiKey, TokenHash};
use appproxy_core::wire::publication::{ControlMode, Mapping, Publication};
use uuid::Uuid;

pub fn circuit_id(number: u128) -> CircuitId {
    CircuitId(Uuid::from_u128(0xC000_0000_0000 + number))
}

pub fn endpoint_id(number: u128) -> EndpointId {
    EndpointId(Uuid::from_u128(0xE000_0000_0000 + number))
}

pub fn group_id(number: u128) -> GroupId {
    GroupId(Uuid::from_u128(0x6000_0000_0000 + number))
}

/// An inference circuit of endpoint `endpoint`.
pub fn circuit(number: u128, endpoint: u128, routes: Vec<Route>) -> Circuit {
    Circuit {
        id: circuit_id(number),
        app: Some(String::new()),
        protocol: Protocol::Http,
        app_mode: AppMode::Inference,
        open_to_public: false,
        allowed_client_ips: None,
        subdomain: None,
        endpoint_id: Some(endpoint_id(endpoint)),
        runtime_variant: Some("vllm".to_owned()),
        created_at: None,
        routes: routes.into_iter().zip(0..).map(|(route, index)| Route { index, ..route }).collect(),
        replica_groups: Vec::new(),
    }
}

/// Route `number` to `10.0.0.<number>:8000`.
pub fn route(number: u128, ratio: f64) -> Route {
    Route {
        route_id: Some(RouteId(Uuid::from_u128(0xA000_0000_0000 + number))),
        index: 0,
        session_id: None,
        kernel_host: Some(format!("10.0.0.{number}")),
        kernel_port: 8000,
        protocol: Protocol::Http,
        traffic_ratio: Ratio(ratio),
        replica_group_id: None,
    }
}

pub fn in_group(route: Route, group: u128) -> Route {
    Route { replica_group_id: Some(group_id(group)), ..route }
}

pub fn group(number: u128, weight: f64) -> ReplicaGroup {
    ReplicaGroup { id: group_id(number), traffic_weight: Ratio(weight), lifecycle: None }
}

pub fn publication(model: &str, aliases: &[&str], mappings: &[(u128, f64)]) -> Publication {
    let mapping =
        |(endpoint, ratio): &(u128, f64)| Mapping { endpoint_id: endpoint_id(*endpoint), ratio: Ratio(*ratio) };
    Publication {
        model: model.into(),
        aliases: aliases.iter().map(|alias| Arc::from(*alias)).collect(),
        mappings: mappings.iter().map(mapping).collect(),
        control_mode: ControlMode::Manual,
    }
}

pub fn key(id: &str, hash: u8, allowed: &[&str]) -> ApiKey {
    ApiKey {
        key_id: KeyId::from(id),
        token_hash: TokenHash([hash; 32]),
        allowed_models: allowed.iter().map(|name| Arc::from(*name)).collect(),
        expires_at: Some(UnixMillis(1_000)),
        rate_limit: Some(60),
        allowed_client_ips: None,
    }
}

pub fn desired(circuits: Vec<Circuit>, publications: Vec<Publication>) -> Desired {
    let mut desired = Desired::new("worker01");
    for circuit in circuits {
        desired.upsert_circuit(circuit);
    }
    for publication in publications {
        desired.upsert_publication(publication);
    }
    desired
}
