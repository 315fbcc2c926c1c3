//! The AppProxy inference worker on smol. What decides is in `appproxy-core`, and what waits in `appproxy-driver`; here is
//! what it asks of its runtime.
//!
//! | file | what it gives |
//! |---|---|
//! | `executor` | tasks, signals; all of it as the driver wants it |
//! | `alarm` | time |
//! | `socket` | connections |
//! | `coordinator` | the coordinator's REST, by surf |

mod alarm;
mod coordinator;
mod executor;
mod socket;

pub use appproxy_driver::{BoundAddress, Failed, start_logs};
pub use executor::Smol;

/// A worker that runs on smol.
pub type Running = appproxy_driver::Running<Smol>;
