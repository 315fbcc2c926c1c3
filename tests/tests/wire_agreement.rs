//! Two implementations written from the protocol reference, each without a look at the other, must agree: `fixtures`
//! writes what core reads, and reads, as strictly as the released coordinators do, what core writes.

use std::path::{Path, PathBuf};

use appproxy_core::config::worker::EventDialect;
use appproxy_core::wire::circuit::parse_circuits_answer;
use appproxy_core::wire::envelope::{self, decode, encode_ack};
use appproxy_core::wire::event::{Ack, BusEvent, Decoded, EventKind};
use appproxy_core::wire::ids::{CircuitId, KeyId, NodeId};
use appproxy_core::wire::snapshot::parse_snapshot;
use appproxy_fixtures::wire::samples::{self, AUTHORITY, NODE_ID};
use appproxy_fixtures::wire::{self, AckRead, Dialect, event, read_ack};
use uuid::Uuid;

fn data(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/data").join(path)
}

#[track_caller]
fn sample(path: &str) -> Vec<u8> {
    std::fs::read(data(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every sample of a folder, by name.
fn folder(path: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(data(path))
        .expect("the samples' folder")
        .map(|entry| {
            let entry = entry.expect("a sample");
            let name = entry.file_name().to_string_lossy().trim_end_matches(".json").to_owned();
            (name, std::fs::read(entry.path()).expect("a sample"))
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no sample in {path}");
    files
}

#[track_caller]
fn event_of(bytes: &[u8]) -> BusEvent {
    match decode(bytes, AUTHORITY) {
        Decoded::Event(event) => event,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_channel_is_the_same() {
    assert_eq!(envelope::CHANNEL, wire::CHANNEL);
}

#[test]
fn core_reads_the_same_from_every_dialect() {
    let payload = folder("events/payload");
    for dialect in ["args", "both"] {
        for ((name, bytes), (other_name, other)) in folder(&format!("events/{dialect}")).iter().zip(&payload) {
            assert_eq!(name, other_name);
            assert_eq!(decode(bytes, AUTHORITY), decode(other, AUTHORITY), "{dialect}/{name}");
        }
    }
}

#[test]
fn core_understands_what_each_sample_is_called_after() {
    for (name, bytes) in folder("events/payload") {
        let read = decode(&bytes, AUTHORITY);
        if name.starts_with("ack-") || name.ends_with("-elsewhere") {
            assert_eq!(read, Decoded::NotForUs, "{name}");
            continue;
        }
        let Decoded::Event(event) = read else { panic!("{name}: {read:?}") };
        assert!(event.malformed.is_empty(), "{name}: {:?}", event.malformed);
        let label = event.kind.label();
        assert!(name.starts_with(&label.replace('_', "-")), "{name} was read as {label}");
    }
    for (name, bytes) in folder("events/odd") {
        let read = decode(&bytes, AUTHORITY);
        let as_wanted = match name.as_str() {
            "unknown-event" => matches!(read, Decoded::NotForUs),
            name if name.starts_with("malformed-") => matches!(read, Decoded::Malformed(_)),
            _ => matches!(read, Decoded::Event(_)),
        };
        assert!(as_wanted, "{name}: {read:?}");
    }
    let (elsewhere, here) = ("events/payload/circuit-created-elsewhere.json", "events/payload/circuit-created.json");
    assert_eq!(decode(&sample(elsewhere), "another-worker"), decode(&sample(here), AUTHORITY));
}

#[test]
fn what_core_reads_of_a_circuit_is_what_was_written() {
    let written = samples::routed_circuit();
    let bytes = event::route_updated(AUTHORITY, &written).bytes(Dialect::Both);
    let EventKind::RouteUpdated(read) = event_of(&bytes).kind else { panic!("no route update") };
    assert_eq!(read.id, CircuitId(written.id));
    assert_eq!(read.endpoint_id.map(|id| id.0), written.endpoint_id);
    assert_eq!(read.routes.len(), written.route_info.len());
    for (read, written) in read.routes.iter().zip(&written.route_info) {
        assert_eq!(read.route_id.map(|id| id.0), written.route_id);
        assert_eq!(read.kernel_host.as_deref(), written.kernel_host.as_deref());
        assert_eq!(u64::from(read.kernel_port), u64::from(written.kernel_port));
        assert!((read.traffic_ratio.0 - written.traffic_ratio).abs() < f64::EPSILON);
    }
}

#[test]
fn core_reads_the_rest_bodies() {
    let circuits = parse_circuits_answer(&sample("rest/circuits.json")).unwrap();
    assert_eq!(circuits.good.len(), 2);
    assert!(circuits.malformed.is_empty() && !circuits.unreadable);
    assert!(parse_circuits_answer(&sample("rest/circuits-empty.json")).unwrap().good.is_empty());

    let snapshot = parse_snapshot(&sample("rest/router-config.json")).unwrap();
    assert_eq!(&*snapshot.revision.0, "42");
    assert_eq!((snapshot.models.good.len(), snapshot.keys.good.len()), (2, 2));
    assert!(snapshot.models.malformed.is_empty() && snapshot.keys.malformed.is_empty() && snapshot.forgiven.is_empty());
    let key = snapshot.keys.good.iter().find(|key| key.key_id.as_str() == "key-abc").unwrap();
    let hash: String = key.token_hash.0.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hash, appproxy_fixtures::ids::sha256_hex(samples::API_KEY));

    let other = parse_snapshot(&sample("rest/router-config-other-names.json")).unwrap();
    assert_eq!(&*other.revision.0, "43");
    assert_eq!((other.models.good.len(), other.keys.good.len()), (1, 1));
    let empty = parse_snapshot(&sample("rest/router-config-empty.json")).unwrap();
    assert!(empty.models.good.is_empty() && empty.keys.good.is_empty());
}

const WRITTEN: [(EventDialect, &[Dialect]); 3] = [
    (EventDialect::Both, &[Dialect::Both, Dialect::Args, Dialect::Payload]),
    (EventDialect::Args, &[Dialect::Args, Dialect::Both]),
    (EventDialect::Payload, &[Dialect::Payload, Dialect::Both]),
];

#[test]
fn the_coordinators_take_every_ack_that_core_writes() {
    let node = NodeId(Uuid::parse_str(NODE_ID).unwrap());
    let mut acks = Vec::new();
    for (folder_name, name) in [
        ("payload", "circuit-created"),
        ("payload", "circuit-created-grouped"),
        ("args", "circuit-created-legacy"),
        ("args", "circuit-created"),
        ("both", "circuit-created-grouped"),
        ("odd", "created-uppercase-id-and-unknown-key"),
        ("odd", "created-one-good-one-broken"),
    ] {
        let event = event_of(&sample(&format!("events/{folder_name}/{name}.json")));
        let EventKind::CircuitsCreated(circuits) = event.kind else { panic!("{name}") };
        let ids: Vec<Uuid> = circuits.iter().map(|received| received.circuit.id.0).collect();
        assert!(!ids.is_empty(), "{name}");
        acks.push((Ack::Circuits(circuits), event.request_id, AckRead::Circuits(ids)));
    }
    for (kind, id) in [("model", "llama-4-chat"), ("model", "모델/\"한국어\"\\"), ("key", "key-abc"), ("key", "")]
    {
        let ack = if kind == "model" { Ack::Model(id.into()) } else { Ack::Key(KeyId(id.into())) };
        let applied = wire::ack::Applied {
            authority: AUTHORITY.into(),
            node_id: NODE_ID.into(),
            kind: kind.into(),
            id: id.into(),
        };
        acks.push((ack, None, AckRead::Applied(applied)));
    }
    for (ack, request_id, expected) in acks {
        for request_id in [request_id, Some("r\"1\\".to_owned())] {
            for (written, readers) in WRITTEN {
                let bytes = encode_ack(&ack, AUTHORITY, node, request_id.as_deref(), written);
                assert_eq!(decode(&bytes, AUTHORITY), Decoded::NotForUs, "our own ack is not for us");
                for reader in readers {
                    assert_eq!(read_ack(&bytes, *reader), expected, "{written:?} read as {reader:?}");
                }
            }
        }
    }
}

#[test]
fn core_writes_the_sampled_acks_byte_for_byte_in_the_args_dialect() {
    let node = NodeId(Uuid::parse_str(NODE_ID).unwrap());
    let golden = encode_ack(&Ack::Circuits(Vec::new()), "worker01", node, None, EventDialect::Args);
    let model = encode_ack(&Ack::Model("llama-4-chat".into()), AUTHORITY, node, None, EventDialect::Args);
    let key = encode_ack(&Ack::Key(KeyId("key-abc".into())), AUTHORITY, node, None, EventDialect::Args);
    for (written, name) in
        [(golden, "ack-circuit-added-golden"), (model, "ack-model-applied"), (key, "ack-key-applied")]
    {
        let expected = sample(&format!("events/args/{name}.json"));
        assert_eq!(String::from_utf8_lossy(&written), String::from_utf8_lossy(&expected), "{name}");
    }
}

#[test]
fn a_reader_that_takes_everything_would_be_noticed() {
    let node = NodeId(Uuid::parse_str(NODE_ID).unwrap());
    let ack = encode_ack(&Ack::Key(KeyId("k".into())), AUTHORITY, node, None, EventDialect::Args);
    assert!(matches!(read_ack(&ack, Dialect::Payload), AckRead::Refused(_)), "a body in the other dialect is no body");
}
