//! The control plane, one rule a test: lifecycle, order of events and pulls, acks, registrations, leaving
//! (worker-protocol 1, 3.3, 5.2).

#![allow(clippy::unwrap_used, reason = "a test may fail so")]

mod acks;
mod held;
mod joining;
mod journal;
mod journalled;
mod leaving;
mod order;
mod plain;
mod probes;
mod pulls;
mod reconfigured;
mod stage;
mod trouble;
