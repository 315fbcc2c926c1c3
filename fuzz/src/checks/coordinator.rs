//! What a coordinator says to the worker that bytes drive.

use appproxy_core::worker::Call;
use serde_json::{Value, json};

use super::world::{circuit, publication};

const WORKER: &str = "0a0a0a0a-0000-4000-8000-000000000001";
const MODELS: [&str; 3] = ["m", "n", "o"];

/// A bus event's name and payload. `number` (1 to 3) is whom it is about, `other` what of it changed.
pub(super) fn announced(kind: u8, number: u8, other: u8) -> (&'static str, Value) {
    let model = MODELS[usize::from(number - 1)];
    match kind {
        0 => ("appproxy_circuit_created", json!({"circuits": [circuit(number, other, &[number, other])]})),
        1 => (
            "appproxy_circuit_route_updated",
            json!({
                "circuit": circuit(number, other, &[other]), "routes": circuit(number, other, &[other])["route_info"],
            }),
        ),
        2 => ("appproxy_circuit_removed", json!({"circuits": [circuit(number, other, &[])]})),
        3 => ("appproxy_router_model_updated", json!({"model": publication(model, &["alias"], &[other])})),
        4 => ("appproxy_router_model_removed", json!({ "model_name": model })),
        5 => ("appproxy_router_key_updated", json!({"key_id": format!("k{number}")})),
        _ => ("appproxy_router_key_removed", json!({"key_id": format!("k{number}")})),
    }
}

/// What a coordinator would answer: which entities it lists, `choice` says.
pub(super) fn good_body(call: &Call, choice: u8) -> Vec<u8> {
    let path = &call.request().path_and_query;
    let on = |bit: u8| choice & (1 << bit) != 0;
    let listed = |bits: [u8; 3]| bits.into_iter().zip(1u8..).filter(|(bit, _)| on(*bit)).map(|(_, number)| number);
    let body = if path.contains("/circuits") {
        let circuit = |number| circuit(number, (number + u8::from(on(3))) % 3 + 1, &[number]);
        json!({"circuits": listed([0, 1, 2]).map(circuit).collect::<Vec<_>>()})
    } else if path.contains("/router-config") {
        let models = listed([0, 1, 2]).map(|n| publication(MODELS[usize::from(n - 1)], &["alias"], &[n]));
        let key = |n: u8| json!({"key_id": format!("k{n}"), "token_hash": format!("{n:02x}").repeat(32)});
        json!({
            "revision": choice, "models": models.collect::<Vec<_>>(),
            "api_keys": listed([3, 4, 5]).map(key).collect::<Vec<_>>(),
        })
    } else {
        json!({"id": WORKER, "accepted_traffics": ["inference"], "success": true})
    };
    body.to_string().into_bytes()
}
