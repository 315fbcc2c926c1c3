//! The deterministic core of a Backend.AI AppProxy inference worker.

pub mod access;
pub mod backoff;
pub mod config;
pub mod desired;
pub mod exchange;
pub mod limits;
pub mod secret;
pub mod seed;
pub mod serving;
pub mod time;
mod trie;
pub mod wire;
#[cfg(feature = "appproxy-common")]
pub mod worker;
