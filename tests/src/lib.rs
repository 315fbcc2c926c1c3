//! Support of the end-to-end tests: real programs, real sockets, a real redis-server.
//!
//! Everything here is blocking and bounded: each wait has a limit and says what it waited for. Nothing sleeps for a
//! fixed time in the hope that something has happened by then.
//!
//! - [`redis::Redis`]: a redis-server of the test's own, which can be killed, restarted and frozen.
//! - [`world::World`]: a worker with everything it lives among, made from a [`setup::Setup`].
//! - [`plain::Plain`]: a plain router over mock replicas.
//! - [`puppet::Puppet`]: a replica played by the test, byte by byte.
//! - [`shell::Shell`]: which program is under test.
//! - [`worker::Worker`]: the worker's own program, running on a configuration of the test's.
//! - [`process::Program`]: any program, with its output captured.
//! - [`http`]: a small HTTP/1.1 client which shows what was really on the wire.
//! - [`simulation`]: whole worlds in memory, seeded, without sockets.
//! - [`soak`]: a long run of everything going wrong at once.
//! - [`load`]: what a worker costs, as ratios.
//! - [`crowd`]: what a worker costs at rest.
//! - [`words`]: what the programs' command lines share.
//! - [`wait`]: ask until it is so.
//! - [`repository`]: the tracked files, for the rules checked in `tests/tidy.rs` and `tests/purity.rs`.

pub mod crowd;
pub mod http;
pub mod load;
pub mod log;
pub mod plain;
pub mod process;
pub mod puppet;
pub mod redis;
pub mod repository;
pub mod resp;
pub mod scratch;
pub mod setup;
pub mod shell;
pub mod simulation;
pub mod soak;
pub mod wait;
pub mod wildcard;
pub mod words;
pub mod worker;
pub mod world;
