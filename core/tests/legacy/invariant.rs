//! No request without a valid credential ever reaches a private circuit's replica, or a fallback (worker-protocol 4.4):
//! held against a reference of a few lines, over random states, requests, failures and changes between attempts.

use std::sync::Arc;

use appproxy_core::desired::{Desired, Learned};
use appproxy_core::exchange::{FailStage, Fallbacks};
use appproxy_core::wire::circuit::Circuit;
use appproxy_core::wire::ids::CircuitId;
use proptest::prelude::*;

use crate::states::{circuit_id, endpoint_id};
use crate::world::{JWT_SECRET, World, at, open, request, signed, token_until};

const CIRCUITS: u128 = 4;
const LABELS: [&str; 3] = ["a", "b", "c"];
const MODELS: [&str; 3] = ["m", "n", "o"];

#[derive(Debug, Clone, Copy)]
enum Shown {
    Nothing,
    /// A good token of this circuit.
    Token(u128),
    Expired(u128),
    Forged(u128),
    Operator,
}

#[derive(Debug, Clone)]
struct Request {
    /// `None`: the aggregation surface.
    label: Option<&'static str>,
    shown: Shown,
    method: &'static str,
    path: &'static str,
    body: String,
}

#[derive(Debug, Clone)]
enum Change {
    Circuit(Circuit),
    NoCircuit(u128),
    Learn(u128, Option<Learned>),
}

fn any_circuit() -> impl Strategy<Value = Circuit> {
    let label = proptest::sample::select(&LABELS[..]);
    let ips = prop_oneof![3 => Just(None), 1 => Just(Some("10.0.0.0/8")), 1 => Just(Some("192.0.2.0/24")), 1 => Just(Some("bad"))];
    (1..=CIRCUITS, 1..=CIRCUITS, label, 0..3_u128, any::<bool>(), ips).prop_map(
        |(number, endpoint, label, replicas, public, ips)| {
            let circuit = Circuit { endpoint_id: Some(endpoint_id(endpoint)), ..at(number, label, replicas) };
            let circuit = if public { open(circuit) } else { circuit };
            Circuit { allowed_client_ips: ips.map(str::to_owned), ..circuit }
        },
    )
}

fn any_learned() -> impl Strategy<Value = Option<Learned>> {
    let names = proptest::collection::vec(proptest::sample::select(&MODELS[..]), 1..3);
    prop_oneof![
        4 => names.prop_map(|names| Learned::of_list(names.into_iter().map(Arc::from))),
        1 => Just(Some(Learned::Opaque)),
        1 => Just(None),
    ]
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => any_circuit().prop_map(Change::Circuit),
        1 => (1..=CIRCUITS).prop_map(Change::NoCircuit),
        2 => (1..=CIRCUITS, any_learned()).prop_map(|(endpoint, learned)| Change::Learn(endpoint, learned)),
    ]
}

fn any_request() -> impl Strategy<Value = Request> {
    let shown = prop_oneof![
        2 => Just(Shown::Nothing),
        4 => (1..=CIRCUITS).prop_map(Shown::Token),
        1 => (1..=CIRCUITS).prop_map(Shown::Expired),
        1 => (1..=CIRCUITS).prop_map(Shown::Forged),
        1 => Just(Shown::Operator),
    ];
    let paths = [
        "/v1/chat/completions",
        "/v1/messages",
        "/v1beta/models/m:generateContent",
        "/v1beta/models/n:countTokens",
        "/v1/models",
        "/v1/models/m",
        "/",
        "/app?key=x",
        "/v1/files/x",
        "/health",
    ];
    let model = prop_oneof![
        4 => proptest::sample::select(&MODELS[..]).prop_map(|name| format!("{{\"model\":\"{name}\"}}")),
        1 => Just("{}".to_owned()),
        1 => Just("{\"model\":\"spare-model\"}".to_owned()),
        1 => Just("no json".to_owned()),
    ];
    let label = proptest::option::weighted(0.7, proptest::sample::select(&LABELS[..]));
    let method = proptest::sample::select(&["POST", "POST", "POST", "GET", "PUT", "OPTIONS"][..]);
    (label, shown, method, proptest::sample::select(paths.to_vec()), model)
        .prop_map(|(label, shown, method, path, body)| Request { label, shown, method, path, body })
}

