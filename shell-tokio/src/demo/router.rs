//! The ROUTER worker's demonstration: a published model with an alias, and a key.

use appproxy_core::exchange::token_hash;
use appproxy_core::secret::Secret;
use appproxy_fixtures::coordinator::Faults;
use serde_json::json;

use super::line::{Line, chat_body, manager_headers};
use super::{AUTHORITY, ENDPOINTS, Places, made};
use crate::Failed;
use crate::stage::{StageCoordinator, StageReplica};

const KEY: &str = "sk-demo";
const MODEL: &str = "demo-chat";
const ALIAS: &str = "demo";

pub(super) const ROWS: [(&str, &str, &str); 2] =
    [("model", MODEL, "alias demo, half of its requests to each replica"), ("key", KEY, "")];

/// Circuits, a publication and a key, through the coordinator's own API.
pub(super) async fn furnish(coordinator: &StageCoordinator, replicas: &[StageReplica]) -> Result<(), Failed> {
    let base = format!("http://{}", coordinator.address());
    for (endpoint, replica) in ENDPOINTS.iter().zip(replicas) {
        let route = json!({"kernel_host": "127.0.0.1", "kernel_port": replica.address().port()});
        let circuit = json!({
            "authority": AUTHORITY, "endpoint_id": endpoint, "runtime_variant": "vllm", "routes": [route],
            "announce": false, "wait": false,
        });
        made("POST", &format!("{base}/dev/circuits"), &circuit).await?;
    }
    let mappings: Vec<_> = ENDPOINTS.iter().map(|id| json!({"endpoint_id": id, "ratio": 1.0})).collect();
    let publication = json!({"aliases": [ALIAS], "mappings": mappings, "control_mode": "manual"});
    made("PUT", &format!("{base}/v2/routers/{AUTHORITY}/models/{MODEL}"), &publication).await?;
    // The worker is not there yet, so it cannot ack this key's event; were it announced all the same, the worker's first
    // ack of the key would count for this event, and a strict revocation would stay unconfirmed.
    coordinator.set_faults(Faults { bus_down: true, ..Faults::default() });
    let key = json!({"token_hash": hash_hex(), "display_hint": "sk-d...", "allowed_models": []});
    made("PUT", &format!("{base}/v2/routers/{AUTHORITY}/api-keys/demo-key"), &key).await?;
    coordinator.set_faults(Faults::default());
    Ok(())
}

fn hash_hex() -> String {
    token_hash(&Secret::new(KEY)).0.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn lines(places: &Places) -> Vec<Line> {
    let worker = &places.worker;
    let chat = |extra: &str| {
        format!("http://{worker}/v1/chat/completions -H 'Authorization: Bearer {KEY}' {}", chat_body(MODEL, extra))
    };
    let router = format!("http://{}/v2/routers/{AUTHORITY}", places.coordinator);
    let token = manager_headers();
    let [first, second] = ENDPOINTS;
    let put = |model: &str, mappings: &str| {
        format!("curl -s -X PUT {router}/models/{model} {token} -d '{{\"mappings\":[{mappings}]}}'")
    };
    let split = format!("{{\"endpoint_id\":\"{first}\",\"ratio\":0.7}},{{\"endpoint_id\":\"{second}\",\"ratio\":0.3}}");
    let count = format!(
        "for i in $(seq 20); do curl -s -o /dev/null -D - {} | grep -i x-appproxy-backend; done | sort | uniq -c",
        chat("").replace(MODEL, "another")
    );
    let (strict, revoke) = match places.bus {
        Some(_) => ("?strict=true", "revoke the key, and wait until this worker refuses it: chat answers 401 then"),
        None => ("", "revoke the key: chat answers 401 within a second"),
    };
    let switches = places.switches;
    vec![
        Line::new("chat", format!("curl -s {}", chat(""))),
        Line::new("streaming chat", format!("curl -sN {}", chat(",\"stream\":true"))),
        Line::new(
            "the models this key may use",
            format!("curl -s http://{worker}/v1/models -H 'Authorization: Bearer {KEY}'"),
        ),
        Line::new("publish another model", put("another", &format!("{{\"endpoint_id\":\"{first}\",\"ratio\":1}}"))),
        Line::new("split it 7:3", put("another", &split)),
        Line::new("and count twenty requests of it by backend", count),
        Line::new("unpublish it", format!("curl -s -X DELETE {router}/models/another {token}")),
        Line::new("kill a replica: the other one serves", format!("curl -s -X POST http://{switches}/replicas/1/kill")),
        Line::new("start it again", format!("curl -s -X POST http://{switches}/replicas/1/start")),
        Line::new(revoke, format!("curl -s -X DELETE '{router}/api-keys/demo-key{strict}' {token}")),
        Line::new(
            "give it back",
            format!("curl -s -X PUT {router}/api-keys/demo-key {token} -d '{{\"token_hash\":\"{}\"}}'", hash_hex()),
        ),
        Line::new("what the worker counted", format!("curl -s http://{}/metrics", places.admin)),
    ]
}
