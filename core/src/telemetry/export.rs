//! The whole export.

use super::counts::Counts;
use super::series::Text;
use super::table;
use crate::exchange::Control;
use crate::serving::{Health, HealthCounts, ServingView};
use crate::time::Moment;

/// What is read afresh at every scrape.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Levels {
    version: &'static str,
    pub(super) in_flight: i64,
    pub(super) connections: i64,
    pub(super) config_refused: bool,
    ready: bool,
    generation: u64,
    digest: String,
    backends: HealthCounts,
    names: usize,
    keys: usize,
    last_pull_age: Option<f64>,
    bus: Option<bool>,
    registered: bool,
    revision: String,
}

impl Levels {
    /// The levels of a node of this `version` that serves `view` and stands with its coordinator as `control` says.
    #[must_use]
    pub fn of(version: &'static str, view: &ServingView, control: &Control, now: Moment) -> Self {
        let counts = view.counts();
        let levels = Self {
            version,
            ready: control.ready(now),
            generation: view.generation.0,
            digest: view.digest().to_string(),
            backends: counts.health,
            names: counts.names,
            keys: counts.keys,
            ..Self::default()
        };
        match control {
            #[cfg(feature = "appproxy-common")]
            Control::Worker { standing, .. } => Self {
                last_pull_age: standing.last_full_pull.map(|at| now.since(at).as_secs_f64()),
                bus: standing.bus_up,
                registered: standing.registered,
                revision: standing.revision.as_ref().map(|revision| revision.0.to_string()).unwrap_or_default(),
                ..levels
            },
            Control::Alone { .. } | Control::Unknown => levels,
        }
    }
}

/// The whole export, in OpenMetrics text.
#[must_use]
pub fn export(counts: &Counts, levels: &Levels) -> String {
    let mut text = Text::default();
    let to = &mut text;
    to.info(table::BUILD, "version", levels.version);
    to.one(table::IN_FLIGHT, levels.in_flight);
    to.one(table::CONNECTIONS, levels.connections);
    to.one(table::CONFIG_GOOD, i64::from(!levels.config_refused));
    counts.write(to);
    to.one(table::LAST_PULL, format_args!("{:?}", levels.last_pull_age.unwrap_or(-1.0)));
    to.one(table::GENERATION, levels.generation);
    to.info(table::DIGEST, "digest", &levels.digest);
    to.info(table::REVISION, "revision", &levels.revision);
    to.one(table::BUS_UP, levels.bus.map_or(-1, i64::from));
    to.one(table::REGISTERED, i64::from(levels.registered));
    to.one(table::READY, i64::from(levels.ready));
    to.begin(table::BACKENDS);
    for health in Health::ALL {
        to.sample(table::BACKENDS, "", &[("health", health.label())], levels.backends.of(health));
    }
    to.one(table::MODELS, levels.names);
    to.one(table::KEYS, levels.keys);
    text.finish()
}

#[cfg(test)]
#[cfg(feature = "appproxy-router")]
#[path = "export_tests.rs"]
mod tests;
