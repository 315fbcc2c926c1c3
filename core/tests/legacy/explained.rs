//! `explain` on a wildcard worker is the request: same verdict, same candidates, and what it takes for granted is said
//! (data-plane 1).

use std::collections::BTreeSet;
use std::sync::Arc;

use appproxy_core::desired::Learned;
use appproxy_core::exchange::{AccessToken, Explanation, Fallbacks, Question};
use appproxy_core::serving::Drain;
use appproxy_core::wire::circuit::Circuit;
use proptest::prelude::*;

use crate::states::{circuit_id, endpoint_id};
use crate::world::{World, at, chat, open, replica, token_until};

const CIRCUITS: u128 = 4;
const DOMAIN: &str = "models.example.com";

fn asks(model: &str, label: Option<&str>, access_token: Option<AccessToken>) -> Question {
    let host = label.map(|label| format!("{label}.{DOMAIN}"));
    Question { model: model.into(), host, access_token, client: Some([192, 0, 2, 1].into()), ..Question::default() }
}

fn verdict(told: &Explanation) -> String {
    told.refusal.as_ref().map_or_else(|| "served".to_owned(), |refusal| format!("{} {}", refusal.status, refusal.code))
}

fn private() -> World {
    World::new(vec![at(1, "a", 2), open(at(2, "b", 1))]).list(1, &["m"]).list(2, &["n"])
}

#[test]
fn a_good_token_is_assumed_and_said_and_can_be_left_out() {
    let mut world = private();
    let of_one = circuit_id(1).to_string();
    for label in [None, Some("a")] {
        let told = world.explain(&asks("m", label, None));
        assert_eq!((verdict(&told), told.served), ("served".to_owned(), true), "{label:?}");
        assert!(told.assumed.as_ref().is_some_and(|assumed| assumed.contains(&of_one)), "{told:?}");
        assert!(told.to_string().contains("--access-token none"), "{told}");

        let told = world.explain(&asks("m", label, Some(AccessToken::Absent)));
        assert_eq!((verdict(&told), told.assumed.as_deref()), ("401 missing_token".to_owned(), None), "{label:?}");
        let told = world.explain(&asks("m", label, Some(AccessToken::Of(circuit_id(2)))));
        assert_eq!((verdict(&told), told.assumed.as_deref()), ("401 token_mismatch".to_owned(), None), "{label:?}");
    }
    // Nothing is assumed where no token is looked at.
    for label in [None, Some("b")] {
        let told = world.explain(&asks("n", label, None));
        assert_eq!((verdict(&told), told.assumed), ("served".to_owned(), None), "{label:?}");
    }
}

#[test]
fn the_gates_are_named_for_what_they_look_at() {
    let mut world = private();
    let gates = |told: &Explanation| told.steps.iter().map(|step| step.gate).collect::<Vec<_>>();
    let served = world.explain(&asks("m", Some("a"), None));
    assert_eq!(gates(&served), ["host", "token", "address", "rate", "model", "replica"]);
    assert_eq!(gates(&world.explain(&asks("m", Some("nobody"), None))), ["host"]);
    assert_eq!(gates(&world.explain(&asks("m", Some("a"), Some(AccessToken::Absent)))), ["token"]);
}

#[test]
fn a_key_of_the_operator_is_shown_in_the_tokens_stead() {
    let mut world = private();
    let key_id = || Some("root".to_owned());
    let told = world.explain(&Question { key_id: key_id(), ..asks("spare-model", None, None) });
    assert_eq!((verdict(&told), told.assumed.as_deref()), ("served".to_owned(), None));
    assert!(told.to_string().contains("by `backends` of the configuration"), "{told}");
    let told = world.explain(&Question { key_id: key_id(), ..asks("m", None, None) });
    assert_eq!(verdict(&told), "401 missing_token");
    // Without it the name does not exist, and why is said.
    let told = world.explain(&asks("spare-model", None, None));
    let last = told.steps.last().expect("a step");
    let cure = last.to_change.as_deref();
    assert!(verdict(&told) == "404 model_not_found" && cure.is_some_and(|cure| cure.contains("`backends`")));
    let told = world.explain(&Question { key_id: Some("nobody".to_owned()), ..asks("m", None, None) });
    assert_eq!(verdict(&told), "401 invalid_api_key");
}

