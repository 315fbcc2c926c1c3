//! What comes from the coordinator: bus messages and answers.

use appproxy_core::config::worker::EventDialect;
use appproxy_core::limits;
use appproxy_core::wire::circuit::{Circuit, parse_circuits_answer};
use appproxy_core::wire::envelope::{decode, encode_ack};
use appproxy_core::wire::event::{Ack, BusEvent, Decoded, EventKind};
use appproxy_core::wire::ids::NodeId;
use appproxy_core::wire::malformed::{Elements, Malformed, MalformedKind};
use appproxy_core::wire::snapshot::parse_snapshot;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::BTreeSet;

const US: &str = "worker01";
const CREATED: &str = "appproxy_circuit_created_event";
const EVENTS: [&str; 7] = [
    CREATED,
    "appproxy_circuit_route_updated_event",
    "appproxy_circuit_removed_event",
    "appproxy_router_model_updated_event",
    "appproxy_router_model_removed_event",
    "appproxy_router_key_updated_event",
    "appproxy_router_key_removed_event",
];

/// The bytes as a bus message; and, for every event, as the msgpack array of the args dialect and as the payload.
pub fn bus_envelope(bytes: &[u8]) {
    one_message(bytes);
    let msgpack = STANDARD.encode(bytes);
    let payload = String::from_utf8_lossy(bytes);
    for name in EVENTS {
        one_message(serde_json::json!({"name": name, "args": msgpack}).to_string().as_bytes());
        one_message(serde_json::json!({"name": name, "payload": payload}).to_string().as_bytes());
    }
}

fn one_message(bytes: &[u8]) {
    let decoded = decode(bytes, US);
    assert_eq!(decoded, decode(bytes, US), "the same bytes are the same event");
    match decoded {
        Decoded::NotForUs => {}
        Decoded::Malformed(report) => sound_report(&report),
        Decoded::Event(event) => {
            sound_reports(&event.malformed);
            assert_eq!(decode(bytes, "worker02"), Decoded::NotForUs, "an event is for one authority");
            sound_event(&event);
        }
    }
}

fn sound_event(event: &BusEvent) {
    let ack = match &event.kind {
        EventKind::CircuitsCreated(circuits) => {
            circuits.iter().for_each(|received| sound_circuit(&received.circuit));
            Ack::Circuits(circuits.clone())
        }
        EventKind::RouteUpdated(circuit) => return sound_circuit(circuit),
        EventKind::CircuitsRemoved(ids) => {
            assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "ids differ");
            return;
        }
        EventKind::ModelUpdated(publication) => Ack::Model(publication.model.clone()),
        EventKind::ModelRemoved(model) => Ack::Model(model.clone()),
        EventKind::KeyUpdated(key) | EventKind::KeyRemoved(key) => Ack::Key(key.clone()),
    };
    let node = NodeId("b3f1c0de-0000-4000-8000-000000000001".parse().expect("a UUID"));
    for dialect in [EventDialect::Both, EventDialect::Args, EventDialect::Payload] {
        let bytes = encode_ack(&ack, US, node, event.request_id.as_deref(), dialect);
        assert_eq!(decode(&bytes, US), Decoded::NotForUs, "our own acks are not for us");
        let text = String::from_utf8(bytes).expect("acks are JSON");
        serde_json::from_str::<serde_json::Value>(&text).expect("acks are JSON");
        if let Ack::Circuits(_) = ack {
            let again = text.replacen("appproxy_worker_circuit_added_event", CREATED, 1);
            let Decoded::Event(again) = decode(again.as_bytes(), US) else { panic!("an echo that cannot be read") };
            assert_eq!((&again.kind, &again.request_id), (&event.kind, &event.request_id), "an echo reads the same");
        }
    }
}

/// The bytes as the answer of a router-config pull.
pub fn snapshot_body(bytes: &[u8]) {
    let Some(snapshot) = sound_answer(bytes, parse_snapshot(bytes)) else { return };
    sound_reports(&snapshot.forgiven);
    assert!(
        snapshot.forgiven.is_empty() || serde_json::from_slice::<serde_json::Value>(bytes).is_err(),
        "JSON needs no forgiveness"
    );
    sound_elements(&snapshot.models, |model| model.model.to_string());
    sound_elements(&snapshot.keys, |key| key.key_id.to_string());
    for model in &snapshot.models.good {
        assert!(!model.model.is_empty() && !model.aliases.contains(&model.model));
        assert!(model.mappings.iter().all(|mapping| mapping.ratio.0.is_finite()));
    }
}

/// The bytes as the answer of a circuits pull.
pub fn circuits_body(bytes: &[u8]) {
    let Some(elements) = sound_answer(bytes, parse_circuits_answer(bytes)) else { return };
    sound_elements(&elements, |circuit| circuit.id.to_string());
    elements.good.iter().for_each(sound_circuit);
}

fn sound_answer<T: PartialEq + std::fmt::Debug>(bytes: &[u8], answer: Result<T, Malformed>) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer),
        Err(report) => {
            assert_eq!(report.kind, MalformedKind::RestBody, "{bytes:?}");
            sound_report(&report);
            None
        }
    }
}

fn sound_circuit(circuit: &Circuit) {
    assert!(circuit.subdomain.as_ref().is_none_or(|name| !name.is_empty()));
    assert!(circuit.routes.is_sorted_by(|one, next| one.index < next.index), "places in the list");
    for route in &circuit.routes {
        assert!(route.kernel_port > 0 && route.traffic_ratio.0.is_finite());
        let host = route.kernel_host.as_deref().unwrap_or("localhost");
        let name = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        assert!(!name.is_empty() && !name.contains(['/', '@', '?', '#', ' ', '\n']), "{host:?}");
    }
}

fn sound_elements<T>(elements: &Elements<T>, id_of: impl Fn(&T) -> String) {
    sound_reports(&elements.malformed);
    let good: BTreeSet<String> = elements.good.iter().map(id_of).collect();
    assert_eq!(good.len(), elements.good.len(), "ids differ");
    assert!(elements.skipped_ids.iter().all(|id| !good.contains(id)), "an element is good or skipped");
    let skipped = !elements.skipped_ids.is_empty() || elements.unreadable;
    assert!(!skipped || !elements.malformed.is_empty(), "nothing is skipped silently");
}

fn sound_reports(reports: &[Malformed]) {
    // One body has two lists at most: what is forgiven in it, and its elements.
    assert!(reports.len() <= 2 * (limits::REPORTED_ELEMENTS + 10), "{} reports", reports.len());
    reports.iter().for_each(sound_report);
}

fn sound_report(report: &Malformed) {
    assert!(!report.problem.is_empty());
    assert!(!report.to_string().chars().any(|c| c.is_ascii_control()), "{report:?}");
    let mut run = 0;
    for c in report.problem.chars() {
        run = if c.is_ascii_hexdigit() { run + 1 } else { 0 };
        assert!(run < 64, "a report holds what may be a hash: {report:?}");
    }
}