fn line(shown: Shown) -> Option<String> {
    let token = match shown {
        Shown::Nothing => return None,
        Shown::Token(number) => token_until(number, 600),
        Shown::Expired(number) => token_until(number, -600),
        Shown::Forged(number) => {
            let claims = format!(r#"{{"id":"{}","exp":4000000000}}"#, circuit_id(number));
            signed(&format!("not {JWT_SECRET}"), r#"{"alg":"HS256"}"#, &claims)
        }
        Shown::Operator => "sk-root".to_owned(),
    };
    Some(format!("authorization: Bearer {token}"))
}

/// The reference: whether a circuit opens to this credential from 192.0.2.1.
fn opens(circuit: &Circuit, shown: Shown) -> bool {
    let inside = matches!(circuit.allowed_client_ips.as_deref(), None | Some("192.0.2.0/24"));
    inside && (circuit.open_to_public || matches!(shown, Shown::Token(number) if circuit_id(number) == circuit.id))
}

/// Whether a request may be served at all, as things stand: whose door has opened.
fn welcome(desired: &Desired, request: &Request) -> bool {
    match request.label {
        Some(label) => desired.holder(label).is_some_and(|circuit| opens(circuit, request.shown)),
        None => {
            matches!(request.shown, Shown::Operator)
                || desired.circuits().values().any(|circuit| opens(circuit, request.shown))
        }
    }
}

/// Whether a backend may be reached now, by a request that was welcome when it came.
fn may_reach(desired: &Desired, request: &Request, backend: &str, own: Option<CircuitId>, stands_in: bool) -> bool {
    if backend == "spare" {
        return stands_in || (request.label.is_none() && matches!(request.shown, Shown::Operator));
    }
    let circuit = desired.circuits().values().find(|one| backend.starts_with(&format!("appproxy-{}-", one.id)));
    let Some(circuit) = circuit else { return false };
    let pinned = own.is_none_or(|own| own == circuit.id);
    opens(circuit, request.shown) && (pinned || (stands_in && circuit.open_to_public))
}

fn change(world: &mut World, change: Change) {
    match change {
        Change::Circuit(circuit) => {
            let id = circuit.id;
            world.desired.upsert_circuit(circuit);
            world.desired.note_arrival(id);
        }
        Change::NoCircuit(number) => {
            world.desired.remove_circuit(circuit_id(number));
        }
        Change::Learn(endpoint, learned) => {
            world.desired.learn(endpoint_id(endpoint), learned);
        }
    }
    world.show();
}

fn chains() -> Fallbacks {
    let chain = |from: &str, to: &[&str]| {
        (Arc::<str>::from(from), to.iter().map(|name| Arc::from(*name)).collect::<Vec<Arc<str>>>())
    };
    Fallbacks::new(&[chain("m", &["n", "spare-model"]), chain("n", &["o"]), chain("o", &["spare-model"])].into())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn nobody_reaches_what_is_not_open_to_them(
        before in proptest::collection::vec(any_change(), 0..14),
        requests in proptest::collection::vec((any_request(), proptest::collection::vec((any_change(), any::<bool>()), 0..4)), 1..4),
    ) {
        let mut world = World::new(vec![]);
        world.rules.fallbacks = chains();
        for one in before {
            change(&mut world, one);
        }
        for (asked, script) in requests {
            let host = asked.label.map_or("models.example.com".to_owned(), |label| format!("{label}.models.example.com"));
            let shown = line(asked.shown);
            let lines: Vec<&str> = shown.as_deref().into_iter().collect();
            let was_welcome = welcome(&world.desired, &asked);
            let own = asked.label.and_then(|label| world.desired.holder(label)).map(|circuit| circuit.id);
            let mut script = script.into_iter();
            let mut next = world.admit(request(asked.method, &host, asked.path, &lines), &asked.body);
            while let Ok(choosing) = next {
                prop_assert!(was_welcome, "let in: {asked:?}");
                let step = script.next();
                let failing = step.as_ref().is_some_and(|(_, connect)| *connect);
                if let Some((edit, _)) = step {
                    change(&mut world, edit);
                }
                let Ok((attempt, sent)) = world.choose(choosing) else { break };
                let backend = attempt.backend().name.clone();
                let stands_in = attempt.stands_in().is_some();
                prop_assert!(
                    may_reach(&world.desired, &asked, &backend, own, stands_in),
                    "{asked:?} reached {backend}"
                );
                let headers = sent.headers();
                prop_assert!(!headers.contains_key("authorization"));
                next = world.fail(attempt, if failing { FailStage::AwaitHead } else { FailStage::Connect });
            }
        }
    }
}
