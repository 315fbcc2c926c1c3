//! The command line of a program (data-plane 1).

use std::path::PathBuf;
use std::process::ExitCode;

#[cfg(any(feature = "appproxy-router", feature = "appproxy-legacy"))]
use appproxy_core::command;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

#[cfg(any(feature = "appproxy-router", feature = "appproxy-legacy"))]
use crate::demo::{self, Mode};
use crate::replay::{self, Show};
use crate::runtime::Runtime;
use crate::{check, explain, run};

/// An inference worker for Backend.AI's AppProxy: it routes requests by model name to LLM serving replicas, as a
/// coordinator says, or to static backends.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100)]
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
    ///
    /// Prints what is running and lines to paste. The worker has a configuration of the demo's own: no file is read, and no
    /// APPPROXY__ variable of the environment, so that nothing of a real site gets into it.
    #[cfg(any(feature = "appproxy-router", feature = "appproxy-legacy"))]
    Demo {
        /// Port of the worker; 0 takes a free one
        #[arg(long, value_name = "N", default_value_t = 8080)]
        port: u16,
        /// Which worker is shown
        #[arg(long, value_enum, default_value_t = Shown::usual())]
        mode: Shown,
        /// Record the control plane's inputs here, to be looked at with `replay`; as `journal.file` does
        #[arg(long, value_name = "FILE")]
        journal: Option<PathBuf>,
    },
    /// Check a configuration and print what is in effect, secrets redacted; exit 2 with every problem found
    Check {
        /// The file
        #[arg(long, value_name = "FILE", required_unless_present_any = ["schema", "reference"])]
        config: Option<PathBuf>,
        /// Print a JSON Schema of the file, for editors
        #[arg(long)]
        schema: bool,
        /// Print the reference of every key, as Markdown
        #[arg(long, conflicts_with = "schema")]
        reference: bool,
    },
    /// Ask a running worker why it would serve a request as it would: gates, shares, replicas, fallback
    Explain {
        /// The model that the request names
        #[arg(long, value_name = "M")]
        model: String,
        /// The id of the key that it shows
        #[arg(long, value_name = "K")]
        key_id: Option<String>,
        /// The address that it comes from
        #[arg(long, value_name = "A")]
        client_ip: Option<String>,
        /// The host that it is sent to; a wildcard worker goes by it
        #[arg(long, value_name = "H")]
        host: Option<String>,
        /// The access token that it shows to a wildcard worker: good (of the circuit at the host, or else of a private one
        /// that serves the model), none, or the id of the circuit it is of; good unless a key is named for the apex
        #[arg(long, value_name = "good|none|CIRCUIT")]
        access_token: Option<String>,
        /// The worker's admin listener
        #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9464")]
        admin: String,
        /// `admin.token`; better given as APPPROXY_ADMIN_TOKEN in the environment
        #[arg(long, value_name = "T")]
        token: Option<String>,
        /// Print JSON instead of a tree
        #[arg(long)]
        json: bool,
    },
    /// Replay a journal (`journal.file`): what the control plane did, byte for byte, without doing it
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

/// Which worker the demo shows.
#[cfg(any(feature = "appproxy-router", feature = "appproxy-legacy"))]
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Shown {
    /// The ROUTER worker: published models and model API keys
    #[cfg(feature = "appproxy-router")]
    Router,
    /// The legacy wildcard worker: sub-domains and access tokens
    #[cfg(feature = "appproxy-legacy")]
    Legacy,
}

#[cfg(any(feature = "appproxy-router", feature = "appproxy-legacy"))]
impl Shown {
    /// What is shown unless something else is asked for.
    fn usual() -> Self {
        // The features give one of them at the least.
        let all = <Self as clap::ValueEnum>::value_variants();
        all.first().copied().unwrap_or_else(|| unreachable!("a worker is built in"))
    }

    const fn mode(self) -> Mode {
        match self {
            #[cfg(feature = "appproxy-router")]
            Self::Router => Mode::Router,
            #[cfg(feature = "appproxy-legacy")]
            Self::Legacy => Mode::Legacy,
        }
    }
}

/// As it is found from everywhere; one that cannot be told so stays as it was given.
#[cfg(any(feature = "appproxy-router", feature = "appproxy-legacy"))]
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// Does what the command line says, as the program `name` on a runtime.
#[must_use]
pub fn main<R: Runtime>(name: &'static str) -> ExitCode {
    let given = Line::command().name(name).get_matches();
    let line = Line::from_arg_matches(&given).unwrap_or_else(|error| error.exit());
    let done = match line.command {
        Command::Run { config } => run::main::<R>(config.as_deref()),
        #[cfg(any(feature = "appproxy-router", feature = "appproxy-legacy"))]
        Command::Demo { port, mode, journal } => {
            if let Some(said) = command::unread_overrides(std::env::vars_os()) {
                eprintln!("{said}");
            }
            demo::main::<R>(port, mode.mode(), journal.map(absolute))
        }
        Command::Check { config, schema, reference } => check::main(config.as_deref(), schema, reference),
        Command::Explain { model, key_id, client_ip, host, access_token, admin, token, json } => {
            explain::main(&explain::Asked {
                question: vec![
                    ("model", Some(model)),
                    ("key_id", key_id),
                    ("client_ip", client_ip),
                    ("host", host),
                    ("access_token", access_token),
                ],
                admin,
                token: token.or_else(|| std::env::var("APPPROXY_ADMIN_TOKEN").ok()),
                json,
            })
        }
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
