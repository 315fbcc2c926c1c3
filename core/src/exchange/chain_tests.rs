use crate::exchange::choosing::tests::{again, body_of, chained, committed, many, names};
use crate::exchange::testing::{self, chat, header, request, said};
use crate::exchange::{FailStage, Failure, KeyGate};
use crate::wire::circuit::Ratio;
use crate::wire::ids::EndpointId;
use crate::wire::publication::{ControlMode, Mapping, Publication};

#[test]
fn r3_a_stand_in_is_resolved_rewritten_and_named() {
    // `some` may use m1 and nothing else that is served; the chain is the operator's, over static models too.
    let mut world = chained(&[("m1", &["not-there", "a1", "m1", "g"])]);
    let (attempt, _) = world.first(chat("some"), "m1").unwrap();
    let (attempt, sent) = world.fail(attempt, FailStage::Connect, Failure::Broke).unwrap();
    assert_eq!(&*attempt.backend().name, "openai");
    assert_eq!(header(sent.headers(), "authorization"), "Bearer backend-secret");
    assert_eq!(body_of(sent), "{\"model\":\"gpt\"}");
    let (committed, head) = committed(world.reply(attempt, 200));
    for (name, value) in [("x-appproxy-model", "m1"), ("x-appproxy-fallback", "g"), ("x-appproxy-backend", "openai")] {
        assert_eq!(header(&head.headers, name), value);
    }
    assert_eq!(committed.trail().attempts(), 2);
}

#[test]
fn r3_an_alias_has_the_chain_of_its_model_and_a_model_without_replicas_begins_with_it() {
    let mut world = chained(&[("empty", &["two"]), ("m1", &["two"])]);
    world.rules.rewrite_model = crate::exchange::RewriteModel::Never;
    let (attempt, sent) = world.first(chat("all"), "empty").unwrap();
    assert_eq!(body_of(sent), "{\"model\":\"two\"}");
    assert_eq!(committed(world.reply(attempt, 200)).0.trail().attempts(), 1);
    let (attempt, _) = world.first(chat("all"), "a1").unwrap();
    let (_, sent) = world.fail(attempt, FailStage::Connect, Failure::Broke).unwrap();
    assert_eq!(body_of(sent), "{\"model\":\"two\"}");
}

#[test]
fn r3_nothing_is_tried_twice_and_nothing_left_is_the_last_answer() {
    let mut world = chained(&[("m1", &["org/c", "two"])]);
    // `org/c` stands on the same replica as m1: no candidate, since it was tried.
    let (attempt, _) = world.first(chat("all"), "m1").unwrap();
    let (attempt, _) = world.fail(attempt, FailStage::AwaitHead, Failure::Broke).unwrap();
    let choosing = again(world.reply(attempt, 502));
    let (attempt, _) = world.send(choosing).unwrap();
    let (committed, head) = committed(world.reply(attempt, 503));
    assert_eq!((head.status.as_u16(), header(&head.headers, "x-appproxy-fallback")), (503, "two"));
    assert_eq!(header(&head.headers, "retry-after"), "1");
    let tried = names(committed.trail());
    assert_eq!(tried.len(), 3);
    assert!(tried[0] != tried[1] && tried[1] != tried[2] && tried[0] != tried[2]);
}

#[test]
fn r3_a_stand_in_that_does_not_speak_the_surface_is_passed_over() {
    let mut world = chained(&[("empty", &["claude", "m1"]), ("gpt", &["claude"])]);
    let (attempt, _) = world.first(chat("all"), "empty").unwrap();
    assert_eq!(committed(world.reply(attempt, 200)).1.headers["x-appproxy-fallback"], "m1");
    let rerank = request("POST", "/rerank", &["x-api-key: root"]);
    assert_eq!(said(&world.first(rerank, "gpt").unwrap_err()), "501 not_supported");
}

#[test]
fn r3_another_name_of_the_same_model_is_no_stand_in() {
    let mut world = chained(&[("two", &["second", "m1"])]);
    (world.rules.max_retries, world.rules.key_gate) = (0, KeyGate::Open);
    let mut desired = testing::desired();
    let mapping = Mapping { endpoint_id: EndpointId(uuid::Uuid::from_u128(2)), ratio: Ratio(1.0) };
    desired.upsert_publication(Publication {
        model: "two".into(),
        aliases: vec!["second".into()],
        mappings: vec![mapping],
        control_mode: ControlMode::Manual,
    });
    world.show(&mut desired);
    let (attempt, _) = world.first(chat("x"), "two").unwrap();
    let (attempt, sent) = world.fail(attempt, FailStage::Connect, Failure::Broke).unwrap();
    assert_eq!(body_of(sent), "{\"model\":\"m1\"}");
    assert_eq!(committed(world.reply(attempt, 200)).0.trail().attempts(), 2);
}

#[test]
fn with_the_budget_spent_another_replica_of_the_model_comes_before_a_stand_in_once() {
    let of_three = |chain: &[&str], retries| {
        let chained = chained(&[("many", chain)]);
        let mut world = many(3);
        (world.rules.fallbacks, world.rules.max_retries) = (chained.rules.fallbacks, retries);
        world.rules.key_gate = KeyGate::Open;
        while world.budget.take(world.now.moment) {}
        let (attempt, _) = world.first(chat("all"), "many").unwrap();
        let second = world.fail(attempt, FailStage::Connect, Failure::Broke);
        (world, second)
    };
    let (mut world, second) = of_three(&["stand-in"], 2);
    let (attempt, sent) = second.unwrap();
    assert_eq!(body_of(sent), "{\"model\":\"many\"}");
    // Once: the budget is there for a model that fails as a whole, and a third replica of it is asked no more.
    let (attempt, sent) = world.fail(attempt, FailStage::Connect, Failure::Broke).unwrap();
    assert_eq!(body_of(sent), "{\"model\":\"stand-in\"}");
    let (committed, head) = committed(world.reply(attempt, 200));
    assert_eq!(header(&head.headers, "x-appproxy-fallback"), "stand-in");
    let tried = names(committed.trail());
    assert!(tried.len() == 3 && tried[0] != tried[1] && tried[2] == "other", "{tried:?}");
    // It has the stand-in's place: where nothing would stand in, or no further candidate may be asked, there is none.
    assert_eq!(said(&of_three(&["not-there", "many"], 2).1.unwrap_err()), "502 upstream_error");
    assert_eq!(body_of(of_three(&["stand-in"], 0).1.unwrap().1), "{\"model\":\"stand-in\"}");
}
