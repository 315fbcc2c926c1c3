//! `appproxy-worker`: the AppProxy inference worker on tokio.

use std::process::ExitCode;

fn main() -> ExitCode {
    appproxy_driver::command_line::main::<appproxy_shell_tokio::Tokio>(env!("CARGO_BIN_NAME"))
}
