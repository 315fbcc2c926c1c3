//! The examples work.
#![cfg(feature = "appproxy-router")]
#![allow(missing_docs, unreachable_pub)]

#[path = "../examples/in_smol.rs"]
mod in_smol;

#[test]
fn the_worker_runs_inside_a_smol_program() {
    in_smol::main().unwrap();
}
