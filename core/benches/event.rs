//! What one route update costs among few and many circuits, and what a key weighs among a million.
//!
//! `cargo bench -p appproxy-core --bench event`. The edit of the desired state, the new view and the end of the old one
//! are all in it. Each size is measured in turn, several times over, and the best median of each counts, so that a busy
//! machine slows all of them alike. Times hold what the machine's caches do: ten thousand circuits do not fit into
//! them, a hundred do. For the work itself, count instructions of one size at a time:
//!
//! `valgrind --tool=callgrind --toggle-collect='*median*' target/release/deps/event-... 10000`

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a benchmark reads the clock")]

#[path = "../tests/states/mod.rs"]
mod states;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use appproxy_core::access::key_parts::KeyParts;
use appproxy_core::access::key_store::KeyTable;
use appproxy_core::desired::{Desired, Rules};
use appproxy_core::seed::{Draws, Seed};
use appproxy_core::serving::{Serving, ServingSettings, ServingView};
use appproxy_core::wire::circuit::{Circuit, Ratio};
use appproxy_core::wire::ids::KeyId;
use appproxy_core::wire::key::{ApiKey, TokenHash};

use states::{circuit, key, publication, route};

const SIZES: [u128; 4] = [100, 1_000, 10_000, 100_000];
const EVENTS: usize = 2_000;
const ROUNDS: usize = 5;
const KEYS: usize = 1_000_000;

struct World {
    desired: Desired,
    serving: Serving,
    /// The view that requests would be reading.
    view: Arc<ServingView>,
    size: u128,
}

fn four_routes(number: u128, ratio: f64) -> Circuit {
    let mut circuit = circuit(number, number, (0..4).map(|at| route(4 * number + at, 1.0)).collect());
    if let Some(route) = circuit.routes.first_mut() {
        route.traffic_ratio = Ratio(ratio);
    }
    circuit
}

impl World {
    fn new(size: u128) -> Self {
        let mut desired = Desired::new("worker01");
        for number in 0..size {
            desired.upsert_circuit(four_routes(number, 1.0));
            let (model, alias) = (format!("model-{number}"), format!("alias-{number}"));
            desired.upsert_publication(publication(&model, &[&alias], &[(number, 1.0)]));
        }
        let mut serving = Serving::new(&ServingSettings { rules: Rules::Router, ..ServingSettings::default() });
        let touched = desired.take_touched();
        let _ = serving.update(&desired, &touched);
        let view = serving.view().clone();
        Self { desired, serving, view, size }
    }

    /// The median of many events for circuits here and there.
    #[inline(never)]
    fn median(&mut self, draws: &mut Draws) -> Duration {
        let mut times = Vec::with_capacity(EVENTS);
        for event in (0..8).cycle().take(EVENTS) {
            let number = u128::from(draws.below(u64::try_from(self.size).unwrap_or(1)));
            // A ratio never seen before, so that each event changes something.
            let update = four_routes(number, 1.0 + draws.below(1 << 30) as f64 / 1e9 + f64::from(event));
            let start = Instant::now();
            self.desired.upsert_circuit(black_box(update));
            let touched = self.desired.take_touched();
            if let Some(update) = self.serving.update(&self.desired, &touched) {
                assert_eq!(update.changes.names.len(), 2);
                self.view = update.view;
            }
            times.push(start.elapsed());
        }
        times.sort_unstable();
        times.get(EVENTS / 2).copied().unwrap_or_default()
    }
}

fn main() {
    let mut draws = Draws::new(Seed::from_number(7));
    let asked: Vec<u128> = std::env::args().skip(1).filter_map(|size| size.parse().ok()).collect();
    if asked.is_empty() {
        // Before anything else: memory that was used and given back would hide what the keys take.
        weigh_keys(&mut draws);
    }
    let sizes = if asked.is_empty() { SIZES.to_vec() } else { asked };
    let mut worlds: Vec<World> = sizes.into_iter().map(World::new).collect();
    let mut best: BTreeMap<u128, Duration> = BTreeMap::new();
    for _ in 0..ROUNDS {
        for world in &mut worlds {
            let median = world.median(&mut draws);
            best.entry(world.size).and_modify(|held| *held = median.min(*held)).or_insert(median);
        }
    }
    let smallest = best.values().next().copied().unwrap_or_default().as_secs_f64();
    for (size, time) in &best {
        println!("route update among {size:>6} circuits: {time:>10.2?}  ratio {:.2}", time.as_secs_f64() / smallest);
    }
}

/// Bytes of resident memory per key of the table that views share (Linux only).
fn weigh_keys(draws: &mut Draws) {
    let (mut parts, mut table) = (KeyParts::default(), KeyTable::default());
    let Some(before) = resident() else { return };
    let start = Instant::now();
    for number in 0..KEYS {
        let mut hash = [0; 32];
        for chunk in hash.chunks_exact_mut(8) {
            chunk.copy_from_slice(&draws.next_u64().to_le_bytes());
        }
        let project = format!("model-{}", number % 100);
        let id = format!("key-{number:08}");
        let key = ApiKey { key_id: KeyId::from(id.as_str()), token_hash: TokenHash(hash), ..key("", 0, &[&project]) };
        table.upsert(parts.record(&key).0);
    }
    let built = start.elapsed();
    let after = resident().unwrap_or(before);
    println!("{KEYS} keys: {} bytes a key, table built in {built:.2?}", after.saturating_sub(before) / KEYS);
    let view = table.clone();
    let start = Instant::now();
    let (record, _) = parts.record(&key("one-more", 1, &[]));
    table.upsert(record);
    println!("one more key under a held view: {:.2?}", start.elapsed());
    assert_eq!((view.len(), table.len()), (KEYS, KEYS + 1));
}

fn resident() -> Option<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    statm.split(' ').nth(1)?.parse::<usize>().ok().map(|pages| pages * 4096)
}
