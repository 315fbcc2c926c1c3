//! What is measured, and at which sizes.

use std::fmt::Write as _;
use std::sync::Arc;

use appproxy_core::access::key_parts::KeyParts;
use appproxy_core::access::key_store::KeyTable;
use appproxy_core::access::rate_ledger::{LedgerKey, RateLedger};
use appproxy_core::config::worker::EventDialect;
use appproxy_core::desired::{Desired, Rules, reconcile};
use appproxy_core::exchange::peek;
use appproxy_core::exchange::selection::{Ask, Choice, Selection, Strategy};
use appproxy_core::seed::{Draws, Seed};
use appproxy_core::serving::{Serving, ServingSettings, ServingView};
use appproxy_core::time::{Moment, UnixMillis};
use appproxy_core::wire::circuit::{Circuit, Ratio};
use appproxy_core::wire::envelope::{decode, encode_ack};
use appproxy_core::wire::event::{Ack, Decoded, EventKind};
use appproxy_core::wire::ids::{KeyId, NodeId};
use appproxy_core::wire::key::{ApiKey, TokenHash};
use appproxy_core::wire::snapshot::parse_snapshot;
use bytes::Bytes;
use http::request::Parts;
use uuid::Uuid;

use crate::decision::{self, Decided, World};
use crate::states::{circuit, circuit_id, key, publication, route};
use crate::{Pair, Work};

/// Something of the core whose cost is watched.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    /// Whether the cost of one unit of the size is what counts.
    pub(crate) by_size: bool,
    /// What the gate measures too.
    pub(crate) sizes: &'static [usize],
    /// What only the long run measures.
    pub(crate) large: &'static [usize],
    /// Counted runs.
    pub(crate) runs: usize,
    pub(crate) make: fn(usize) -> Box<dyn Work>,
}

const fn subject(name: &'static str, sizes: &'static [usize], make: fn(usize) -> Box<dyn Work>) -> Subject {
    Subject { name, by_size: false, sizes, large: &[], runs: 64, make }
}

pub(crate) const SUBJECTS: &[Subject] = &[
    subject("envelope: route update", &[1], |_| {
        event(include_bytes!("../../../fuzz/corpus/bus_envelope/routes_payload.json"))
    }),
    subject("envelope: circuit created", &[1], |_| {
        event(include_bytes!("../../../fuzz/corpus/bus_envelope/created_payload.json"))
    }),
    subject("ack: circuit", &[1], |_| ack_of_circuit()),
    subject("ack: model", &[1], |_| ack_of_model()),
    Subject { by_size: true, large: &[100_000], runs: 1, ..subject("snapshot: 100 keys a model", &[1_000], snapshot) },
    Subject {
        by_size: true,
        large: &[10_000, 100_000],
        runs: 1,
        ..subject("reconcile: circuits", &[100, 1_000], whole)
    },
    Subject {
        by_size: true,
        large: &[10_000, 100_000],
        runs: 1,
        ..subject("pull: circuits, one new", &[100, 1_000], pull)
    },
    Subject { large: &[10_000, 100_000], ..subject("route update among", &[100, 1_000], route_update) },
    Subject { large: &[10_000, 100_000], ..subject("digest: one of", &[100, 1_000], digest) },
    Subject { large: &[1_000_000], ..subject("key among", &[1_000], key_among) },
    subject("rate ledger: keys", &[1, 1_000], ledger),
    Subject { large: &[1 << 20, 10 << 20], runs: 2, ..subject("peek: bytes", &[2 << 10, 64 << 10], peek_of) },
    subject("weighted of", &[2, 50, 1_000], |size| pick(size, Strategy::Weighted)),
    subject("weighted unevenly of", &[2, 50, 1_000], |size| pick_of(size, Strategy::Weighted, |at| 1.0 + at as f64)),
    subject("round_robin of", &[2, 50, 1_000], |size| pick(size, Strategy::RoundRobin)),
    subject("random of", &[2, 50, 1_000], |size| pick(size, Strategy::Random)),
    subject("least_latency of", &[2, 50, 1_000], |size| pick(size, Strategy::LeastLatency)),
    subject("least_loaded of", &[2, 50, 1_000], |size| pick(size, Strategy::LeastLoaded)),
    subject("consistent_hash of", &[2, 50, 1_000], |size| pick(size, Strategy::ConsistentHash)),
    subject("prefix_aware of", &[2, 50, 1_000], |size| pick(size, Strategy::PrefixAware)),
    Subject {
        large: &[1 << 20],
        ..subject("decision: bytes", &[2 << 10, 64 << 10], |size| decide(decision::body(size)))
    },
    subject("decision: a usual chat", &[1], |_| decide(decision::chat())),
];

fn event(bytes: &'static [u8]) -> Box<dyn Work> {
    Box::new(Pair {
        next: move || bytes,
        run: |bytes: &[u8]| {
            let decoded = decode(bytes, "worker01");
            assert!(matches!(decoded, Decoded::Event(_)), "it is for us");
            decoded
        },
    })
}

