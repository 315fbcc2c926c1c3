//! Every history of a small world (worker-protocol 3.3; every change, delivery order, loss and duplication).

mod automaton;
mod coordinator;
mod explore;
mod fingerprint;
mod run;
mod world;

use coordinator::State;
use explore::{Bounds, Explorer};

fn explore(start: State, changes: u8, pulls: u8) {
    let began = std::time::Instant::now();
    let explored = Explorer::new(Bounds { start, changes, pulls }, |state| state).explore();
    let explored = explored.unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{changes} change(s), {pulls} pull(s): {explored:?} in {:?}", began.elapsed());
}

#[test]
fn one() {
    let parts: Vec<u8> = std::env::var("BOUNDS").unwrap().split(',').map(|n| n.parse().unwrap()).collect();
    for pair in parts.chunks(2) {
    explore(State::FULL, pair[0], pair[1]);
    explore(State::EMPTY, pair[0], pair[1]);
    }
}
