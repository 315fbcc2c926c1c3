//! `appproxy-worker-smol`: the AppProxy inference worker on smol.

use std::process::ExitCode;

use appproxy_shell_smol as shell;

#[path = "../../shell-tokio/src/command_line.rs"]
mod command_line;

pub(crate) fn main() -> ExitCode {
    command_line::main()
}
