//! The legacy wildcard worker, from circuits to replicas (worker-protocol 4; data-plane 3).

#![allow(clippy::unwrap_used, reason = "a test may fail so")]

mod aggregation;
mod arrivals;
mod chains;
mod discovery;
mod doors;
mod explained;
mod held;
mod incremental;
mod invariant;
#[path = "../control_plane/journalled.rs"]
#[allow(dead_code, reason = "the stage is that of the control plane's tests")]
mod journalled;
mod pinning;
mod raw;
mod reconcile;
#[path = "../control_plane/stage.rs"]
#[allow(dead_code, reason = "the stage is that of the control plane's tests")]
mod stage;
#[path = "../states/mod.rs"]
mod states;
mod world;
