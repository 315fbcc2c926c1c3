//! Every recorded message decodes, to what its plain JSON says.

use appproxy_core::wire::circuit::{Circuit, Protocol};
use appproxy_core::wire::envelope::decode;
use appproxy_core::wire::event::{Decoded, EventKind};
use appproxy_fixtures::wire::envelope::{read_args, read_payload};
use serde_json::{Value, json};

use super::{RELEASES, text};

/// The second and third field of a message, read by the fixtures' own code.
fn fields(message: &Value) -> (String, Vec<Value>) {
    if let Some(args) = message["args"].as_str() {
        let mut texts = read_args(args).expect("the recorded args").into_iter();
        let authority = texts.next().expect("an authority");
        return (authority, texts.map(|text| serde_json::from_str(&text).expect("JSON")).collect());
    }
    let payload = read_payload(text(message, "payload")).expect("the recorded payload");
    let authority = payload["target_worker_authority"].as_str().expect("an authority").to_owned();
    let rest = ["circuits", "circuit", "routes"].into_iter().filter_map(|name| payload.get(name).cloned());
    (authority, rest.collect())
}

/// A circuit as core read it, in the recorded field names.
fn as_recorded(circuit: &Circuit) -> Value {
    let routes: Vec<Value> = circuit
        .routes
        .iter()
        .map(|route| {
            json!({
                "route_id": route.route_id.map(|id| id.to_string()),
                "kernel_host": route.kernel_host.as_deref(),
                "kernel_port": route.kernel_port,
                "http": route.protocol == Protocol::Http,
                "traffic_ratio": route.traffic_ratio.0,
            })
        })
        .collect();
    json!({
        "id": circuit.id.to_string(),
        "endpoint_id": circuit.endpoint_id.map(|id| id.to_string()),
        "subdomain": circuit.subdomain.as_deref(),
        "open_to_public": circuit.open_to_public,
        "allowed_client_ips": circuit.allowed_client_ips.as_deref(),
        "runtime_variant": circuit.runtime_variant.as_deref(),
        "route_info": routes,
    })
}

/// The same fields of the recorded JSON.
fn recorded(circuit: &Value, routes: &Value) -> Value {
    let routes: Vec<Value> = routes
        .as_array()
        .expect("a list of routes")
        .iter()
        .map(|route| {
            json!({
                "route_id": route["route_id"], "kernel_host": route["kernel_host"], "kernel_port": route["kernel_port"],
                "http": route["protocol"] == "http", "traffic_ratio": route["traffic_ratio"],
            })
        })
        .collect();
    let mut kept = json!({ "route_info": routes });
    for name in ["id", "endpoint_id", "subdomain", "open_to_public", "allowed_client_ips", "runtime_variant"] {
        kept[name] = circuit[name].clone();
    }
    kept
}

#[test]
fn every_message_decodes_to_what_it_says() {
    for release in RELEASES {
        let mut seen = [0_usize; 4];
        for line in release.bus() {
            let message: Value = serde_json::from_str(&line).expect("JSON");
            let at = format!("{}: {line}", release.version);
            let name = text(&message, "name");
            if name == "appproxy_worker_circuit_added_event" {
                // Also those that no coordinator took: to us an ack is never more than somebody's ack.
                assert_eq!(decode(line.as_bytes(), "continuum-router-1"), Decoded::NotForUs, "{at}");
                seen[3] += 1;
                continue;
            }
            let (authority, said) = fields(&message);
            assert_eq!(decode(line.as_bytes(), "another"), Decoded::NotForUs, "{at}");
            let Decoded::Event(event) = decode(line.as_bytes(), &authority) else { panic!("{at}") };
            assert!(event.malformed.is_empty(), "{at}: {:?}", event.malformed);
            assert_eq!(event.request_id, None, "{at}");
            match (name, event.kind) {
                ("appproxy_circuit_created_event", EventKind::CircuitsCreated(circuits)) => {
                    let read: Vec<Value> = circuits.iter().map(|received| as_recorded(&received.circuit)).collect();
                    let wanted = said[0].as_array().expect("a list of circuits");
                    let wanted: Vec<Value> = wanted.iter().map(|it| recorded(it, &it["route_info"])).collect();
                    assert_eq!(read, wanted, "{at}");
                    assert_eq!(read.len(), 1, "always one: {at}");
                    seen[0] += 1;
                }
                ("appproxy_circuit_route_updated_event", EventKind::RouteUpdated(circuit)) => {
                    assert_eq!(as_recorded(&circuit), recorded(&said[0], &said[1]), "{at}");
                    seen[1] += 1;
                }
                ("appproxy_circuit_removed_event", EventKind::CircuitsRemoved(ids)) => {
                    let ids: Vec<Value> = ids.iter().map(|id| json!(id.to_string())).collect();
                    let wanted = said[0].as_array().expect("a list of circuits");
                    let wanted: Vec<Value> = wanted.iter().map(|circuit| circuit["id"].clone()).collect();
                    assert_eq!(ids, wanted, "{at}");
                    seen[2] += 1;
                }
                (_, kind) => panic!("{at}: {kind:?}"),
            }
        }
        assert!(seen.iter().all(|count| *count > 2), "{}: {seen:?}", release.version);
    }
}
