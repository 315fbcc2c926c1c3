//! The explanation is the request: same verdict, same candidates, same next replica, and nothing counted.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::access::address::Peer;
use crate::access::rate_ledger::RateLedger;
use crate::desired::Desired;
use crate::exchange::selection::Selection;
use crate::exchange::testing::{World, chat, desired, request, said};
use crate::exchange::{Fallbacks, KeyGate};
use crate::time::Moment;
use crate::wire::circuit::Ratio;
use crate::wire::ids::EndpointId;
use crate::wire::publication::{ControlMode, Mapping, Publication};

struct Held<'a> {
    ledger: &'a mut RateLedger,
    selection: &'a Selection,
    now: Moment,
}

impl Figures for Held<'_> {
    fn rate(&mut self, key: &LedgerKey, limit: u32) -> RateFigures {
        self.ledger.look(key, limit, self.now)
    }

    fn next(&mut self, pool: &ModelPool, ask: &Ask<'_>) -> Option<Arc<Backend>> {
        self.selection.look_ahead(pool, ask)
    }

    fn loads(&self) -> &Loads {
        self.selection.loads()
    }
}

fn told(world: &mut World, key: Option<&str>, model: &str) -> Explanation {
    let client = match world.peer {
        Peer::Ip(address) => Some(address),
        Peer::Unix => None,
    };
    let key_id = key.map(|key| format!("id-of-{key}"));
    let question = Question { model: model.into(), key_id, client, ..Question::default() };
    let node =
        Node { rules: &world.rules, view: &world.view, control: &world.control, now: world.now, file_refused: false };
    let mut held = Held { ledger: &mut world.ledger, selection: &world.selection, now: world.now.moment };
    explain(&question, node, &mut held)
}

fn code(told: &Explanation) -> String {
    told.refusal.as_ref().map_or_else(|| "served".to_owned(), |refusal| format!("{} {}", refusal.status, refusal.code))
}

#[test]
fn each_refusal_is_the_last_step_and_says_what_would_change_it() {
    let mut world = World::new();
    let cases = [
        (None, "m1", "401 missing_api_key", "key"),
        (Some("nobody"), "m1", "401 invalid_api_key", "key"),
        (Some("office"), "m1", "403 ip_not_allowed", "address"),
        (Some("zero"), "m1", "429 rate_limit_exceeded", "rate"),
        (Some("some"), "two", "403 model_not_allowed", "model"),
        (Some("all"), "nope", "404 model_not_found", "model"),
        (Some("all"), "empty", "503 model_unavailable", "replica"),
        (Some("root"), "claude", "501 not_supported", "replica"),
    ];
    for (key, model, expected, gate) in cases {
        let told = told(&mut world, key, model);
        assert_eq!(code(&told), expected, "{key:?} {model}");
        let last = told.steps.last().expect("a step");
        assert_eq!((last.gate, last.passes, told.served), (gate, false, false), "{key:?} {model}");
        assert!(last.to_change.is_some());
        assert!(told.steps.iter().rev().skip(1).all(|step| step.passes));
        let text = told.to_string();
        assert!(text.contains("REFUSES") && text.contains("to change it: "), "{text}");
    }
}

#[test]
fn a_served_model_shows_its_tree() {
    let mut world = World::new();
    let told = told(&mut world, Some("all"), "two");
    assert!(told.served, "{told:?}");
    let pool = told.pool.as_ref().expect("a pool");
    let shares: Vec<f64> = pool.replicas().map(|replica| replica.share).collect();
    assert_eq!(shares, [0.5, 0.5]);
    assert_eq!(pool.source, "publication two");
    let text = told.to_string();
    assert!(text.starts_with("two: served\n") && text.contains("50.0 %") && text.contains("<- next"), "{text}");
    let json = serde_json::to_value(&told).expect("JSON");
    assert_eq!(json["pool"]["endpoints"][0]["groups"][0]["replicas"][0]["address"], "10.9.9.9:9000");
}

