//! Who may use what: keys, address lists (worker-protocol 5.3).

pub mod ip_list;
pub mod key_parts;
pub mod key_store;
