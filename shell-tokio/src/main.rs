//! `appproxy-worker`: the AppProxy inference worker on tokio.

use std::path::PathBuf;
use std::process::ExitCode;

#[cfg(any(feature = "appproxy-router", feature = "appproxy-legacy"))]
use appproxy_shell_tokio::demo::{self, Mode};
#[cfg(feature = "appproxy-common")]
use appproxy_shell_tokio::replay::{self, Show};
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
    /// Run everything on loopback: development coordinator, two mock replicas, models, credentials, the worker
    #[cfg(any(feature = "appproxy-router", feature = "appproxy-legacy"))]
    Demo {
        /// Port of the worker; 0 takes a free one
        #[arg(long, value_name = "N", default_value_t = 8080)]
        port: u16,
        /// Which worker is shown
        #[arg(long, value_enum, default_value_t = Mode::usual())]
        mode: Mode,
    },
    /// Check a configuration and print what is in effect, secrets redacted; exit 2 with every problem found
    Check {
        /// The file
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Replay a journal (`journal.file`): what the control plane did, byte for byte, without doing it
    #[cfg(feature = "appproxy-common")]
    Replay {
        /// The journal, or one of its older parts
        journal: PathBuf,
        /// Stop after this input
        #[arg(long, value_name = "N")]
        until: Option<u64>,
        /// Show the state after the last input instead of the outputs
        #[arg(long)]
        state: bool,
        /// Show what differs between the states after inputs N and M, and which inputs made or took which backends
        #[arg(long, num_args = 2, value_names = ["N", "M"], conflicts_with_all = ["until", "state"])]
        diff: Option<Vec<u64>>,
    },
}

pub(crate) fn main() -> ExitCode {
    let done = match Line::parse().command {
        Command::Run { config } => run::main(config.as_deref()),
        #[cfg(any(feature = "appproxy-router", feature = "appproxy-legacy"))]
        Command::Demo { port, mode } => demo::main(port, mode),
        Command::Check { config } => check::main(&config),
        #[cfg(feature = "appproxy-common")]
        Command::Replay { journal, until, state, diff } => {
            let show = match diff.as_deref() {
                Some(&[from, to]) => Show::Difference(from, to),
                _ if state => Show::State(until),
                _ => Show::Outputs(until),
            };
            replay::main(&journal, show)
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("{failed}");
            ExitCode::from(failed.code)
        }
    }
}
