//! `appproxy-worker`: the AppProxy inference worker on tokio.

use std::process::ExitCode;

use appproxy_shell_tokio as shell;

mod command_line;

pub(crate) fn main() -> ExitCode {
    command_line::main()
}
