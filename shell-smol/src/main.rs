//! `appproxy-worker-smol`: the AppProxy inference worker on smol.

use std::process::ExitCode;

fn main() -> ExitCode {
    appproxy_driver::command_line::main::<appproxy_shell_smol::Smol>(env!("CARGO_BIN_NAME"))
}
