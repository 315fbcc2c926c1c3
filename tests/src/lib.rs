//! Support of the end-to-end tests: real programs, real sockets, a real redis-server.
//!
//! Everything here is blocking and bounded: each wait has a limit and says what it waited for. Nothing sleeps for a
//! fixed time in the hope that something has happened by then.
//!
//! - [`redis::Redis`]: a redis-server of the test's own, which can be killed, restarted and frozen.
//! - [`worker::Worker`]: the worker's own program, running on a configuration of the test's.
//! - [`process::Program`]: any program, with its output captured.
//! - [`http`]: a small HTTP/1.1 client which shows what was really on the wire.
//! - [`simulation`]: whole worlds in memory, seeded, without sockets.
//! - [`wait`]: ask until it is so.
//! - [`repository`]: the tracked files, for the rules checked in `tests/tidy.rs` and `tests/purity.rs`.

pub mod http;
pub mod log;
pub mod process;
pub mod redis;
pub mod repository;
pub mod resp;
pub mod scratch;
pub mod simulation;
pub mod wait;
pub mod worker;
