//! A pool as people look at it: the same tree that selection walks, with every part's share (data-plane 1, 7).

use serde::Serialize;
use std::sync::Arc;

use super::load::Loads;
use crate::serving::{EndpointKey, GroupKey, ModelPool, PoolKey};

/// What stands behind a name, with shares that are fractions of the pool's requests now: health included.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PoolShown {
    /// `publication llama`, `contested llama`, `static gpt`, `circuit <id>`.
    pub source: String,
    /// Its endpoints, in the order of their ids.
    pub endpoints: Vec<EndpointShown>,
    /// The ids of endpoints that are mapped to it and have no circuit here, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub no_circuit: Vec<String>,
}

/// One endpoint.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EndpointShown {
    /// Its id, or `static`.
    pub endpoint: String,
    /// Its ratio as it was told.
    pub ratio: f64,
    /// Its share now.
    pub share: f64,
    /// Its groups.
    pub groups: Vec<GroupShown>,
}

/// One replica group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupShown {
    /// Its id, or `implicit`.
    pub group: String,
    /// Its weight as it was told.
    pub traffic_weight: f64,
    /// Its share now.
    pub share: f64,
    /// Its replicas.
    pub replicas: Vec<ReplicaShown>,
}

/// One replica.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplicaShown {
    /// The backend's name.
    pub backend: Arc<str>,
    /// `host:port`.
    pub address: String,
    /// Its ratio as it was told.
    pub ratio: f64,
    /// How it is.
    pub health: &'static str,
    /// In quarantine, and asked for this model all the same, which has too few others; absent when not.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub kept: bool,
    /// The effective probability that a request goes here.
    pub share: f64,
    /// Requests that it has not finished answering, from this node.
    pub in_flight: u32,
    /// Moving average of its time to first byte, in milliseconds; absent before the first answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_ms: Option<f64>,
}

impl PoolShown {
    /// What `pool` looks like now.
    #[must_use]
    pub fn of(pool: &ModelPool, loads: &Loads) -> Self {
        // In pool order, as the walk below.
        let mut shares = pool.shares().into_iter().map(|(_, share)| share);
        let mut endpoints = Vec::with_capacity(pool.endpoints.len());
        for part in pool.endpoints.iter() {
            let mut groups = Vec::with_capacity(part.endpoint.groups.len());
            for group in &part.endpoint.groups {
                let replicas: Vec<ReplicaShown> = group
                    .candidates
                    .iter()
                    .map(|candidate| {
                        let backend = &candidate.backend;
                        let load = loads.look(&backend.name);
                        let first_byte = load.as_ref().and_then(|load| load.first_byte());
                        ReplicaShown {
                            backend: backend.name.clone(),
                            address: backend.authority(),
                            ratio: candidate.ratio,
                            health: candidate.health.label(),
                            kept: candidate.kept,
                            share: shares.next().unwrap_or(0.0),
                            in_flight: load.map_or(0, |load| load.in_flight()),
                            first_byte_ms: first_byte.map(|took| (took.as_secs_f64() * 1e6).round() / 1e3),
                        }
                    })
                    .collect();
                groups.push(GroupShown {
                    group: match group.key {
                        GroupKey::Implicit => "implicit".to_owned(),
                        GroupKey::Listed(id) => id.0.to_string(),
                    },
                    traffic_weight: group.traffic_weight,
                    share: replicas.iter().map(|replica| replica.share).sum(),
                    replicas,
                });
            }
            endpoints.push(EndpointShown {
                endpoint: match part.endpoint.key {
                    EndpointKey::Static => "static".to_owned(),
                    EndpointKey::Deployment(id) => id.0.to_string(),
                },
                ratio: part.ratio,
                share: groups.iter().map(|group| group.share).sum(),
                groups,
            });
        }
        let no_circuit = pool.no_circuit.iter().map(ToString::to_string).collect();
        Self { source: source(&pool.key), endpoints, no_circuit }
    }

    /// Every replica, in pool order.
    pub fn replicas(&self) -> impl Iterator<Item = &ReplicaShown> {
        self.endpoints.iter().flat_map(|endpoint| &endpoint.groups).flat_map(|group| &group.replicas)
    }
}

pub(super) fn source(key: &PoolKey) -> String {
    match key {
        PoolKey::Publication(name) => format!("publication {name}"),
        PoolKey::Contested(name) => format!("contested {name}"),
        PoolKey::Static(name) => format!("static {name}"),
        PoolKey::Circuit(id) => format!("circuit {}", id.0),
    }
}
