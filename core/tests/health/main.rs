//! Health in the serving view: who is picked, and that it never says what the control plane did not (data-plane 4).

#![allow(clippy::unwrap_used, reason = "a test may fail so")]

mod history;
mod quarantine;
mod replicas;
mod stage;
#[path = "../states/mod.rs"]
mod states;
mod statics;
