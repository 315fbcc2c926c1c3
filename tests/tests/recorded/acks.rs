//! The acks that released coordinators took and did not take, and ours.

use appproxy_core::config::worker::EventDialect;
use appproxy_core::wire::envelope::{CHANNEL, decode, encode_ack};
use appproxy_core::wire::event::{Ack, Decoded, EventKind};
use appproxy_core::wire::ids::NodeId;
use appproxy_fixtures::wire::envelope::{read_args, read_payload};
use appproxy_fixtures::wire::{AckRead, read_ack};
use serde_json::Value;
use uuid::Uuid;

use super::{RELEASES, Release, text};

/// Whether the reader takes an ack as one of some circuit. Which circuit a coordinator waits for is no matter of form.
fn taken(release: &Release, bytes: &[u8]) -> bool {
    matches!(read_ack(bytes, release.dialect), AckRead::Circuits(ids) if !ids.is_empty())
}

#[test]
fn the_strict_reader_takes_what_the_coordinators_took_and_nothing_else() {
    for release in RELEASES {
        let rows = release.rows("acks.json");
        let (mut good, mut bad) = (0, 0);
        for row in &rows {
            let variant = text(row, "variant");
            let accepted = row["accepted"].as_bool().expect("accepted");
            if text(row, "channel") != CHANNEL || variant == "another circuit only" {
                assert!(!accepted, "{variant}: heard elsewhere, or of another circuit");
                continue;
            }
            let published = row["published"].as_array().expect("what was published");
            for message in published {
                let message = message.as_str().expect("a message");
                assert_eq!(taken(&release, message.as_bytes()), accepted, "{} {variant}", release.version);
            }
            if accepted { good += 1 } else { bad += 1 }
        }
        assert!(good > 20 && bad > 20, "{}: {good} taken, {bad} not", release.version);
    }
}

/// The circuits of a message, as text where that is how they travel.
fn circuits(message: &Value) -> Vec<Value> {
    let list = match message["args"].as_str() {
        Some(args) => serde_json::from_str(&read_args(args).expect("args")[1]).expect("a list"),
        None => read_payload(text(message, "payload")).expect("a payload")["circuits"].clone(),
    };
    let Value::Array(circuits) = list else { panic!("{list}") };
    circuits
}

#[test]
fn our_acks_of_recorded_events_are_taken_by_both_releases() {
    let node = NodeId(Uuid::from_u128(7));
    let mut acked = 0;
    for release in RELEASES {
        for line in release.bus() {
            let message: Value = serde_json::from_str(&line).expect("JSON");
            for authority in ["continuum-router-1", "stock-worker-1"] {
                let Decoded::Event(event) = decode(line.as_bytes(), authority) else { continue };
                let EventKind::CircuitsCreated(received) = event.kind else { continue };
                let wanted = circuits(&message);
                let ids: Vec<Uuid> = received.iter().map(|received| received.circuit.id.0).collect();
                let ack = Ack::Circuits(received);
                let bytes = encode_ack(&ack, authority, node, event.request_id.as_deref(), EventDialect::Both);
                for reader in RELEASES {
                    let read = read_ack(&bytes, reader.dialect);
                    assert_eq!(read, AckRead::Circuits(ids.clone()), "of {} by {}", release.version, reader.version);
                }
                // The circuits come back whole, in both bodies.
                let written: Value = serde_json::from_slice(&bytes).expect("JSON");
                let mut args = written.clone();
                args.as_object_mut().expect("an object").remove("payload");
                assert_eq!(circuits(&args), wanted, "{line}");
                let mut payload = written.clone();
                payload.as_object_mut().expect("an object").remove("args");
                assert_eq!(circuits(&payload), wanted, "{line}");
                assert_eq!(written["metadata"], r#"{"request_id":null,"user":null}"#);
                // One body alone is taken by its own release.
                let own = match release.dialect {
                    appproxy_fixtures::wire::Dialect::Args => EventDialect::Args,
                    _ => EventDialect::Payload,
                };
                assert!(taken(&release, &encode_ack(&ack, authority, node, None, own)), "{}", release.version);
                acked += 1;
            }
        }
    }
    assert!(acked > 10, "{acked} events were acked");
}
