//! Bytes to types and back, and nothing else (worker-protocol 1, 2, 3.1, 3.2, 5.1).
//!
//! Reading is lenient and element-wise: unknown fields are ignored, names come in kebab-case or snake_case,
//! and one malformed element costs only itself. Writing is snake_case, with lower-case dashed UUIDs.
//!
//! An absent or null field takes its default; a field that is read and has the wrong type makes its element malformed;
//! a field that is not read can be anything. What is required, and what else is decided per field, stands at the head
//! of `read_circuit`, `read_publication` and `read_key`.
//!
//! No document is built: `json` hands out the raw texts of the fields asked for and never recurses, so that neither
//! size nor depth of a message costs more than its scan. `report` keeps paths and bounds the reports, `elements` reads
//! lists, `forgive` is the one exception made for Python's `NaN`.

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
#[cfg(feature = "appproxy-common")]
mod read_key;
#[cfg(feature = "appproxy-common")]
mod read_publication;
#[cfg(feature = "appproxy-common")]
pub mod register;
#[cfg(feature = "appproxy-common")]
mod report;
#[cfg(feature = "appproxy-common")]
pub mod snapshot;
