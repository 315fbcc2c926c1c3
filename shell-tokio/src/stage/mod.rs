//! The pieces of a demonstration on real loopback sockets: the development coordinator, mock replicas and a bus.
//!
//! The machines themselves are pure and live in `appproxy-fixtures`; here they get sockets and a clock. The demo and the
//! end-to-end tests use the same pieces.

mod coordinator;
mod redis_server;
mod replica;
mod rest;
pub(crate) mod served;

pub use coordinator::StageCoordinator;
pub use redis_server::StageBus;
pub use replica::StageReplica;
pub use rest::ask_json;
