//! Bytes to types and back, and nothing else (worker-protocol 1, 2, 3.1, 3.2, 5.1).
//!
//! Reading is lenient and element-wise: unknown fields are ignored, names come in kebab-case or snake_case,
//! and one malformed element costs only itself. Writing is snake_case, with lower-case dashed UUIDs.

pub mod circuit;
#[cfg(feature = "appproxy-common")]
pub mod envelope;
pub mod event;
pub mod ids;
pub mod key;
pub mod malformed;
pub mod publication;
#[cfg(feature = "appproxy-common")]
pub mod register;
#[cfg(feature = "appproxy-router")]
pub mod snapshot;
