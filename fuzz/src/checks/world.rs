//! A worker's data plane, small: `m` on two replicas, `n` (alias `a`) on one, a static model `s`; the model API key
//! [`KEY`] may use `m` only, the operator key [`OPERATOR`] everything.

use std::sync::{Arc, LazyLock};

use appproxy_core::access::address::{Peer, TrustedProxies};
use appproxy_core::desired::Desired;
use appproxy_core::exchange::{
    Connection, Control, ExchangeRules, KeyGate, Node, OperatorKey, OperatorKeys, token_hash,
};
use appproxy_core::secret::Secret;
use appproxy_core::serving::{Serving, ServingSettings, ServingView};
use appproxy_core::time::{Moment, Now, UnixMillis};
use appproxy_core::wire::circuit::parse_circuits_answer;
use appproxy_core::wire::snapshot::parse_snapshot;
use appproxy_core::worker::Standing;
use serde_json::{Value, json};

pub(super) const KEY: &str = "sk-fuzz-key";
pub(super) const OPERATOR: &str = "sk-fuzz-operator";

pub(super) struct World {
    rules: ExchangeRules,
    pub(super) view: Arc<ServingView>,
    control: Control,
}

pub(super) static WORLD: LazyLock<World> = LazyLock::new(World::new);

impl World {
    fn new() -> Self {
        let mut desired = Desired::new("a");
        let circuits = json!({"circuits": [circuit(1, 1, &[1, 2]), circuit(2, 2, &[3])]});
        for circuit in parse_circuits_answer(circuits.to_string().as_bytes()).expect("circuits").good {
            desired.upsert_circuit(circuit);
        }
        let hash: String = token_hash(&Secret::new(KEY)).0.iter().map(|byte| format!("{byte:02x}")).collect();
        let snapshot = json!({
            "revision": "1",
            "models": [publication("m", &[], &[1]), publication("n", &["a"], &[2])],
            "api_keys": [{"key_id": "k", "token_hash": hash, "allowed_models": ["m"]}],
        });
        let snapshot = parse_snapshot(snapshot.to_string().as_bytes()).expect("a snapshot");
        for publication in snapshot.models.good {
            desired.upsert_publication(publication);
        }
        desired.replace_keys(snapshot.keys.good.into_iter().map(|key| (key.key_id.clone(), key)).collect());
        let mut serving = Serving::new(&ServingSettings {
            rules: appproxy_core::desired::Rules::Router,
            ..ServingSettings::default()
        });
        let touched = desired.take_touched();
        let view = serving.update(&desired, &touched).expect("a view").view;
        let operator = OperatorKey {
            id: "operator".into(),
            hash: token_hash(&Secret::new(OPERATOR)),
            allowed_models: Vec::new(),
            rate_limit: None,
            allowed_client_ips: None,
            expires_at: None,
        };
        let rules = ExchangeRules {
            trusted_proxies: TrustedProxies::parse(["10.0.0.0/8", "fd00::/8"]).expect("networks"),
            key_gate: KeyGate::Published,
            operator_keys: OperatorKeys::new([operator]),
            max_body_size: 1024 * 1024,
            ..ExchangeRules::default()
        };
        let standing = Standing {
            node_id: appproxy_core::wire::ids::NodeId("b3f1c0de-0000-4000-8000-000000000001".parse().expect("a UUID")),
            worker_id: None,
            registered: true,
            bus_up: Some(true),
            last_full_pull: Some(Moment::START),
            revision: None,
            leaving: false,
            max_staleness: None,
            max_key_staleness: None,
            trouble: Vec::new(),
        };
        Self { rules, view, control: Control::Worker { authority: "a".into(), standing } }
    }

    pub(super) fn node(&self) -> Node<'_> {
        let now = Now { moment: Moment::from_millis(5000), wall: UnixMillis(1_800_000_000_000) };
        Node { rules: &self.rules, view: &self.view, control: &self.control, now, file_refused: false }
    }
}

/// Where a request comes from: a client, a trusted proxy, a socket file.
pub(super) fn connection(choice: u8) -> Connection {
    let peer = match choice % 4 {
        0 => Peer::Ip([192, 0, 2, 1].into()),
        1 => Peer::Ip([10, 0, 0, 1].into()),
        2 => Peer::Ip("fd00::1".parse().expect("an address")),
        _ => Peer::Unix,
    };
    Connection::new(peer, choice & 4 == 4)
}

pub(super) fn circuit_id(number: u8) -> String {
    format!("c0000000-0000-4000-8000-{number:012}")
}

pub(super) fn endpoint_id(number: u8) -> String {
    format!("e0000000-0000-4000-8000-{number:012}")
}

/// A circuit as the coordinator writes it, with a replica for each of `replicas`.
pub(super) fn circuit(number: u8, endpoint: u8, replicas: &[u8]) -> Value {
    let route = |replica: &u8| {
        json!({
            "route_id": format!("70000000-0000-4000-8000-{replica:012}"), "kernel_host": format!("10.1.0.{replica}"),
            "kernel_port": 30_000 + u32::from(*replica), "protocol": "http", "traffic_ratio": 1.0,
        })
    };
    json!({
        "id": circuit_id(number), "protocol": "http", "app_mode": "inference", "envs": {"E": "v"},
        "endpoint_id": endpoint_id(endpoint), "runtime_variant": "vllm",
        "route_info": replicas.iter().map(route).collect::<Vec<_>>(),
    })
}

pub(super) fn publication(model: &str, aliases: &[&str], endpoints: &[u8]) -> Value {
    let mapping = |endpoint: &u8| json!({"endpoint_id": endpoint_id(*endpoint), "ratio": 1.0});
    json!({"model": model, "aliases": aliases, "mappings": endpoints.iter().map(mapping).collect::<Vec<_>>()})
}
