//! Bytes to types and back, and nothing else (worker-protocol 1, 2, 3.1, 3.2, 5.1).
//!
//! Reading is lenient and element-wise: unknown fields are ignored, names come in kebab-case or snake_case,
//! and one malformed element costs only itself. Writing is snake_case, with lower-case dashed UUIDs.

#[cfg(feature = "appproxy-common")]
mod args;
pub mod circuit;
mod elements;
#[cfg(feature = "appproxy-common")]
pub mod envelope;
pub mod event;
mod forgive;
pub mod ids;
mod json;
pub mod key;
pub mod malformed;
mod number;
pub mod publication;
mod read_circuit;
#[cfg(feature = "appproxy-router")]
mod read_key;
mod read_publication;
#[cfg(feature = "appproxy-common")]
pub mod register;
mod report;
#[cfg(feature = "appproxy-common")]
pub mod snapshot;