#[test]
fn an_address_that_was_not_given_is_asked_for() {
    let listed = Circuit { allowed_client_ips: Some("192.0.2.0/24".to_owned()), ..open(at(1, "a", 1)) };
    let mut world = World::new(vec![listed]).list(1, &["m"]);
    for (label, gate) in [(None, "model"), (Some("a"), "address")] {
        assert_eq!(verdict(&world.explain(&asks("m", label, None))), "served", "{label:?}");
        let told = world.explain(&Question { client: None, ..asks("m", label, None) });
        assert_eq!(verdict(&told), "403 ip_not_allowed", "{label:?}");
        let last = told.steps.last().expect("a step");
        assert!(last.gate == gate && last.because.contains("no client address was given"), "{last:?}");
        assert!(last.to_change.as_deref().is_some_and(|cure| cure.contains("--client-ip")), "{last:?}");
    }
}

#[test]
fn a_circuit_that_an_operator_drained_is_to_be_undrained() {
    let mut world = World::new(vec![open(at(1, "a", 2)), open(at(2, "b", 0))]).list(1, &["m"]).list(2, &["m"]);
    for at in 0..2 {
        world.serving.drain(&Drain { backend: replica(1, at).into(), out: true });
    }
    world.show();
    let cure = |told: &Explanation| told.steps.last().and_then(|step| step.to_change.clone()).expect("a cure");
    let drained = "drained by an operator on this node (2 replicas): POST /admin/backends/NAME/undrain";
    let pinned = world.explain(&asks("m", Some("a"), None));
    assert!(verdict(&pinned) == "503 model_unavailable" && cure(&pinned).starts_with(drained), "{pinned}");
    // On the aggregation surface every circuit of the model counts.
    let told = world.explain(&asks("m", None, None));
    assert!(cure(&told).contains(drained) && cure(&told).contains("no replica (1 endpoint): start one"), "{told}");
}

#[test]
fn nothing_stands_in_for_what_goes_through_as_it_is() {
    let mut world = World::new(vec![open(at(1, "a", 0))]);
    world.desired.learn(endpoint_id(1), Some(Learned::Opaque));
    world.show();
    world.rules.fallbacks = Fallbacks::new(&[(Arc::from("m"), vec![Arc::from("spare-model")])].into());
    let told = world.explain(&asks("m", Some("a"), None));
    assert!(verdict(&told) == "503 model_unavailable" && told.fallback.is_empty(), "{told}");
}

#[test]
fn every_circuit_that_may_be_drawn_is_shown() {
    let circuits = vec![at(1, "a", 1), open(at(2, "b", 1)), open(at(3, "c", 0))];
    let mut world = World::new(circuits).list(1, &["m"]).list(2, &["m"]).list(3, &["m"]);
    let told = world.explain(&asks("m", None, None));
    assert_eq!(reachable(&told), BTreeSet::from([replica(1, 0), replica(2, 0)]));
    assert!(told.to_string().contains("one of 2 circuits is drawn"), "{told}");
}

/// The replicas that are said to get a share.
fn reachable(told: &Explanation) -> BTreeSet<String> {
    let replicas = told.pool.iter().chain(&told.siblings).flat_map(|pool| pool.replicas());
    replicas.filter(|replica| replica.share > 0.0).map(|replica| replica.backend.to_string()).collect()
}

