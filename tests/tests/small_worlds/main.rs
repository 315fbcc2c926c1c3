//! Every history of a small world (worker-protocol 3.3; every change, delivery order, loss and duplication).

mod coordinator;
mod explore;
mod fingerprint;
mod world;

use explore::{Bounds, Explorer};

fn explore(changes: u8, pulls: u8) {
    let began = std::time::Instant::now();
    let explored = Explorer::new(Bounds { changes, pulls }, |state| state).explore();
    let explored = explored.unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{changes} change(s), {pulls} pull(s): {explored:?} in {:?}", began.elapsed());
}

#[test]
fn one() {
    explore(1, 1);
    explore(1, 2);
    explore(2, 1);
}