fn encode(ack: &Ack) -> Vec<u8> {
    encode_ack(ack, "worker01", NodeId(Uuid::from_u128(7)), Some("r-1"), EventDialect::Both)
}

fn ack_of_circuit() -> Box<dyn Work> {
    let decoded = decode(include_bytes!("../../../fuzz/corpus/bus_envelope/created_payload.json"), "worker01");
    let Decoded::Event(event) = decoded else { panic!("it is for us") };
    let EventKind::CircuitsCreated(circuits) = event.kind else { panic!("it is of circuits") };
    let ack = Ack::Circuits(circuits);
    Box::new(Pair { next: || (), run: move |()| encode(&ack) })
}

fn ack_of_model() -> Box<dyn Work> {
    let ack = Ack::Model("llama-4-chat".into());
    Box::new(Pair { next: || (), run: move |()| encode(&ack) })
}

/// A snapshot of `keys` keys and a hundredth as many models.
fn snapshot(keys: usize) -> Box<dyn Work> {
    let mut text = String::from(r#"{"revision":"42","models":["#);
    for number in 0..keys / 100 {
        let comma = if number == 0 { "" } else { "," };
        let endpoint = Uuid::from_u128(number as u128);
        write!(
            text,
            r#"{comma}{{"model":"model-{number}","aliases":["alias-{number}"],"mappings":[{{"endpoint_id":"{endpoint}","ratio":0.7}}],"control_mode":"manual"}}"#
        )
        .expect("a string takes everything");
    }
    text.push_str(r#"],"api_keys":["#);
    for number in 0..keys {
        let comma = if number == 0 { "" } else { "," };
        write!(
            text,
            r#"{comma}{{"key_id":"key-{number}","token_hash":"{number:064x}","allowed_models":["model-1"],"expires_at":"2026-12-31T23:59:59Z","rate_limit":600,"allowed_client_ips":["10.0.0.0/8"]}}"#
        )
        .expect("a string takes everything");
    }
    text.push_str("]}");
    Box::new(Pair {
        next: || (),
        run: move |()| {
            let snapshot = parse_snapshot(text.as_bytes()).expect("a snapshot");
            assert!(snapshot.keys.malformed.is_empty() && snapshot.models.malformed.is_empty());
            snapshot
        },
    })
}

fn four_routes(number: u128, ratio: f64) -> Circuit {
    let mut circuit = circuit(number, number, (0..4).map(|at| route(4 * number + at, 1.0)).collect());
    if let Some(route) = circuit.routes.first_mut() {
        route.traffic_ratio = Ratio(ratio);
    }
    circuit
}

/// As many models, each of one circuit of four routes.
fn desired(size: usize) -> Desired {
    let mut desired = Desired::new("worker01");
    for number in 0..size as u128 {
        desired.upsert_circuit(four_routes(number, 1.0));
        let (model, alias) = (format!("model-{number}"), format!("alias-{number}"));
        desired.upsert_publication(publication(&model, &[&alias], &[(number, 1.0)]));
    }
    desired
}

struct Served {
    desired: Desired,
    serving: Serving,
    /// The view that requests would be reading.
    view: Arc<ServingView>,
}

impl Served {
    fn new(size: usize) -> Self {
        let mut desired = desired(size);
        let mut serving = Serving::new(&ServingSettings { rules: Rules::Router, ..ServingSettings::default() });
        let touched = desired.take_touched();
        let _ = serving.update(&desired, &touched);
        Self { view: serving.view().clone(), desired, serving }
    }

    /// Brings what was edited into force.
    fn apply(&mut self) {
        let touched = self.desired.take_touched();
        let update = self.serving.update(&self.desired, &touched).expect("something changed");
        assert!(!update.changes.names.is_empty());
        self.view = update.view;
    }
}

/// The whole of what is desired, turned into what is served.
fn whole(size: usize) -> Box<dyn Work> {
    let desired = desired(size);
    Box::new(Pair { next: || (), run: move |()| reconcile(&desired, Rules::Router) })
}

/// A full list of circuits of which one is new, compared and put into force.
fn pull(size: usize) -> Box<dyn Work> {
    let mut served = Served::new(size);
    let mut round = 1.0;
    Box::new(Pair {
        next: move || {
            round += 0.001;
            let ratio = |number: usize| if number == size / 2 { round } else { 1.0 };
            (0..size).map(|number| (circuit_id(number as u128), four_routes(number as u128, ratio(number)))).collect()
        },
        run: move |circuits| {
            served.desired.replace_circuits(circuits);
            served.apply();
        },
    })
}

/// Circuits here and there, each with a ratio never seen before.
fn updates(size: usize) -> impl FnMut() -> Circuit {
    let mut draws = Draws::new(Seed::from_number(7));
    let mut round = 1.0;
    move || {
        round += 0.001;
        four_routes(u128::from(draws.below(size as u64)), round)
    }
}

fn route_update(size: usize) -> Box<dyn Work> {
    let mut served = Served::new(size);
    let run = move |circuit| {
        served.desired.upsert_circuit(circuit);
        served.apply();
    };
    Box::new(Pair { next: updates(size), run })
}

/// The edit alone: the old circuit's part of the digest off, the new one's on.
fn digest(size: usize) -> Box<dyn Work> {
    let mut desired = desired(size);
    let run = move |circuit| {
        assert!(desired.upsert_circuit(circuit), "it is new");
        desired.digest()
    };
    Box::new(Pair { next: updates(size), run })
}

fn hash(draws: &mut Draws) -> TokenHash {
    let mut hash = [0; 32];
    for chunk in hash.chunks_exact_mut(8) {
        chunk.copy_from_slice(&draws.next_u64().to_le_bytes());
    }
    TokenHash(hash)
}

fn key_among(size: usize) -> Box<dyn Work> {
    let (mut parts, mut table) = (KeyParts::default(), KeyTable::default());
    let mut draws = Draws::new(Seed::from_number(7));
    for number in 0..size {
        let (id, project) = (format!("key-{number:08}"), format!("model-{}", number % 100));
        let key = ApiKey { key_id: KeyId::from(id.as_str()), token_hash: hash(&mut draws), ..key("", 0, &[&project]) };
        table.upsert(parts.record(&key).0);
    }
    // The same draws again, from the first.
    let (mut draws, mut at) = (Draws::new(Seed::from_number(7)), 0);
    let next = move || {
        if at == size {
            (draws, at) = (Draws::new(Seed::from_number(7)), 0);
        }
        at += 1;
        hash(&mut draws)
    };
    let run = move |hash| assert!(table.judge(&hash, UnixMillis(1)).is_some(), "it is there");
    Box::new(Pair { next, run })
}

/// One request counted, among so many keys that were used.
fn ledger(size: usize) -> Box<dyn Work> {
    let keys: Vec<LedgerKey> =
        (0..size).map(|number| LedgerKey::Published(KeyId::from(format!("key-{number}").as_str()))).collect();
    let mut ledger = RateLedger::new();
    let now = Moment::from_millis(5_000);
    for key in &keys {
        let _ = ledger.take(key, 1_000_000, now);
    }
    let mut turn = 0;
    let next = move || {
        turn += 1;
        keys.get(turn % size).expect("a remainder").clone()
    };
    Box::new(Pair { next, run: move |key| ledger.take(&key, 1_000_000, now) })
}

fn peek_of(size: usize) -> Box<dyn Work> {
    let body = decision::body(size);
    Box::new(Pair {
        next: || (),
        run: move |()| peek::json(&body).map_or_else(|_| panic!("a chat"), |peek| assert_eq!(&*peek.model, "bench")),
    })
}

/// One endpoint of so many replicas.
/// Replicas of one weight.
fn pick(size: usize, strategy: Strategy) -> Box<dyn Work> {
    pick_of(size, strategy, |_| 1.0)
}

fn pick_of(size: usize, strategy: Strategy, weight: impl Fn(u128) -> f64) -> Box<dyn Work> {
    let mut desired = Desired::new("worker01");
    desired.upsert_circuit(circuit(1, 1, (0..size as u128).map(|at| route(at, weight(at))).collect()));
    desired.upsert_publication(publication("m", &[], &[(1, 1.0)]));
    let mut serving = Serving::new(&ServingSettings { rules: Rules::Router, ..ServingSettings::default() });
    let touched = desired.take_touched();
    let _ = serving.update(&desired, &touched);
    let pool = serving.view().model("m").expect("it is published").clone();
    let (mut selection, mut draws) = (Selection::new(), Draws::new(Seed::from_number(7)));
    // What is read when a replica is first picked is there.
    for in_turn in [Strategy::RoundRobin, Strategy::Weighted] {
        for _ in 0..size {
            let picked = selection.choose(&pool, &Ask { strategy: in_turn, ..Ask::default() });
            assert!(matches!(picked, Choice::Picked(_)), "one is there");
        }
    }
    let next = move || (draws.next_u64(), draws.next_u64());
    let run = move |(key, draw)| match selection.choose(&pool, &Ask { strategy, key, draw, ..Ask::default() }) {
        Choice::Picked(pick) => pick,
        none => panic!("one is there, and not {none:?}"),
    };
    Box::new(Pair { next, run })
}

fn decide(body: Bytes) -> Box<dyn Work> {
    let mut world = World::new();
    // Shared from the start, as a body is that was read in one piece.
    let _other = body.clone();
    // Where head and decision stand is made outside, so that only the decision is counted.
    let next = move || (Box::new((Some(decision::head(body.len())), Decided::default())), body.clone());
    let run = move |(mut place, body): (Box<(Option<Parts>, Decided)>, Bytes)| {
        let (head, decided) = &mut *place;
        world.decide(head, body, decided).expect("the request is let through and sent");
        place
    };
    Box::new(Pair { next, run })
}
