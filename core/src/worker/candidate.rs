//! A worker before it runs, with what a journal of it begins with.

use std::sync::Arc;

use super::Worker;
use super::journal::{PartBounds, Parts};
use crate::config::Config;
use crate::config::worker::WorkerConfig;
use crate::seed::{Draws, Seed};
use crate::serving::{ServingSettings, ServingView};
use crate::time::Now;

/// The worker that a configuration describes. A plain router has one too: it probes.
#[derive(Debug)]
pub struct Candidate {
    worker: Worker,
    seed: Seed,
    start: Now,
}

impl Candidate {
    /// The worker of `config`, with a seed from `draws`.
    #[must_use]
    pub fn new(config: &Config, draws: &mut Draws, start: Now) -> Self {
        let of_worker = config.worker.clone().unwrap_or_else(WorkerConfig::plain);
        let seed = draws.seed();
        Self { worker: Worker::new(of_worker, &ServingSettings::from(config), seed, start), seed, start }
    }

    /// What requests read at first: the static backends.
    #[must_use]
    pub const fn view(&self) -> &Arc<ServingView> {
        self.worker.view()
    }

    /// Where its journal stands and what it is made of, if it keeps one: not that of a plain router, which nobody tells
    /// anything. `program` writes it.
    #[must_use]
    pub fn journal<'a>(&self, config: &'a Config, program: &str) -> Option<(&'a str, PartBounds, Parts)> {
        let (file, of_worker) = (config.journal.file.as_deref()?, config.worker.as_ref()?);
        let (bounds, settings) = (PartBounds::from(&config.journal), ServingSettings::from(config));
        let parts = Parts::of(bounds, program.to_owned(), of_worker, &settings, self.seed, self.start);
        Some((file, bounds, parts))
    }

    /// The worker.
    #[must_use]
    pub fn into_worker(self) -> Worker {
        self.worker
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::config::logging::Journal;

    #[test]
    fn the_same_draws_make_the_same_worker_and_only_one_with_a_coordinator_keeps_a_journal() {
        let made = |config: &Config| Candidate::new(config, &mut Draws::new(Seed::from_number(7)), Now::default());
        let backend = "backends: [{name: b, url: 'http://b', models: [m]}]";
        let mut plain = config::load(backend, &|_| None).unwrap().config;
        plain.journal = Journal { file: Some("j".to_owned()), ..Journal::default() };
        let worker = Config { worker: Some(WorkerConfig::plain()), ..plain.clone() };
        assert_eq!(format!("{:?}", made(&plain)), format!("{:?}", made(&worker)));
        assert!(made(&plain).journal(&plain, "p").is_none());
        assert_eq!(made(&worker).journal(&worker, "p").map(|(file, ..)| file), Some("j"));
    }
}
