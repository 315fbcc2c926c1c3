//! The AppProxy inference worker on tokio, and for axum applications. What decides is in `appproxy-core`, and what waits in `appproxy-driver`;
//! here is what it asks of its runtime.
//!
//! | file | what it gives |
//! |---|---|
//! | `executor` | tasks, time, signals |
//! | `streams` | connections |
//! | `embedded` | the data plane in an axum application |

mod embedded;
mod executor;
mod streams;

pub use appproxy_driver::{BoundAddress, Failed, start_logs};
pub use embedded::Running;
pub use executor::Tokio;
