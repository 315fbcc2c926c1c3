//! One check for each fuzz target: it panics when something that must hold for every input does not.

mod config;
mod control_plane;
mod coordinator;
mod drive;
mod exchange;
mod wire;
mod world;

pub use config::config;
pub use control_plane::{control_plane, driven};
pub use exchange::{model_peek, request_head, sent_to, stream_boundary};
pub use wire::{bus_envelope, circuits_body, snapshot_body};

/// A check: bytes from outside.
pub type Check = fn(&[u8]);

/// Every target with its check; the corpus folder has the target's name.
pub const TARGETS: [(&str, Check); 8] = [
    ("bus_envelope", bus_envelope),
    ("circuits_body", circuits_body),
    ("config", config),
    ("control_plane", control_plane),
    ("model_peek", model_peek),
    ("request_head", request_head),
    ("snapshot_body", snapshot_body),
    ("stream_boundary", stream_boundary),
];
