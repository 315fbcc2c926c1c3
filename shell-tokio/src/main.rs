//! `appproxy-worker`: the AppProxy inference worker on tokio.

use std::path::PathBuf;
use std::process::ExitCode;

use appproxy_shell_tokio::{check, run};
use clap::{Parser, Subcommand};

/// An inference worker for Backend.AI's AppProxy: it routes requests by model name to LLM serving replicas, as a
/// coordinator says, or to static backends.
#[derive(Debug, Parser)]
#[command(name = "appproxy-worker", version, about, max_term_width = 100)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the worker
    Run {
        /// Configuration; without it ./config.yaml, ~/.config/appproxy-worker/config.yaml,
        /// /etc/appproxy-worker/config.yaml
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Run everything on loopback: development coordinator, two mock replicas, a published model, a key, the worker
    #[cfg(feature = "appproxy-router")]
    Demo {
        /// Port of the worker; 0 takes a free one
        #[arg(long, value_name = "N", default_value_t = 8080)]
        port: u16,
    },
    /// Check a configuration and print what is in effect, secrets redacted; exit 2 with every problem found
    Check {
        /// The file
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
}

fn main() -> ExitCode {
    let done = match Line::parse().command {
        Command::Run { config } => run::main(config.as_deref()),
        #[cfg(feature = "appproxy-router")]
        Command::Demo { port } => appproxy_shell_tokio::demo::main(port),
        Command::Check { config } => check::main(&config),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("{failed}");
            ExitCode::from(failed.code)
        }
    }
}
