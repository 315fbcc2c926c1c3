//! What an operator configures, as the core uses it: resolved, checked, with secrets that cannot print.
//!
//! [`load`] takes the text of the file and a way to look up variables, and answers either a [`Loaded`] configuration or
//! every [`problem::Problem`] found, each with key, line and what would be right (worker-protocol 8; data-plane 1, 2).

mod addresses;
pub mod api_keys;
pub mod backends;
mod describe;
mod fallback;
mod foreign;
mod forms;
pub mod health;
pub mod keys;
pub mod logging;
mod overrides;
mod pending;
pub mod problem;
mod reader;
mod reference;
pub mod reload;
pub mod routing;
mod schema;
pub mod server;
mod suggest;
mod tree;
mod variables;
pub mod worker;
mod worker_section;

#[cfg(test)]
mod tests;

pub use describe::describe;
pub use keys::KEYS;
pub use overrides::OVERRIDE_PREFIX;
pub use reference::reference;
pub use schema::schema;

use crate::defects::{self, Defect};
use api_keys::ApiKeys;
use backends::StaticBackend;
use health::{HealthChecks, Passive};
use logging::{Journal, Logging};
use problem::{Position, Problems, Warning};
use reader::{Reader, Section};
use routing::{FallbackChains, Request, Routing};
use server::{Admin, Server};
use std::collections::BTreeMap;
use tree::Value;
use worker::WorkerConfig;
use worker_section::Asked;

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
    /// Where keys stand that name a file which only a shell can look into.
    files: BTreeMap<String, Position>,
}

impl Loaded {
    /// What a shell found in the way of having what the file names, each with its whole key and in words that begin with
    /// it: as problems of the file are said, with their place where it is known.
    #[must_use]
    pub fn placed(&self, key: &str, words: &str) -> String {
        match self.files.get(key) {
            Some(at) => format!("{at}: {words}"),
            None => words.to_owned(),
        }
    }
}

/// Reads `text`; `env` answers what a variable is set to.
///
/// # Errors
/// Every problem found, in the order of the file. A text that is no YAML is one problem: what stands behind its place
/// is not looked at.
///
/// ```
/// let found = appproxy_core::config::load("serverr: {}\nlogging: {level: loud}", &|_| None).unwrap_err();
/// assert_eq!(
///     found.to_string(),
///     "line 1, column 1: serverr: unknown key; did you mean `server`?\n\
///      line 2, column 18: logging.level: \"loud\" is not known here; write one of off, error, warn, info, debug, trace"
/// );
/// ```
pub fn load(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Loaded, Problems> {
    load_with(text, env, &BTreeMap::new())
}

/// Like [`load`], with the values of `given` laid over the file: variables that begin with [`OVERRIDE_PREFIX`], such as
/// `APPPROXY__SERVER__BIND_ADDRESS`. The items of a list stand between commas, the entries of a list of sections have their
/// number as a name (`APPPROXY__BACKENDS__0__URL`). Their values are taken as they are.
///
/// # Errors
/// As [`load`]; what is wrong in a variable has the place `environment`.
pub fn load_with(
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
    given: &BTreeMap<String, String>,
) -> Result<Loaded, Problems> {
    let env = |name: &str| defects::forget_variables(env(name));
    let mut reader = Reader::new(&env);
    let mut tree = tree::parse(text).map_err(|problem| Problems(vec![problem]))?;
    for (variable, value) in given.iter().filter(|_| !defects::has(Defect::OverridesUnread)) {
        if let Err(problem) = overrides::lay(&mut tree, variable, value) {
            reader.problems.push(problem);
        }
    }
    let entries = match &tree.value {
        Value::Map(entries) => entries.as_slice(),
        Value::Null => &[],
        Value::Scalar(_) | Value::Literal(_) | Value::List(_) => {
            reader.problem(
                tree.at,
                "",
                "not a configuration",
                "write sections such as `server:` with their keys below",
            );
            &[]
        }
    };
    let mut config = read(&mut reader, &Section::root(entries, tree.at));
    let by_place = |warning: &Warning| (warning.at, warning.key.clone());
    reader.warnings.sort_by_key(by_place);
    reader.not_in_effect.sort_by_key(by_place);
    reader.problems.sort_by_key(|problem| (problem.at, problem.key.clone()));
    if defects::has(Defect::FirstMistakeOnly) {
        reader.problems.truncate(1);
    }
    if reader.problems.is_empty() {
        defects::forget_some(&mut config);
        Ok(Loaded { config, warnings: reader.warnings, not_in_effect: reader.not_in_effect, files: reader.files })
    } else {
        Err(Problems(reader.problems))
    }
}

const ADMITS_ANYBODY: &str = "there is no such section: requests are admitted without a key; list keys in \
    `api_keys.keys`, or write `api_keys: {mode: permissive}` if that is meant";

/// What static backends are for where the coordinator says what is served.
fn beside_a_worker(config: &Config) -> &'static str {
    let keys = config.api_keys.keys.iter().any(|key| key.enabled);
    match (keys, !config.fallback.is_empty()) {
        (true, true) => {
            "beside a worker section these stand in where `fallback.fallback_chains` name their models, and serve the keys \
             of `api_keys.keys`; keys and tokens of the coordinator do not reach them by name"
        }
        (true, false) => {
            "beside a worker section these serve the keys of `api_keys.keys` alone; keys and tokens of the coordinator reach \
             them where `fallback.fallback_chains` name their models, and there are no chains"
        }
        (false, true) => {
            "beside a worker section these only stand in where `fallback.fallback_chains` name their models; keys and tokens \
             of the coordinator do not reach them by name"
        }
        (false, false) => {
            "nothing reaches these: beside a worker section they serve `fallback.fallback_chains` and the keys of \
             `api_keys.keys`, and there is neither; the models that clients ask for are the coordinator's"
        }
    }
}

fn read(reader: &mut Reader<'_>, root: &Section<'_>) -> Config {
    let asked = worker_section::asked(reader, root);
    let server = server::read(reader, root, asked == Asked::Legacy);
    let health_checks = health::read(reader, root);
    let config = Config {
        worker: worker_section::read(reader, root, asked, &server),
        admin: server::read_admin(reader, root, &server),
        server,
        routing: routing::read(reader, root, asked == Asked::Legacy),
        request: routing::read_request(reader, root),
        fallback: fallback::read(reader, root),
        backends: backends::read(reader, root, health_checks.enabled),
        api_keys: api_keys::read(reader, root, asked != Asked::Plain),
        health_checks,
        passive: health::read_passive(reader, root),
        logging: logging::read(reader, root),
        journal: logging::read_journal(reader, root),
    };
    if asked == Asked::Plain && config.backends.is_empty() {
        reader.warn(
            root.at,
            "backends",
            "no worker section is enabled and no backend is named: there is nothing to serve",
        );
    }
    // Whoever writes `mode: permissive` knows it.
    if asked == Asked::Plain && !config.backends.is_empty() && !root.has("api_keys") {
        reader.warn(root.at, "api_keys", ADMITS_ANYBODY);
    }
    if asked != Asked::Plain && !config.backends.is_empty() {
        reader.warn(root.place("backends"), "backends", beside_a_worker(&config));
    }
    if asked == Asked::Plain && config.journal.file.is_some() {
        reader.warn(root.at, "journal.file", "no worker section is enabled: there is no control plane to record");
    }
    reader.finish(root);
    config
}
