//! The examples work.
#![allow(missing_docs, unreachable_pub)]

#[path = "../examples/blocking.rs"]
mod blocking;

#[test]
fn a_worker_of_threads_and_blocking_sockets_serves() {
    blocking::main().unwrap();
}
