//! Every history of a small world (worker-protocol 3.3).
//!
//! Two circuits, two publications, two keys, all of them there at the start or none. A history is any sequence of:
//! changes of the coordinator's (a removal of a circuit may also be announced first and committed later); arrivals of
//! the messages about them, in any order, each never, once or again and again; periodic pulls, and those that key
//! notices call for; answers to their requests in any order, with the state as it was when the request was sent or as
//! it is. It may end anywhere: what has not arrived then is lost. After each, what is under way is answered, one
//! closing pull is made, and the pull that a guard asks for: then the worker must want and serve, by content and by
//! digest, what a fresh worker would that was told only the coordinator's state. In every step: what an event says is
//! so at once, and acked at once where it is to be; no ack goes before the apply it confirms; a removed key is back
//! only by an answer to a request sent after its removal; a key notice is acked only by an answer to a request sent
//! after it; no request is given up.
//!
//! Histories that lead to the same world are followed once: the worker is an automaton whose states are told apart by
//! all of its `Debug` but serial numbers (`fingerprint`), and a world is plain data (`world`). What is printed is the
//! number of different histories with room for every message twice, counted over the graph of worlds.
//!
//! Followed are, in the optimised profile (`cargo test --release -p appproxy-tests --test small_worlds`), all histories
//! of three changes to anything, and of four changes to any two of the six (one pair for each class of pairs that are
//! the same by renaming), each with two periodic pulls. Without optimisation a step costs ten times as much: one change
//! less, and the pairs with one periodic pull and from nothing.

mod automaton;
mod coordinator;
mod explore;
mod fingerprint;
mod run;
mod world;

use std::time::Instant;

use coordinator::{State, Subject};
use explore::{Bounds, Explorer};

const FEWER: u8 = if cfg!(debug_assertions) { 1 } else { 0 };

fn explore(bounds: Bounds) -> u128 {
    let began = Instant::now();
    let explored = Explorer::new(bounds, |state| state).explore().unwrap_or_else(|wrong| panic!("{bounds:?}: {wrong}"));
    println!(
        "{} change(s) of {}, {} pull(s), {} at the start: {} histories of up to {} steps, in {} worlds with {} steps; \
         {} ends closed; {} states of the worker with {} reactions; {:?}",
        bounds.changes,
        bounds.subjects.map_or_else(|| "anything".to_owned(), |subjects| format!("{subjects:?}")),
        bounds.pulls,
        if bounds.start == State::FULL { "everything" } else { "nothing" },
        explored.histories,
        explored.length,
        explored.worlds,
        explored.steps,
        explored.closings,
        explored.automaton.0,
        explored.automaton.1,
        began.elapsed(),
    );
    explored.histories
}

#[test]
fn every_history_of_anything_there_at_the_start_converges() {
    let histories = explore(Bounds { start: State::FULL, changes: 3 - FEWER, pulls: 2, subjects: None });
    assert!(histories > 500_000_000, "{histories}");
}

#[test]
fn every_history_from_nothing_converges() {
    let histories = explore(Bounds { start: State::EMPTY, changes: 3 - FEWER, pulls: 2, subjects: None });
    assert!(histories > 100_000_000, "{histories}");
}

/// The pairs of two subjects, but for renaming. `Model(1)` moves to the endpoint of `Circuit(0)` in its second version.
fn pairs(pairs: &[[Subject; 2]]) {
    for subjects in pairs {
        let bounds = Bounds { start: State::EMPTY, changes: 4 - FEWER, pulls: 2 - FEWER, subjects: Some(*subjects) };
        explore(bounds);
        if FEWER == 0 {
            explore(Bounds { start: State::FULL, ..bounds });
        }
    }
}

const LIKE: [[Subject; 2]; 3] = [
    [Subject::Circuit(0), Subject::Circuit(1)],
    [Subject::Model(0), Subject::Model(1)],
    [Subject::Key(0), Subject::Key(1)],
];

const UNLIKE: [[Subject; 2]; 4] = [
    [Subject::Circuit(0), Subject::Model(0)],
    [Subject::Circuit(0), Subject::Model(1)],
    [Subject::Circuit(0), Subject::Key(0)],
    [Subject::Model(0), Subject::Key(0)],
];

#[test]
fn every_longer_history_of_two_of_a_kind_converges() {
    pairs(&LIKE);
}

#[test]
fn every_longer_history_of_two_kinds_converges() {
    pairs(&UNLIKE);
}

#[test]
fn a_coordinator_that_lies_at_the_end_is_noticed() {
    let lies: [fn(State) -> State; 3] = [
        |state| State { keys: [1 - state.keys[0].min(1), state.keys[1]], ..state },
        |state| State { models: [3 - state.models[0].max(1), state.models[1]], ..state },
        |state| State { circuits: [1 - state.circuits[0].min(1), state.circuits[1]], ..state },
    ];
    for (number, lie) in lies.into_iter().enumerate() {
        let bounds = Bounds { start: State::FULL, changes: 1, pulls: 1, subjects: None };
        let wrong = Explorer::new(bounds, lie).explore().map(|explored| explored.histories);
        assert!(wrong.as_ref().is_err_and(|wrong| wrong.contains("not as its coordinator")), "lie {number}: {wrong:?}");
    }
}
