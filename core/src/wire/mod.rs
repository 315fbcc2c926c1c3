//! Bytes to types and back, and nothing else (worker-protocol 1, 2, 3.1, 3.2, 5.1).
//!
//! Reading is lenient and element-wise: unknown fields are ignored, names come in kebab-case or snake_case,
//! and one malformed element costs only itself. Writing is snake_case, with lower-case dashed UUIDs.

#[cfg(feature = "appproxy-common")]
mod args;
pub mod circuit;
#[cfg(feature = "appproxy-common")]
mod elements;
#[cfg(feature = "appproxy-common")]
pub mod envelope;
pub mod event;
#[cfg(feature = "appproxy-common")]
mod forgive;
pub mod ids;
#[cfg(feature = "appproxy-common")]
mod json;
pub mod key;
pub mod malformed;
#[cfg(feature = "appproxy-common")]
mod number;
pub mod publication;
#[cfg(feature = "appproxy-common")]
mod read_circuit;
#[cfg(feature = "appproxy-router")]
mod read_key;
#[cfg(feature = "appproxy-common")]
mod read_publication;
#[cfg(feature = "appproxy-common")]
pub mod register;
#[cfg(feature = "appproxy-common")]
mod report;
#[cfg(feature = "appproxy-router")]
pub mod snapshot;