#[test]
fn what_only_the_configurations_backends_serve_is_said_so() {
    let mut world = World::new();
    // Published keys do not reach them, an operator's does.
    let model = told(&mut world, Some("all"), "gpt").steps.pop().expect("a step");
    assert_eq!((model.gate, model.passes), ("model", false));
    assert!(
        model.to_change.as_deref().is_some_and(|cure| cure.contains("`backends`") && cure.contains("fallback_chains"))
    );
    let nowhere = told(&mut world, Some("all"), "nope").steps.pop().expect("a step");
    assert!(nowhere.to_change.as_deref().is_some_and(|cure| !cure.contains("`backends`")));
    let own = told(&mut world, Some("root"), "gpt").to_string();
    assert!(own.contains("by `backends` of the configuration"), "{own}");
    // In a plain router they are all there is, and nothing to speak of.
    world.rules.key_gate = KeyGate::Blocking;
    let plain = told(&mut world, Some("root"), "gpt").to_string();
    assert!(plain.contains("gpt is served as gpt\n"), "{plain}");
    // As a stand-in they are named for what they are.
    let mut world = World::new();
    let chain = [(Arc::from("empty"), vec![Arc::from("gpt"), Arc::from("nope")])];
    world.rules.fallbacks = Fallbacks::new(&chain.into_iter().collect());
    let text = told(&mut world, Some("all"), "empty").to_string();
    assert!(text.contains("fallback gpt: can serve (static gpt)\nfallback nope: not served here\n"), "{text}");
}

#[test]
fn what_an_operator_drained_is_undrained_and_nothing_else_is_advised() {
    let mut world = World::new();
    let mut wanted = with_keys(desired());
    let replicas: Vec<Arc<str>> = world
        .view
        .model("two")
        .into_iter()
        .flat_map(|pool| pool.candidates())
        .map(|one| one.backend.name.clone())
        .collect();
    world.show_drained(&mut wanted, &replicas);
    let told = told(&mut world, Some("all"), "two");
    let cure = told.steps.last().and_then(|step| step.to_change.as_deref()).expect("a cure");
    assert_eq!(code(&told), "503 model_unavailable");
    assert!(cure.starts_with("drained by an operator on this node (2 replicas): POST /admin/backends/"), "{cure}");
    assert!(!cure.contains("start") && !cure.contains("ratio"), "{cure}");
    assert!(told.to_string().contains(&format!("to change it: {cure}\n")), "{told}");
}

#[test]
fn an_endpoint_without_a_circuit_and_no_endpoint_at_all_are_told_apart() {
    let mut world = World::new();
    let mut wanted = with_keys(desired());
    let nowhere = EndpointId(uuid::Uuid::from_u128(0x5555));
    for (model, endpoints) in [("odd", vec![nowhere]), ("half", vec![nowhere, EndpointId(uuid::Uuid::from_u128(1))])] {
        let mappings = endpoints.into_iter().map(|endpoint_id| Mapping { endpoint_id, ratio: Ratio(1.0) }).collect();
        let control_mode = ControlMode::Manual;
        wanted.upsert_publication(Publication { model: model.into(), aliases: Vec::new(), mappings, control_mode });
    }
    world.show(&mut wanted);
    let said = format!("  endpoint {nowhere}: no circuit of it here\n");

    let odd = told(&mut world, Some("all"), "odd");
    assert_eq!(code(&odd), "503 model_unavailable");
    assert!(
        odd.to_string().contains(&said) && odd.to_string().contains("no circuit here (1 mapped endpoint)"),
        "{odd}"
    );
    let json = serde_json::to_value(&odd).expect("JSON");
    assert_eq!(json["pool"]["no_circuit"], serde_json::json!([nowhere.to_string()]));

    // Beside one that serves it is shown as well, and takes nothing from it.
    let half = told(&mut world, Some("all"), "half");
    assert!(half.served && half.to_string().contains(&said), "{half}");
    assert_eq!(half.pool.iter().flat_map(PoolShown::replicas).map(|one| one.share).sum::<f64>(), 1.0);

    let empty = told(&mut world, Some("all"), "empty");
    assert!(empty.to_string().contains("to change it: no endpoint is mapped"), "{empty}");
    assert!(empty.to_string().contains("publication empty\n  no endpoint is mapped\n"), "{empty}");
    let json = serde_json::to_value(&empty).expect("JSON");
    assert_eq!(json["pool"].get("no_circuit"), None);
}

