//! `appproxy-worker-defects`: the worker with one rule broken, for the tests only.

use std::process::ExitCode;

fn main() -> ExitCode {
    appproxy_driver::defective::main::<appproxy_shell_tokio::Tokio>(env!("CARGO_BIN_NAME"))
}
