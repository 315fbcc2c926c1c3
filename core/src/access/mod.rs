//! Who may come in, and who may use what: client addresses, address lists, keys, rate limits (worker-protocol 5.3).

pub mod address;
pub mod ip_list;
pub mod key_parts;
pub mod key_store;
mod key_trie;
pub mod rate_ledger;