fn any_circuit() -> impl Strategy<Value = Circuit> {
    let label = prop::sample::select(vec!["a", "b", "c"]);
    let ips = prop_oneof![3 => Just(None), 1 => Just(Some("10.0.0.0/8")), 1 => Just(Some("192.0.2.0/24"))];
    (1..=CIRCUITS, label, 0..3_u128, any::<bool>(), ips).prop_map(|(number, label, replicas, public, ips)| {
        let circuit = at(number, label, replicas);
        let circuit = if public { open(circuit) } else { circuit };
        Circuit { allowed_client_ips: ips.map(str::to_owned), ..circuit }
    })
}

fn any_learned() -> impl Strategy<Value = Option<Learned>> {
    let names = prop::collection::vec(prop::sample::select(vec!["m", "n"]), 1..3);
    prop_oneof![
        4 => names.prop_map(|names| Learned::of_list(names.into_iter().map(Arc::from))),
        1 => Just(Some(Learned::Opaque)),
        1 => Just(None),
    ]
}

proptest! {
    #[test]
    fn the_explanation_is_what_happens(
        circuits in prop::collection::vec(any_circuit(), 1..6),
        learned in prop::collection::vec((1..=CIRCUITS, any_learned()), 1..6),
        label in prop::sample::select(vec![None, None, Some("a"), Some("b"), Some("nobody")]),
        model in prop::sample::select(vec!["m", "n", "spare-model", "unknown"]),
        token in prop_oneof![
            2 => Just(None), 1 => Just(Some(None)), 2 => (1..=CIRCUITS).prop_map(|of| Some(Some(of))),
        ],
        own_key in any::<bool>(),
        chain in prop::sample::select(vec![None, Some("n"), Some("spare-model")]),
    ) {
        let mut world = World::new(circuits);
        for (endpoint, learned) in learned {
            world.desired.learn(endpoint_id(endpoint), learned);
        }
        world.show();
        if let Some(chain) = chain {
            let chains = ["m", "unknown"].map(|model| (Arc::from(model), vec![Arc::from(chain)]));
            world.rules.fallbacks = Fallbacks::new(&chains.into_iter().collect());
        }
        let access_token = token.map(|of| of.map_or(AccessToken::Absent, |of| AccessToken::Of(circuit_id(of))));
        let key_id = own_key.then(|| "root".to_owned());
        let told = world.explain(&Question { key_id, ..asks(model, label, access_token) });

        // What was assumed is what the request shows, and nothing else is.
        let assumed = (1..=CIRCUITS).find(|number| {
            told.assumed.as_ref().is_some_and(|assumed| assumed.contains(&circuit_id(*number).to_string()))
        });
        prop_assert!(assumed.is_some() == told.assumed.is_some() && (assumed.is_none() || token.is_none()));
        let mut lines = Vec::new();
        if let Some(of) = assumed.or_else(|| token.flatten()) {
            lines.push(format!("authorization: BackendAI {}", token_until(of, 600)));
        }
        if own_key {
            lines.push("x-api-key: sk-root".to_owned());
        }
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let host = label.map_or_else(|| DOMAIN.to_owned(), |label| format!("{label}.{DOMAIN}"));
        let body = format!(r#"{{"model":"{model}"}}"#);
        let mut seen = BTreeSet::new();
        // A limit of two a minute is the operator key's.
        for _ in 0..if own_key && label.is_none() { 1 } else { 100 } {
            let happened = world.verdict(chat(&host, &lines), &body);
            if told.served && reachable(&told).is_empty() {
                prop_assert!(told.fallback.iter().any(|stand_in| stand_in.can_serve), "{told} but {happened}");
                prop_assert!(!happened.starts_with(char::is_numeric), "{told} but {happened}");
            } else if told.served {
                prop_assert!(reachable(&told).contains(&happened), "{told} but {happened}");
                seen.insert(happened);
            } else {
                prop_assert_eq!(verdict(&told), happened);
            }
        }
        if told.served && !(own_key && label.is_none()) {
            prop_assert_eq!(seen, reachable(&told));
        }
    }
}
