//! What an operator configures, as the core uses it: resolved, checked, with secrets that cannot print.
//!
//! `load` takes the text of the file and a way to look up variables, and answers either a [`Loaded`] configuration or
//! every [`problem::Problem`] found, each with key, line and what would be right (worker-protocol 8; data-plane 1, 2).

pub mod api_keys;
pub mod backends;
pub mod health;
pub mod logging;
pub mod problem;
pub mod routing;
pub mod server;
pub mod worker;

use api_keys::ApiKeys;
use backends::StaticBackend;
use health::{HealthChecks, Passive};
use logging::{Journal, Logging};
use problem::Warning;
use routing::{FallbackChains, Request, Routing};
use server::{Admin, Server};
use worker::WorkerConfig;

/// A whole configuration, every default filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The enabled worker section; `None` is a plain router over `backends`.
    pub worker: Option<WorkerConfig>,
    /// Listeners and their bounds.
    pub server: Server,
    /// The admin listener.
    pub admin: Admin,
    /// How a replica is chosen.
    pub routing: Routing,
    /// Time-outs and retry.
    pub request: Request,
    /// What to try when a model has no candidate left.
    pub fallback: FallbackChains,
    /// Static backends, names unique, in the order of the file.
    pub backends: Vec<StaticBackend>,
    /// Operator keys.
    pub api_keys: ApiKeys,
    /// Probes.
    pub health_checks: HealthChecks,
    /// Quarantine by live traffic.
    pub passive: Passive,
    /// Logs.
    pub logging: Logging,
    /// Record of control-plane inputs.
    pub journal: Journal,
}

/// An accepted file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// What is in force.
    pub config: Config,
    /// What the operator should know, in the order of the file.
    pub warnings: Vec<Warning>,
    /// What the file sets and this version does not act on yet.
    pub not_in_effect: Vec<Warning>,
}
