//! Of several circuits with one sub-domain the last one told of has it; within one pull the youngest (worker-protocol 9,
//! Legacy).

use appproxy_core::desired::Desired;
use appproxy_core::wire::circuit::Circuit;
use serde_json::{Value, json};

use crate::discovery::{at, stage};
use crate::stage::{Stage, circuit_id, seconds};
use crate::states;

/// Circuit `number` at `foo`, of day `day`.
fn of_day(number: u32, day: u32) -> Value {
    let mut circuit = at(number, "foo", &[]);
    circuit["created_at"] = json!(format!("2026-01-{day:02}T00:00:00"));
    circuit
}

fn created(stage: &mut Stage, circuit: &Value) {
    stage.event("circuit_created", &json!({ "circuits": [circuit] }));
}

#[track_caller]
fn assert_holder(stage: &Stage, number: u32) {
    let holder = stage.view.as_ref().unwrap().registry().at("foo").expect("a circuit");
    assert_eq!(holder.id.to_string(), circuit_id(number));
}

fn pulled(stage: &mut Stage, circuits: Value) {
    stage.pass(seconds(15));
    stage.answer_call("/circuits", 200, &json!({ "circuits": circuits }));
}

#[test]
fn the_last_one_told_of_has_it_however_old_it_is() {
    let mut stage = stage(json!([]));
    for (number, day) in [(1, 3), (2, 2), (3, 1)] {
        created(&mut stage, &of_day(number, day));
        assert_holder(&stage, number);
    }
    // Gone again: the one told of before it. So says a journal's part that began in between, too.
    for (gone, holder) in [(3, 2), (2, 1)] {
        stage.event("circuit_removed", &json!({"circuits": [of_day(gone, 1)]}));
        assert_holder(&stage, holder);
    }
}

#[test]
fn a_pull_settles_it_for_the_youngest() {
    let mut stage = stage(json!([of_day(1, 2)]));
    created(&mut stage, &of_day(2, 1));
    assert_holder(&stage, 2);
    pulled(&mut stage, json!([of_day(1, 2), of_day(2, 1)]));
    assert_holder(&stage, 1);
}

#[test]
fn one_told_of_while_a_pull_is_on_its_way_keeps_it() {
    let mut stage = stage(json!([of_day(1, 2)]));
    stage.pass(seconds(15));
    created(&mut stage, &of_day(2, 1));
    stage.answer_call("/circuits", 200, &json!({"circuits": [of_day(1, 2), of_day(2, 1)]}));
    assert_holder(&stage, 2);
    pulled(&mut stage, json!([of_day(1, 2), of_day(2, 1)]));
    assert_holder(&stage, 1);
}

#[test]
fn one_that_went_and_came_back_by_a_pull_was_not_told_of() {
    let of_day = |number: u128, day: u32| Circuit {
        subdomain: Some("foo".to_owned()),
        created_at: Some(format!("2026-01-{day:02}T00:00:00")),
        ..states::circuit(number, number, vec![])
    };
    let mut desired = Desired::new("worker01");
    desired.upsert_circuit(of_day(1, 2));
    desired.upsert_circuit(of_day(2, 1));
    desired.note_arrival(states::circuit_id(2));
    assert_eq!(desired.holder("foo").map(|circuit| circuit.id), Some(states::circuit_id(2)));
    desired.remove_circuit(states::circuit_id(2));
    desired.upsert_circuit(of_day(2, 1));
    assert_eq!(desired.holder("foo").map(|circuit| circuit.id), Some(states::circuit_id(1)));
}
