//! Who may come in: client addresses and rate limits. Pure data, no clock.

pub mod address;
pub mod rate_ledger;
