//! Who may use what: keys, address lists, client addresses, rates (worker-protocol 5.3); host names and access tokens of
//! circuits (4.4).

pub mod address;
#[cfg(feature = "appproxy-legacy")]
pub mod host;
pub mod ip_list;
pub mod key_parts;
pub mod key_store;
pub mod rate_ledger;
#[cfg(feature = "appproxy-legacy")]
pub mod token;
