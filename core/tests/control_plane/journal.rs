//! The journal: no secret in it, unchanged answers once, damage named.

use appproxy_core::desired::pseudonym;
use appproxy_core::wire::key::TokenHash;
use appproxy_core::worker::journal::{Damaged, Difference, Replay, shown};
use appproxy_core::worker::{Input, TransportFailure};
use serde_json::{Value, json};

use crate::stage::{AUTHORITY, Stage, circuit, key, model, seconds, snapshot};

/// Half of a hash is too much of it, too.
const HALF_LOWER: &str = "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a";
const HALF_UPPER: &str = "5A5A5A5A5A5A5A5A5A5A5A5A5A5A5A5A";
const MARK: &str = "marked-secret";

fn key_hash() -> TokenHash {
    TokenHash([0x5a; 32])
}

/// A publication with a hash where an endpoint's id should be: what is said of it quotes it.
fn misplaced() -> Value {
    json!({"model": "n", "mappings": [{"endpoint_id": "5a".repeat(32)}]})
}

/// A worker that has heard and pulled everything in which a secret may stand.
fn marked() -> Stage {
    let mut with_secrets = circuit(1);
    with_secrets["envs"] = json!({"TOKEN": MARK});
    with_secrets["arguments"] = json!(format!("--api-key {MARK}"));
    with_secrets["unknown"] = json!(MARK);
    let mut a_key = key("k-1");
    a_key["token_hash"] = json!("5a".repeat(32));
    a_key["token"] = json!(MARK);
    let mut not_a_key = key("k-2");
    not_a_key["token_hash"] = json!(MARK);
    let keys = vec![a_key, not_a_key, json!({"token_hash": "5A".repeat(32)})];
    let mut stage = Stage::serving(json!([with_secrets]), snapshot("1", vec![model("m", 1), misplaced()], keys));
    let mut created = circuit(2);
    created["envs"] = json!({"TOKEN": MARK});
    let malformed = json!({"id": "5a".repeat(32), "route_info": 1});
    stage.event("circuit_created", &json!({ "circuits": [created, malformed] }));
    stage.event("router_model_updated", &json!({"model": {"model": "5a".repeat(32), "mappings": 1}}));
    stage.input(Input::BusLost(format!("broken by {}", "5a".repeat(32))));
    stage.pass(seconds(20));
    stage.answer_call("/circuits", 500, &json!({"title": format!("no {}", "5a".repeat(32))}));
    stage
}

fn replayed(text: &str) -> Result<Replay, Damaged> {
    let mut lines = text.lines();
    let mut replay = Replay::begin(lines.next().unwrap_or_default())?;
    lines.try_for_each(|line| replay.feed(line).map(drop))?;
    Ok(replay)
}

#[test]
fn no_secret_is_journalled_and_the_digest_is_the_same() {
    let stage = marked();
    let text = stage.journal();
    for secret in [MARK, HALF_LOWER, HALF_UPPER] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    let pseudonym: String = pseudonym(AUTHORITY, &key_hash()).iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(text.contains(&format!("\"token_hash\":\"{pseudonym}\"")), "{text}");
    let replay = replayed(text).unwrap();
    assert_eq!(replay.worker().desired().digest(), stage.worker.desired().digest());
    assert_eq!(shown::state(replay.worker()), shown::state(&stage.worker));
    let state = shown::state(replay.worker()).to_string();
    assert!(!state.contains(&pseudonym) && state.contains("\"lifecycle\":\"serving\""), "{state}");
}

/// Where a worker is left between two inputs: a part of its journal may begin there.
#[test]
fn no_secret_is_in_a_checkpoint_whatever_the_worker_waits_for() {
    let mut stage = marked();
    stage.confirm_applies = false;
    let mut created = circuit(3);
    created["envs"] = json!({"TOKEN": MARK});
    stage.input(Input::BusUp);
    stage.event("circuit_created", &json!({ "circuits": [created] }));
    assert!(stage.worker.held()[1] > 0, "an ack that echoes the circuit waits for its view");
    assert_unmarked(&stage);
    // One answer of two.
    let mut a_key = key("k-3");
    a_key["token_hash"] = json!("5a".repeat(32));
    let keys = snapshot("2", vec![model("m", 1), misplaced()], vec![a_key]);
    stage.pass(seconds(10));
    stage.answer_call("/router-config", 200, &keys);
    assert!(!stage.has_key("k-3"), "nothing is applied yet");
    assert_unmarked(&stage);
    stage.fail_call("/circuits", TransportFailure::Other("5a".repeat(32)));
    assert_unmarked(&stage);
    while !stage.paths().iter().any(|path| path.ends_with("/circuits")) {
        stage.pass(seconds(1));
    }
    stage.answer_call("/circuits", 200, &json!({"circuits": [{"id": "5a".repeat(32), "route_info": 1}]}));
    assert_unmarked(&stage);
}

