//! What a worker costs while nobody asks it anything, with much to keep.
//!
//! `cargo run --release -p appproxy-tests --bin crowd`

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::http::Request;
use crate::process::{cpu, memory};
use crate::shell::Shell;
use crate::wait::{Limit, PATIENCE};
use crate::world::World;

/// How many of each.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Which program.
    pub shell: Shell,
    /// Publications, each over a circuit of its own.
    pub models: u32,
    /// Replicas of each.
    pub replicas: u16,
    /// Model API keys.
    pub keys: u32,
    /// How long it is watched.
    pub length: Duration,
}

/// What was seen.
#[derive(Debug, Clone)]
pub struct Report {
    /// From the start of the program until it is ready with all of it.
    pub ready: Duration,
    /// Resident memory in kB when it has nothing yet, and at the end. Linux only.
    pub memory: (Option<u64>, Option<u64>),
    /// CPU seconds until it was ready, and of each minute after. Linux only.
    pub cpu: (Option<f64>, Option<f64>),
    /// `/admin/state`: bytes, and how long it took.
    pub state: (usize, Duration),
    /// `/metrics`: bytes, and how long it took.
    pub metrics: (usize, Duration),
    /// From the coordinator's answer to a new key until it opens.
    pub key: Duration,
}

/// Runs it.
///
/// # Panics
/// When something does not start or is refused.
#[must_use]
pub fn run(plan: &Plan) -> Report {
    let empty = plan.shell.setup().start();
    let nothing = memory_of(empty);
    let mut world = plan.shell.setup().prepare();
    let ports: Vec<u16> = (0..plan.replicas).map(|number| world.replica(&format!("r{number}"), &[])).collect();
    for number in 0..plan.models {
        world.circuit(number, &ports);
        world.publish(&format!("model-{number}"), &[&format!("alias-{number}")], &[(number, 1.0)]);
    }
    for number in 0..plan.keys {
        world.key(
            &format!("key-{number}"),
            &format!("sk-crowd-{number}"),
            json!({"allowed_models": [model(plan, number)]}),
        );
    }
    let began = Instant::now();
    world.start_worker();
    let ready = began.elapsed();
    let id = world.program().id();
    let started = cpu(id);
    thread::sleep(plan.length);
    let rest = cpu(id).zip(started).map(|(after, before)| (after - before) * 60.0 / plan.length.as_secs_f64());
    let state = fetch(&world, "/admin/state");
    let metrics = fetch(&world, "/metrics");
    Report { ready, memory: (nothing, memory(id)), cpu: (started, rest), state, metrics, key: key(&world, plan) }
}

fn memory_of(mut world: World) -> Option<u64> {
    memory(world.program().id())
}

fn model(plan: &Plan, number: u32) -> String {
    format!("model-{}", number % plan.models.max(1))
}

fn fetch(world: &World, path: &str) -> (usize, Duration) {
    let began = Instant::now();
    let answer = Request::get(path).send(world.admin()).expect("the admin listener answers");
    assert_eq!(answer.status(), 200, "{path}: {}", answer.text());
    (answer.body.len(), began.elapsed())
}

/// The last key of the plan opens; a new one does soon after it was made.
fn key(world: &World, plan: &Plan) -> Duration {
    let last = plan.keys.saturating_sub(1);
    assert_eq!(world.chat(&format!("sk-crowd-{last}"), &model(plan, last)).status(), 200, "a key of many opens");
    let began = Instant::now();
    world.key("one-more", "sk-crowd-one-more", json!({}));
    let limit = Limit::after(PATIENCE);
    while world.chat("sk-crowd-one-more", &model(plan, 0)).status() != 200 {
        assert!(limit.left().is_some(), "the new key never opened");
        thread::sleep(Duration::from_millis(1));
    }
    began.elapsed()
}
