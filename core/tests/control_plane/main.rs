//! The control plane, one rule a test: lifecycle, order of events and pulls, acks, registrations, leaving
//! (worker-protocol 1, 3.3, 5.2).

mod acks;
mod joining;
mod journal;
mod journalled;
mod leaving;
mod order;
mod pulls;
mod stage;
