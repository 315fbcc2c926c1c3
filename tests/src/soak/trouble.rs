//! Replicas that die and come back, and routes that change.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use appproxy_core::seed::Draws;
use serde_json::{Value, json};

use super::{REPLICAS, Shared};
use crate::world::{World, endpoint};

/// Kills a replica every few seconds and starts it again; at most one of a model is dead.
#[derive(Debug, Default)]
pub(super) struct Killer {
    next: Option<Instant>,
    dead: Vec<(usize, Instant)>,
}

impl Killer {
    /// Does what is due; how many were killed.
    pub(super) fn step(&mut self, world: &mut World, draws: &mut Draws) -> u64 {
        let now = Instant::now();
        while let Some(at) = self.dead.iter().position(|(_, until)| *until < now) {
            let (index, _) = self.dead.swap_remove(at);
            world.revive_replica(index);
        }
        if self.next.is_some_and(|next| now < next) {
            return 0;
        }
        self.next = Some(now + Duration::from_millis(1500 + draws.next_u64() % 2500));
        let index = usize::try_from(draws.next_u64()).unwrap_or(0) % world.replicas.len().max(1);
        let model = |index: usize| index / REPLICAS as usize;
        if self.dead.iter().any(|(other, _)| model(*other) == model(index)) {
            return 0;
        }
        world.kill_replica(index);
        self.dead.push((index, now + Duration::from_millis(500 + draws.next_u64() % 2500)));
        1
    }
}

/// Twice a second some model gets other replicas of its own, at least two of them, in another order.
pub(super) fn move_routes(shared: &Shared, mut draws: Draws, ports: &[Vec<u16>]) {
    while !shared.stopped() {
        thread::sleep(Duration::from_millis(500));
        let at = usize::try_from(draws.next_u64()).unwrap_or(0) % ports.len().max(1);
        let Some(mut routes) = ports.get(at).cloned() else { continue };
        let turn = usize::try_from(draws.next_u64()).unwrap_or(0) % routes.len().max(1);
        routes.rotate_left(turn);
        if draws.next_u64().is_multiple_of(2) {
            routes.pop();
        }
        let routes: Vec<Value> =
            routes.iter().map(|port| json!({"kernel_host": "127.0.0.1", "kernel_port": port})).collect();
        let number = u32::try_from(at).unwrap_or(0) + 1;
        let path = format!("/dev/circuits/{}/routes", endpoint(number));
        if shared.manage("PUT", &path, &json!({"routes": routes})).is_some() {
            shared.routes.fetch_add(1, Ordering::Relaxed);
        }
    }
}
