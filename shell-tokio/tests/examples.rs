//! The examples work.
#![cfg(feature = "appproxy-router")]
#![allow(missing_docs, unreachable_pub)]

#[path = "../examples/in_axum.rs"]
mod in_axum;

#[test]
fn the_worker_runs_inside_an_axum_application() {
    in_axum::main().unwrap();
}