#[test]
fn an_address_that_was_not_given_is_asked_for() {
    let mut world = World::new();
    let given = told(&mut world, Some("office"), "m1").steps.pop().expect("a step");
    assert!(given.to_change.is_some_and(|cure| cure.contains("to the list")) && given.because.contains("your network"));
    // As of a client without one, by the same verdict.
    world.peer = Peer::Unix;
    let mut told = told(&mut world, Some("office"), "m1");
    assert_eq!(code(&told), "403 ip_not_allowed");
    let step = told.steps.pop().expect("a step");
    assert_eq!((step.gate, step.passes), ("address", false));
    assert!(step.because.contains("no client address was given"), "{step:?}");
    assert!(step.to_change.is_some_and(|cure| cure.contains("--client-ip") && !cure.contains("to the list")));
}

#[test]
fn asking_changes_nothing() {
    let mut world = World::new();
    let before = told(&mut world, Some("three"), "two");
    for _ in 0..10 {
        assert_eq!(told(&mut world, Some("three"), "two"), before);
    }
    assert_eq!(world.selection.pools(), 0);
    assert!(world.ledger.is_empty());
}

fn with_keys(mut wanted: Desired) -> Desired {
    let keys = crate::exchange::testing::keys();
    wanted.replace_keys(keys.into_iter().map(|key| (key.key_id.clone(), key)).collect());
    wanted
}

fn world(ratios: &[f64; 2], gate: KeyGate, chain: Option<&str>, client: &str) -> World {
    let mut world = World::new();
    let mut wanted = desired();
    let circuits: Vec<_> = wanted.circuits().values().cloned().collect();
    for mut circuit in circuits {
        for (route, ratio) in circuit.routes.iter_mut().zip(ratios) {
            route.traffic_ratio = Ratio(*ratio);
        }
        wanted.upsert_circuit(circuit);
    }
    world.show(&mut with_keys(wanted));
    world.rules.key_gate = gate;
    if let Some(chain) = chain {
        let chains: BTreeMap<Arc<str>, Vec<Arc<str>>> =
            ["m1", "two", "empty"].into_iter().map(|model| (model.into(), vec![chain.into()])).collect();
        world.rules.fallbacks = Fallbacks::new(&chains);
    }
    world.peer = Peer::Ip(client.parse().expect("an address"));
    world
}

proptest! {
    #[test]
    fn the_explanation_is_what_happens(
        key in prop::sample::select(vec![None, Some("all"), Some("some"), Some("three"), Some("zero"), Some("office"), Some("old"), Some("root"), Some("nobody")]),
        model in prop::sample::select(vec!["m1", "a1", "org/c", "two", "empty", "gpt", "g", "claude", "gemini", "nope"]),
        client in prop::sample::select(vec!["10.1.2.3", "192.0.2.1", "::ffff:10.0.0.9", "2001:db8::1"]),
        gate in prop::sample::select(vec![KeyGate::Open, KeyGate::Permissive, KeyGate::Blocking, KeyGate::Published]),
        chain in prop::sample::select(vec![None, Some("m1"), Some("two"), Some("gpt"), Some("nope")]),
        ratios in prop::array::uniform2(prop::sample::select(vec![0.0, 0.5, 1.0, 3.0])),
        before in 0..7_usize,
        after_the_end in any::<bool>(),
    ) {
        let mut world = world(&ratios, gate, chain, client);
        if after_the_end {
            world.now.wall.0 += 1;
        }
        let head = |key: Option<&str>| key.map_or_else(|| request("POST", "/v1/chat/completions", &[]), chat);
        for _ in 0..before {
            let _ = world.first(head(key), model);
        }
        let told = told(&mut world, key, model);
        let mut seen = BTreeSet::new();
        match world.first(head(key), model) {
            Ok((attempt, _)) => {
                prop_assert_eq!(code(&told), "served");
                match &told.next {
                    Some(next) => {
                        prop_assert_eq!(next, &attempt.backend().name);
                        seen.insert(next.clone());
                    }
                    None => prop_assert!(told.fallback.iter().any(|stand_in| stand_in.can_serve)),
                }
            }
            Err(answer) => prop_assert_eq!(code(&told), said(&answer)),
        }
        // The candidates are those that requests really reach.
        if told.next.is_some() && key != Some("three") {
            for _ in 0..24 {
                if let Ok((attempt, _)) = world.first(head(key), model) {
                    seen.insert(attempt.backend().name.clone());
                }
            }
            let shown: BTreeSet<Arc<str>> = told.pool.iter().flat_map(PoolShown::replicas).filter(|one| one.share > 0.0).map(|one| one.backend.clone()).collect();
            prop_assert_eq!(seen, shown);
        }
    }
}
