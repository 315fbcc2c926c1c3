//! What is to be served, in the simulation's own words: comparable between coordinator, reference and node.

use std::collections::BTreeMap;
use std::sync::Arc;

use appproxy_core::desired::Desired;
use appproxy_fixtures::coordinator::Coordinator;
use appproxy_fixtures::wire;
use uuid::Uuid;

/// The authority of every simulated worker.
pub const AUTHORITY: &str = "authority-1";

/// A circuit. Every change of the manager's gives its routes new ports, so ports tell versions apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circuit {
    /// Its endpoint.
    pub endpoint: Uuid,
    /// The ports of its routes.
    pub ports: Vec<u16>,
    /// Its sub-domain.
    pub label: Option<String>,
    /// Whether it needs no credential.
    pub public: bool,
    /// Where clients may come from, as it is written.
    pub addresses: Option<String>,
}

/// A publication. Every change gives a new ratio, so ratios tell versions apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    /// Further names.
    pub aliases: Vec<String>,
    /// Endpoints and the bits of their ratios.
    pub mappings: Vec<(Uuid, u64)>,
}

/// A key. Every change gives it another secret, so hashes tell versions apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The hash of its secret.
    pub hash: [u8; 32],
    /// When it ends, in unix milliseconds.
    pub expires_at: Option<i64>,
    /// The names it may use; empty is all.
    pub allowed: Vec<String>,
}

/// A whole desired state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State {
    /// Circuits by id.
    pub circuits: BTreeMap<Uuid, Arc<Circuit>>,
    /// Publications by primary name.
    pub publications: BTreeMap<String, Arc<Publication>>,
    /// Keys by id.
    pub keys: BTreeMap<String, Arc<Key>>,
    /// Whether a key set ever came.
    pub keys_loaded: bool,
}

impl State {
    /// What the coordinator wants now.
    #[must_use]
    pub fn of_coordinator(coordinator: &Coordinator) -> Self {
        Self {
            circuits: coordinator.circuits(AUTHORITY).map(|it| (it.id, Arc::new(Circuit::of_wire(it)))).collect(),
            publications: coordinator
                .publications(AUTHORITY)
                .map(|it| (it.model.clone(), Arc::new(Publication::of_wire(it))))
                .collect(),
            keys: coordinator.keys(AUTHORITY).map(|it| (it.key_id.clone(), Arc::new(Key::of_wire(it)))).collect(),
            keys_loaded: true,
        }
    }

    /// What a node wants to serve.
    #[must_use]
    pub fn of_node(desired: &Desired) -> Self {
        let circuits = desired.circuits().iter().map(|(id, it)| {
            let endpoint = it.endpoint_id.map(|id| id.0).unwrap_or_default();
            let circuit = Circuit {
                endpoint,
                ports: it.routes.iter().map(|route| route.kernel_port).collect(),
                label: it.subdomain.clone(),
                public: it.open_to_public,
                addresses: it.allowed_client_ips.clone(),
            };
            (id.0, Arc::new(circuit))
        });
        let publications = desired.publications().iter().map(|(name, it)| {
            let publication = Publication {
                aliases: it.aliases.iter().map(|alias| alias.to_string()).collect(),
                mappings: it.mappings.iter().map(|it| (it.endpoint_id.0, it.ratio.0.to_bits())).collect(),
            };
            (name.to_string(), Arc::new(publication))
        });
        let keys = desired.keys().iter().map(|(id, it)| {
            let key = Key {
                hash: it.token_hash.0,
                expires_at: it.expires_at.map(|at| at.0),
                allowed: it.allowed_models.iter().map(|name| name.to_string()).collect(),
            };
            (id.as_str().to_owned(), Arc::new(key))
        });
        Self {
            circuits: circuits.collect(),
            publications: publications.collect(),
            keys: keys.collect(),
            keys_loaded: desired.keys_loaded(),
        }
    }

    /// Whether some circuit stands behind a publication.
    #[must_use]
    pub fn has_circuit(&self, publication: &Publication) -> bool {
        let mut mapped = publication.mappings.iter();
        mapped.any(|(endpoint, _)| self.circuits.values().any(|circuit| circuit.endpoint == *endpoint))
    }

    /// The first place where two states differ, in words.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<String> {
        first_difference("circuit", &self.circuits, &other.circuits)
            .or_else(|| first_difference("publication", &self.publications, &other.publications))
            .or_else(|| first_difference("key", &self.keys, &other.keys))
            .or_else(|| {
                (self.keys_loaded != other.keys_loaded)
                    .then(|| format!("keys loaded: {} against {}", self.keys_loaded, other.keys_loaded))
            })
    }
}

fn first_difference<K: Ord + core::fmt::Debug, V: PartialEq + core::fmt::Debug>(
    what: &str,
    one: &BTreeMap<K, V>,
    other: &BTreeMap<K, V>,
) -> Option<String> {
    let key = one.keys().chain(other.keys()).find(|key| one.get(key) != other.get(key))?;
    Some(format!("{what} {key:?}: {:?} against {:?}", one.get(key), other.get(key)))
}

impl Circuit {
    /// From the coordinator's form.
    #[must_use]
    pub fn of_wire(circuit: &wire::Circuit) -> Self {
        Self {
            endpoint: circuit.endpoint_id.unwrap_or_default(),
            ports: circuit.route_info.iter().map(|route| route.kernel_port).collect(),
            label: circuit.subdomain.clone(),
            public: circuit.open_to_public,
            addresses: circuit.allowed_client_ips.clone(),
        }
    }
}

impl Publication {
    /// From the coordinator's form.
    #[must_use]
    pub fn of_wire(publication: &wire::Publication) -> Self {
        Self {
            aliases: publication.aliases.clone(),
            mappings: publication.mappings.iter().map(|it| (it.endpoint_id, it.ratio.to_bits())).collect(),
        }
    }
}

impl Key {
    /// From the coordinator's form.
    #[must_use]
    pub fn of_wire(key: &wire::ApiKey) -> Self {
        let mut hash = [0; 32];
        for (byte, digits) in hash.iter_mut().zip(key.token_hash.as_bytes().chunks(2)) {
            let text = core::str::from_utf8(digits).unwrap_or_default();
            *byte = u8::from_str_radix(text, 16).unwrap_or_default();
        }
        let expires_at = key.expires_at.as_deref().and_then(|text| text.parse::<jiff::Timestamp>().ok());
        Self { hash, expires_at: expires_at.map(|at| at.as_millisecond()), allowed: key.allowed_models.clone() }
    }
}
