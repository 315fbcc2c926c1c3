//! Who may use what: keys, address lists, client addresses, rates (worker-protocol 5.3).

pub mod address;
pub mod ip_list;
pub mod key_parts;
pub mod key_store;
pub mod rate_ledger;
