//! What one decision costs: gate, peek and selection of a chat request, for a small body and a large one.
//!
//! `cargo bench -p appproxy-core --bench decision`. Allocations are counted exactly. Where valgrind is installed the
//! program starts itself under callgrind, which counts the instructions of [`decide`] alone; without, it says so. Both
//! repeat themselves to the digit, so that two commits can be compared on any machine.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark reads arguments and starts valgrind"
)]

#[path = "../tests/states/mod.rs"]
mod states;

use std::hint::black_box;
use std::process::Command;
use std::sync::Arc;

use appproxy_core::access::address::Peer;
use appproxy_core::access::rate_ledger::RateLedger;
use appproxy_core::desired::Rules;
use appproxy_core::exchange::selection::Selection;
use appproxy_core::exchange::{
    Chosen, Connection, Control, ExchangeRules, Gate, KeyGate, Node, RetryBudget, token_hash,
};
use appproxy_core::secret::Secret;
use appproxy_core::seed::{Draws, Seed};
use appproxy_core::serving::{Serving, ServingSettings, ServingView};
use appproxy_core::time::{Moment, Now, UnixMillis};
use appproxy_core::wire::key::ApiKey;
use bytes::Bytes;
use http::request::Parts;

use states::{circuit, key, publication, route};

const SIZES: [(&str, usize); 2] = [("2 KB", 2 << 10), ("1 MB", 1 << 20)];
const KEY: &str = "sk-bench";
/// Decisions before the counted ones: what a pool keeps is made by then.
const FIRST: usize = 16;
const COUNTED: u64 = 64;

struct World {
    rules: ExchangeRules,
    view: Arc<ServingView>,
    control: Control,
    ledger: RateLedger,
    selection: Selection,
    budget: RetryBudget,
    draws: Draws,
}

impl World {
    /// Two endpoints of four and eight replicas, and a key with a rate limit.
    fn new() -> Self {
        let replicas = |number: u128, count: u128| {
            circuit(number, number, (0..count).map(|at| route(10 * number + at, 1.0)).collect())
        };
        let model = publication("bench", &["alias"], &[(1, 0.7), (2, 0.3)]);
        let mut desired = states::desired(vec![replicas(1, 4), replicas(2, 8)], vec![model]);
        let key = ApiKey {
            token_hash: token_hash(&Secret::new(KEY)),
            expires_at: Some(UnixMillis(i64::MAX)),
            rate_limit: Some(u32::MAX),
            ..key("bench", 0, &[])
        };
        desired.replace_keys([(key.key_id.clone(), key)].into());
        let mut serving = Serving::new(&ServingSettings { rules: Rules::Router, ..ServingSettings::default() });
        let touched = desired.take_touched();
        let _ = serving.update(&desired, &touched);
        Self {
            rules: ExchangeRules { key_gate: KeyGate::Published, ..ExchangeRules::default() },
            view: serving.view().clone(),
            control: Control::Alone { leaving: false },
            ledger: RateLedger::new(),
            selection: Selection::new(),
            budget: RetryBudget::new(),
            draws: Draws::new(Seed::from_number(7)),
        }
    }
}

/// From a request's head and body to the replica it goes to.
#[inline(never)]
fn decide(world: &mut World, head: Parts, body: Bytes) -> Option<Chosen> {
    let World { rules, view, control, ledger, selection, budget, draws } = world;
    let now = Now { moment: Moment::from_millis(5_000), wall: UnixMillis(1) };
    let node = Node { rules, view, control, now, file_refused: false };
    let connection = Connection { peer: Peer::Ip([192, 0, 2, 1].into()), tls: false };
    let gated = Gate::open(head, connection, node, draws).ok()?.pass(Some(ledger), node).ok()?;
    gated.route(body, node).ok()?.begin(budget, node).choose(selection, node).ok()
}

fn head() -> Parts {
    let request = http::Request::post("/v1/chat/completions")
        .header("host", "models.example.com")
        .header("authorization", format!("Bearer {KEY}"))
        .header("content-type", "application/json")
        .header("user-agent", "OpenAI/Python 1.99.0")
        .header("accept", "application/json")
        .body(());
    request.expect("a request").into_parts().0
}

/// A chat of many messages, its model after the first of them.
fn body(size: usize) -> Bytes {
    let message = r#"{"role":"user","content":"Tell me, in \"plain\" words, what a router does."}"#;
    let mut text = format!(r#"{{"messages":[{message}"#);
    while text.len() + message.len() + 40 < size {
        text.push(',');
        text.push_str(message);
    }
    text.push_str(r#"],"model":"bench","stream":true}"#);
    text.into()
}

fn some(world: &mut World, body: &Bytes, count: usize) {
    for _ in 0..count {
        let chosen = decide(world, head(), body.clone());
        assert!(matches!(black_box(chosen), Some(Chosen::Send(..))), "the request is let through and sent");
    }
}

/// Allocations and bytes of one decision; the request's own head is made before.
fn allocations(world: &mut World, body: &Bytes) -> (u64, u64) {
    let heads: Vec<Parts> = (0..COUNTED).map(|_| head()).collect();
    let mut chosen = Vec::with_capacity(heads.len());
    let counted = allocation_counter::measure(|| {
        chosen.extend(heads.into_iter().map(|head| decide(world, head, body.clone())));
    });
    assert_eq!(chosen.iter().flatten().count() as u64, COUNTED);
    (counted.count_total / COUNTED, counted.bytes_total / COUNTED)
}

/// Instructions of one decision, counted by valgrind over two runs of different lengths: what is the same in both falls
/// out.
fn instructions(size: usize) -> Option<u64> {
    let run = |count: u64| {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*decide*"])
            .arg(std::env::current_exe().ok()?)
            .args(["only", &size.to_string(), &count.to_string()])
            .output()
            .ok()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = said.lines().find(|line| line.contains("Collected"))?;
        line.rsplit(' ').next()?.parse::<u64>().ok()
    };
    Some((run(2 * COUNTED)? - run(COUNTED)?) / COUNTED)
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut world = World::new();
    if let [only, size, count] = words.as_slice()
        && only == "only"
    {
        let number = |text: &String| text.parse::<usize>().expect("a number");
        return some(&mut world, &body(number(size)), number(count));
    }
    for (name, size) in SIZES {
        let body = body(size);
        some(&mut world, &body, FIRST);
        let (count, bytes) = allocations(&mut world, &body);
        let instructions = match instructions(size) {
            Some(count) => format!("{count} instructions"),
            None => "valgrind is not installed: instructions are not counted".to_owned(),
        };
        println!("one decision, body of {name}: {count} allocations of {bytes} bytes in all, {instructions}");
    }
}