#[track_caller]
fn assert_unmarked(stage: &Stage) {
    let text = stage.checkpoint();
    for secret in [MARK, HALF_LOWER, HALF_UPPER] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

#[test]
fn an_answer_that_did_not_change_is_written_once() {
    let circuits: Vec<Value> = (0..100).map(circuit).collect();
    let body = json!({ "circuits": circuits });
    let mut stage = Stage::serving(json!(circuits), snapshot("1", vec![model("m", 1)], vec![]));
    let before = stage.journal().len();
    for _ in 0..5 {
        stage.pass(seconds(15));
        while let Some(at) = stage.calls.iter().position(|call| call.request().method == "PATCH") {
            let call = stage.calls.remove(at);
            stage.answer(call, 200, &json!({}));
        }
        stage.answer_call("/circuits", 200, &body);
        stage.answer_call("/router-config", 304, &json!(null));
    }
    let added = &stage.journal()[before..];
    assert_eq!(added.matches("\"same_as\":").count(), 5, "{added}");
    assert!(added.len() < 10_000, "{} bytes", added.len());
}

#[test]
fn of_an_answer_only_what_differs_is_written() {
    let mut circuits: Vec<Value> = (0..100).map(circuit).collect();
    let keys = |last: u32| (0..last).map(|n| key(&format!("k{n}"))).collect::<Vec<_>>();
    let mut stage = Stage::serving(json!(circuits), snapshot("1", vec![model("m", 1)], keys(50)));
    let before = stage.journal().len();
    circuits.remove(7);
    circuits[3]["route_info"][0]["kernel_port"] = json!(9);
    circuits.push(circuit(100));
    stage.pass(seconds(15));
    stage.answer_call("/circuits", 200, &json!({ "circuits": circuits }));
    stage.answer_call("/router-config", 200, &snapshot("2", vec![model("n", 1)], keys(49)));
    assert!(stage.has_circuit(100) && !stage.has_circuit(7) && stage.serves("n") && !stage.has_key("k49"));
    let added = &stage.journal()[before..];
    assert!(added.contains("\"gone\":{\"circuits\":[\"c0000000-0000-4000-8000-000000000007\"]}"), "{added}");
    assert!(added.contains("\"gone\":{\"models\":[\"m\"],\"keys\":[\"k49\"]}"), "{added}");
    assert_eq!(added.matches("\"kernel_port\"").count(), 2, "{added}");
    assert_eq!(replayed(stage.journal()).unwrap().worker().desired().digest(), stage.worker.desired().digest());
}

#[test]
fn damage_is_named_by_its_line() {
    let stage = marked();
    let lines: Vec<&str> = stage.journal().lines().collect();
    let damaged = |at: usize, line: &str| {
        let mut lines = lines.clone();
        lines[at] = line;
        replayed(&lines.join("\n")).map(drop).unwrap_err()
    };
    let cut = &lines[4][..lines[4].len() / 2];
    assert_eq!(damaged(4, cut).line, 5);
    assert_eq!(damaged(3, lines[4]).line, 4, "a line is missing");
    assert!(damaged(3, lines[4]).problem.contains("input 4, where input 3 should be"));
    assert_eq!(damaged(0, "{}").line, 1);
    let newer = lines[0].replace("{\"journal\":1,", "{\"journal\":2,");
    assert!(damaged(0, &newer).problem.contains("a journal of version 2"));
    let answer = lines.iter().position(|line| line.contains("\"purpose\":\"router_config\"")).unwrap();
    let no_snapshot = lines[answer].replace("\"revision\"", "\"revised\"");
    assert_eq!(damaged(answer, &no_snapshot).line, answer as u64 + 1);
}

#[test]
fn a_difference_names_the_input_that_made_a_backend_and_the_one_that_took_it() {
    let mut stage = Stage::serving(json!([circuit(1)]), snapshot("1", vec![model("m", 1)], vec![key("k")]));
    stage.event("circuit_removed", &json!({ "circuits": [circuit(1)] }));
    let lines: Vec<&str> = stage.journal().lines().collect();
    let mut replay = Replay::begin(lines[0]).unwrap();
    let mut difference = Difference::from(replay.worker(), 0);
    for line in &lines[1..] {
        difference.step(&replay.feed(line).unwrap());
    }
    let text = difference.to(replay.worker(), replay.number());
    let name = "backend appproxy-c0000000-0000-4000-8000-000000000001-r";
    let made = text.lines().find(|line| line.contains(&format!("+ {name}"))).unwrap();
    assert!(made.contains("(answer to call 4 (router_config): 200)"), "{made}");
    let taken = text.lines().find(|line| line.contains(&format!("- {name}"))).unwrap();
    assert!(taken.contains("(event circuit_removed)"), "{taken}");
    assert!(text.contains("+ publication m ") && text.contains("+ key k ") && !text.contains("+ circuit"), "{text}");
    let nothing = Difference::from(replay.worker(), 9).to(replay.worker(), 9);
    assert!(nothing.contains("nothing differs"));
}
