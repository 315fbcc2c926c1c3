//! One check for each fuzz target: it panics when something that must hold for every input does not.

#[cfg(feature = "appproxy-legacy")]
mod access;
mod config;
mod control_plane;
mod coordinator;
mod drive;
mod exchange;
mod framing;
mod replies;
mod wire;
mod world;

#[cfg(feature = "appproxy-legacy")]
pub use access::{access_token, good, host_name};
pub use config::config;
pub use control_plane::{control_plane, driven};
pub use exchange::{model_peek, request_head, sent_to, stream_boundary};
pub use framing::{request_framing, requests};
pub use replies::{answered, replica_answer};
pub use wire::{bus_envelope, circuits_body, snapshot_body};

/// A check: bytes from outside.
pub type Check = fn(&[u8]);

/// Every target with its check; the corpus folder has the target's name.
pub const TARGETS: &[(&str, Check)] = &[
    #[cfg(feature = "appproxy-legacy")]
    ("access_token", access_token),
    ("bus_envelope", bus_envelope),
    ("circuits_body", circuits_body),
    ("config", config),
    ("control_plane", control_plane),
    #[cfg(feature = "appproxy-legacy")]
    ("host_name", host_name),
    ("model_peek", model_peek),
    ("replica_answer", replica_answer),
    ("request_framing", request_framing),
    ("request_head", request_head),
    ("snapshot_body", snapshot_body),
    ("stream_boundary", stream_boundary),
];
