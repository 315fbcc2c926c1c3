//! What an operator gets to see (data-plane 7): counts and their export, access lines, the admin listener's answers.
//!
//! [`TABLE`] is the one list of metrics. Labels never carry a key, a hash or a client address; models and backends become
//! labels only while they are served, and their series go with them.

mod access_line;
mod admin;
#[cfg(feature = "appproxy-common")]
mod control_plane;
mod counts;
mod export;
mod gauge;
mod metrics;
mod notices;
mod seldom;
mod series;
mod sightings;
mod state;
mod state_pools;
mod table;
#[cfg(test)]
#[cfg(feature = "appproxy-router")]
mod told_tests;
mod wanted;

pub use access_line::AccessLine;
pub use admin::{Desk, answer as admin_answer, busy as admin_busy};
pub use counts::Counts;
pub use export::{Levels, export};
pub use gauge::{Gauge, Held};
pub use metrics::{Metrics, Reading, Refusal};
pub use notices::{Noticed, Notices};
pub use seldom::Seldom;
pub use table::{Row, TABLE};
