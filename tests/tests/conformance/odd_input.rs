//! Odd messages and elements from the control plane: counted by kind, said once, and nothing else changes.

use appproxy_fixtures::wire::{Dialect, Field, envelope::Envelope, event};
use appproxy_tests::shell::Shell;
use appproxy_tests::wait::{self, PATIENCE};
use appproxy_tests::world::{AUTHORITY, World, endpoint};
use serde_json::{Value, json};

const CHANNEL: &str = "events_all-appproxy";

fn malformed(world: &World, kind: &str) -> f64 {
    world.metric(&format!("appproxy_malformed_total{{kind=\"{kind}\"}}"))
}

fn say(world: &mut World, bytes: &[u8]) {
    assert!(
        world.redis().publish(CHANNEL, bytes).expect("redis answers") >= 2,
        "the worker and the coordinator listen"
    );
}

/// An event and its answer have passed through the worker after everything said before.
fn settle(world: &World) {
    assert_eq!(world.publish("fence", &[], &[(1, 1.0)]), "acked");
}

pub(crate) fn malformed_messages_are_counted_by_kind_and_change_nothing(shell: Shell) {
    let mut world = shell.setup().start();
    settle(&world);
    let digest = world.page("/status")["desired_state_digest"].clone();
    let name = "appproxy_circuit_created_event";
    let created = |circuits: &Value| {
        Envelope::from_coordinator(
            name,
            vec![Field::text("target_worker_authority", AUTHORITY), Field::json("circuits", circuits)],
        )
    };
    let envelopes: [&[u8]; 5] = [
        b"\x00\xff\x17 random",
        b"",
        b"[1,2,3]",
        br#"{"name":"appproxy_circuit_created_event""#,
        br#"{"name":7,"source":"x","args":"kpE="}"#,
    ];
    for bytes in envelopes {
        say(&mut world, bytes);
    }
    say(&mut world, &vec![b'['; 200_000]);
    let bodies: [&[u8]; 4] = [
        br#"{"name":"appproxy_circuit_created_event","source":"x","args":"not base64!"}"#,
        br#"{"name":"appproxy_circuit_created_event","source":"x","args":"kpE="}"#,
        br#"{"name":"appproxy_circuit_created_event","source":"x","payload":"{\"target_worker_authority\":"}"#,
        br#"{"name":"appproxy_circuit_created_event","source":"x"}"#,
    ];
    for bytes in bodies {
        say(&mut world, bytes);
    }
    let before = malformed(&world, "circuit");
    say(&mut world, &created(&json!([{"id": "x"}, 7])).bytes(Dialect::Both));
    say(&mut world, &created(&json!("no list")).bytes(Dialect::Both));
    // Each is counted, also where reports stand for many.
    let many: Vec<Value> = (0..250).map(|number| json!({"id": number})).collect();
    say(&mut world, &created(&json!(many)).bytes(Dialect::Args));
    // Nobody's business, and no mistake: an unknown name, another authority, our own ack.
    let quiet = ["envelope", "event_body", "circuit", "publication", "key", "number", "route"];
    settle(&world);
    let counted: Vec<f64> = quiet.iter().map(|kind| malformed(&world, kind)).collect();
    say(&mut world, br#"{"name":"agent_heartbeat","source":"i-1","args":"%%%"}"#);
    say(&mut world, br#"{"name":"session_started_event","source":"i-1"}"#);
    say(&mut world, &event::model_removed("another", "chat").bytes(Dialect::Both));
    say(&mut world, &event::config_applied(AUTHORITY, "node", "key", "all").bytes(Dialect::Both));
    settle(&world);
    assert_eq!(counted, quiet.iter().map(|kind| malformed(&world, kind)).collect::<Vec<f64>>());

    let metrics = world.metrics();
    assert!(malformed(&world, "envelope") + malformed(&world, "event_body") >= 10.0, "{metrics}");
    assert!(malformed(&world, "envelope") >= 5.0 && malformed(&world, "event_body") >= 3.0, "{metrics}");
    assert_eq!(malformed(&world, "circuit"), before + 252.0, "{metrics}");
    assert_eq!(world.page("/status")["desired_state_digest"], digest);
    assert_eq!(world.chat("sk-all", "chat").status(), 200);
    assert_eq!(world.page("/health")["status"], "healthy");
    // One line for each kind and minute.
    let lines = world.worker().log().lines();
    let said = |kind: &str| lines.iter().filter(|line| line.contains(&format!("kind=\"{kind}\""))).count();
    assert_eq!((said("envelope"), said("circuit")), (1, 1), "{}", world.worker().log().tail(40));
}

pub(crate) fn the_good_elements_of_a_broken_batch_are_applied_and_acked(shell: Shell) {
    let mut world = shell.setup().start();
    let good = world.replica("good", &[]);
    // One circuit with a route at port 0 beside a good one, one whose id is none; spelled in upper case and kebab.
    let route = |port: u64| {
        json!({"route-id": null, "session-id": endpoint(5), "kernel-host": "127.0.0.1", "kernel-port": port,
               "protocol": "http", "traffic-ratio": 1.0, "not-known": [1]})
    };
    let circuit = |id: &str| {
        json!({"id": id, "app": "", "protocol": "http", "worker": endpoint(6), "app_mode": "inference",
               "frontend_mode": "router", "envs": {}, "endpoint_id": endpoint(2), "route_info": [route(0), route(good.into())],
               "session_ids": [], "tomorrow": {"a": null}})
    };
    let mut bus = world.redis().subscribe(CHANNEL).unwrap();
    let circuits = [circuit(&endpoint(2).to_uppercase()), circuit("x")];
    let message = event::circuit_created(AUTHORITY, &circuits);
    say(&mut world, &message.bytes(Dialect::Args));
    let ack =
        bus.find(PATIENCE, |bytes| String::from_utf8_lossy(bytes).contains("worker_circuit_added_event")).unwrap();
    let ack: Value = serde_json::from_slice(&ack).unwrap();
    let payload: Value = serde_json::from_str(ack["payload"].as_str().unwrap()).unwrap();
    let echoed = match &payload["circuits"] {
        Value::String(text) => serde_json::from_str(text).unwrap(),
        other => other.clone(),
    };
    assert_eq!(echoed, json!([circuits[0]]), "as it came, unknown fields included");
    assert_eq!(world.publish("batch", &[], &[(2, 1.0)]), "acked");
    for _ in 0..3 {
        assert!(world.chat("sk-all", "batch").text().contains("\"served_by\":\"good\""));
    }
    assert_eq!((malformed(&world, "route"), malformed(&world, "circuit")), (1.0, 1.0), "{}", world.metrics());
    // Told again: nothing changes, and it is acked all the same.
    let digest = world.page("/status")["desired_state_digest"].clone();
    for _ in 0..3 {
        say(&mut world, &message.bytes(Dialect::Payload));
        bus.find(PATIENCE, |bytes| String::from_utf8_lossy(bytes).contains("worker_circuit_added_event")).unwrap();
    }
    assert_eq!(world.page("/status")["desired_state_digest"], digest);
}

pub(crate) fn malformed_elements_of_a_pull_cost_only_themselves(shell: Shell) {
    let world = shell.setup().reconcile("300ms").start();
    let plant = |kind: &str, value: Value| {
        world.done("POST", "/dev/plant", &json!({"authority": AUTHORITY, "kind": kind, "value": value}));
    };
    plant("circuit", json!({"id": "not-a-uuid"}));
    plant(
        "model",
        json!({"model": "planted", "mappings": [{"endpoint_id": endpoint(1), "ratio": "much"}, {"endpoint_id": endpoint(1)}]}),
    );
    plant("model", json!({"aliases": []}));
    plant("key", json!({"key_id": "bad", "token_hash": "short", "allowed_models": []}));
    world.wait_chat("sk-all", "planted", 200, PATIENCE);
    for kind in ["circuit", "mapping", "publication", "key"] {
        wait::until(&format!("a malformed {kind} to be counted"), PATIENCE, || malformed(&world, kind) >= 1.0);
    }
    assert_eq!(world.chat("sk-all", "chat").status(), 200);
    plant("nothing", Value::Null);
    world.wait_chat("sk-all", "planted", 404, PATIENCE);
    assert_eq!(world.chat("sk-all", "chat").status(), 200);
}

/// The samples of the fixtures, each on the wire as it stands: the subscription outlives them all.
pub(crate) fn every_odd_sample_leaves_the_subscription_standing(shell: Shell) {
    let mut world = shell.setup().start();
    let folder = appproxy_tests::repository::root().join("fixtures/data/events/odd");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        say(&mut world, text.as_bytes());
    }
    settle(&world);
    assert_eq!(world.metric("appproxy_bus_connected"), 1.0);
    assert_eq!(world.chat("sk-all", "chat").status(), 200);
}
