//! A worker among replicas that die, routes that change, keys that come and go, a bus that restarts and clients that
//! leave; every answer is compared with what its replica should have said.
//!
//! `cargo run --release -p appproxy-tests --bin soak -- --minutes 10`

mod checker;
mod client;
mod keys;
mod trouble;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use appproxy_core::seed::{Draws, Seed};
use appproxy_fixtures::replica::Behaviour;
use serde_json::json;

use crate::http::Request;
use crate::process;
use crate::shell::Shell;
use crate::wait::{self, PATIENCE};
use crate::world::World;
use checker::Tally;
use keys::Keys;

/// Models, each an endpoint of its own.
const MODELS: u32 = 4;
/// Replicas of each.
const REPLICAS: u32 = 3;
/// From here on memory must not grow by more than a tenth.
const SETTLED: Duration = Duration::from_secs(180);
/// Pulls: what no event has told is known by then.
const PULL: Duration = Duration::from_secs(2);

/// What to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The program under test.
    pub shell: Shell,
    /// How long.
    pub length: Duration,
    /// Clients at once.
    pub clients: u32,
    /// Whether one replica answers wrongly on purpose.
    pub lie: bool,
    /// What chance is drawn from.
    pub seed: u64,
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Requests sent.
    pub requests: u64,
    /// Answers that were right to the byte, and ended as they should.
    pub right: u64,
    /// Answers that broke off, and showed it.
    pub broken: u64,
    /// Requests that were refused with a reason, by status.
    pub refused: Vec<(u16, u64)>,
    /// Requests whose client left.
    pub left: u64,
    /// What must not have been said, the first few in words.
    pub wrong: u64,
    /// The first few of them.
    pub examples: Vec<String>,
    /// Requests still counted as in flight when all clients had gone.
    pub leaked: u64,
    /// Resident memory of the worker in kilobytes: when it had settled, and at the end; only for long runs.
    pub memory: Option<(u64, u64)>,
    /// Kills of replicas, updates of routes, changes of keys, restarts of the bus.
    pub troubles: [u64; 4],
}

impl Report {
    /// Whether memory grew by more than a tenth after it had settled.
    #[must_use]
    pub fn grew(&self) -> bool {
        self.memory.is_some_and(|(settled, end)| end * 10 > settled * 11)
    }

    /// Whether nothing was wrong, nothing leaked, and most requests were served.
    #[must_use]
    pub fn good(&self) -> bool {
        self.wrong == 0 && self.leaked == 0 && !self.grew() && self.right * 2 > self.requests
    }
}

/// What all threads of a run share.
struct Shared {
    data: String,
    coordinator: String,
    stop: AtomicBool,
    tally: Tally,
    keys: Keys,
    routes: AtomicU64,
    key_changes: AtomicU64,
}

impl Shared {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// A call to the coordinator; `None` when it is not answered, which some troubles bring about.
    fn manage(&self, method: &str, path: &str, body: &serde_json::Value) -> Option<serde_json::Value> {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::new(method, path)
            .header("X-BackendAI-Token", "the-api-secret")
            .header("Content-Type", "application/json")
            .body(text);
        let answer = request.send_within(&self.coordinator, PATIENCE * 2).ok()?;
        (answer.status() == 200).then(|| serde_json::from_slice(&answer.body).unwrap_or_default())
    }
}

fn model(number: u32) -> String {
    format!("model-{number}")
}

fn replica(model: u32, number: u32) -> String {
    format!("replica-{model}-{number}")
}

/// Runs the plan.
///
/// # Panics
/// When the world cannot be set up, or its end cannot be told.
#[must_use]
pub fn run(plan: &Plan) -> Report {
    let (mut world, ports) = world(plan);
    let shared = Arc::new(Shared {
        data: world.data().to_owned(),
        coordinator: world.coordinator.address().to_string(),
        stop: AtomicBool::new(false),
        tally: Tally::default(),
        keys: Keys::new(),
        routes: AtomicU64::new(0),
        key_changes: AtomicU64::new(0),
    });
    let mut draws = Draws::new(Seed::from_number(plan.seed));
    let mut threads = Vec::new();
    for number in 0..plan.clients {
        let (shared, draws) = (shared.clone(), Draws::new(Seed::from_number(draws.next_u64())));
        let client = thread::Builder::new().name(format!("client-{number}")).stack_size(256 * 1024);
        threads.push(client.spawn(move || client::run(number, &shared, draws)).expect("a thread"));
    }
    for work in [trouble::move_routes, keys::change] {
        let (shared, draws, ports) = (shared.clone(), Draws::new(Seed::from_number(draws.next_u64())), ports.clone());
        threads.push(thread::spawn(move || work(&shared, draws, &ports)));
    }

    let began = Instant::now();
    let (mut memory, mut troubles) = (None, [0; 4]);
    let mut killer = trouble::Killer::default();
    let mut next_bus = Duration::from_secs(60).min(plan.length / 2);
    while began.elapsed() < plan.length {
        thread::sleep(Duration::from_millis(100));
        troubles[0] += killer.step(&mut world, &mut draws);
        if began.elapsed() > next_bus {
            world.redis().kill();
            thread::sleep(Duration::from_secs(1).min(plan.length / 10));
            world.redis().restart();
            troubles[3] += 1;
            next_bus += Duration::from_secs(60);
        }
        if memory.is_none() && began.elapsed() > SETTLED {
            memory = process::memory(world.program().id());
        }
    }
    let memory = memory.and_then(|settled| Some((settled, process::memory(world.program().id())?)));
    shared.stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().expect("a client or a troublemaker panicked");
    }
    [troubles[1], troubles[2]] = [shared.routes.load(Ordering::Relaxed), shared.key_changes.load(Ordering::Relaxed)];
    let leaked = in_flight_at_the_end(&world);
    assert!(world.program().is_running(), "the worker ended: {}", world.worker().log().tail(60));
    Report { leaked, memory, troubles, ..shared.tally.report() }
}

fn world(plan: &Plan) -> (World, Vec<Vec<u16>>) {
    let more = "health_checks: {interval: 1s, timeout: 1s, unhealthy_threshold: 2, healthy_threshold: 1}\n\
                passive: {failures: 3, ejection: 1s}\n";
    let mut world = plan.shell.setup().reconcile("2s").server("drain_notice: \"0s\"").sections(more).prepare();
    let mut ports = Vec::new();
    for number in 0..MODELS {
        let of_model: Vec<u16> = (0..REPLICAS).map(|at| world.replica(&replica(number, at), &[])).collect();
        world.circuit(number + 1, &of_model);
        world.publish(&model(number), &[], &[(number + 1, 1.0)]);
        ports.push(of_model);
    }
    for replica in &world.replicas {
        replica.behave(Behaviour { chunk_delay_ms: 3, ..Behaviour::default() });
    }
    if plan.lie {
        world.replicas[0].behave(Behaviour { chunk_delay_ms: 3, lie: true, ..Behaviour::default() });
    }
    world.key("steady", keys::STEADY, json!({}));
    world.start_worker();
    (world, ports)
}

/// Nobody is there any more: what is still counted is lost.
fn in_flight_at_the_end(world: &World) -> u64 {
    let in_flight = || world.metric("appproxy_requests_in_flight");
    let limit = wait::Limit::after(PATIENCE);
    while in_flight() > 0.0 && limit.left().is_some() {
        thread::sleep(Duration::from_millis(50));
    }
    in_flight() as u64
}
