//! What the operator gets to see of the control plane: the core's events as log lines and counts.

use core::time::Duration;

use appproxy_core::serving::{ChangeSet, Health, HealthChange, ServingView};
use appproxy_core::telemetry::{Metrics, Seldom};
use appproxy_core::time::Moment;
use appproxy_core::wire::malformed::{Malformed, MalformedKind};
use appproxy_core::worker::{Event, Severity};

/// Malformed things of one kind are logged at most this often; all are counted.
const MALFORMED_EVERY: Duration = Duration::from_secs(60);

/// Turns events into lines and counts.
#[derive(Debug)]
pub(crate) struct Observer {
    malformed: Seldom<MalformedKind>,
}

impl Default for Observer {
    fn default() -> Self {
        Self { malformed: Seldom::every(MALFORMED_EVERY) }
    }
}

impl Observer {
    /// One event of the control plane.
    pub(crate) fn event(&mut self, event: &Event, metrics: &Metrics, now: Moment) {
        metrics.event(event, now);
        match event {
            Event::Notice { severity, code, text } => match severity {
                Severity::Info => tracing::info!(%code, "{text}"),
                Severity::Warning => tracing::warn!(%code, "{text}"),
                Severity::Error => tracing::error!(%code, "{text}"),
            },
            Event::Malformed(malformed) => {
                if let Some(unlogged) = self.malformed.may_say(&malformed.kind, now) {
                    say_malformed(malformed, unlogged);
                }
            }
            Event::CallEnded { call, outcome } => tracing::debug!(%call, %outcome, "a call to the coordinator ended"),
            Event::ProbeEnded { backend, outcome } => {
                let backend = backend.as_deref().unwrap_or("-");
                tracing::debug!(%backend, %outcome, "a probe ended");
            }
            Event::Health(change) => say_health(change),
            Event::Heard { .. } | Event::Pull { .. } | Event::AckDropped { .. } | Event::AckSent => {}
        }
    }

    /// A view is in force.
    pub(crate) fn applied(&self, view: &ServingView, changes: &ChangeSet) {
        let (generation, digest) = (view.generation.0, view.digest());
        let (added, updated, removed) = (changes.added.len(), changes.updated.len(), changes.removed.len());
        let (names_changed, keys_changed) = (changes.names.len(), changes.keys);
        tracing::info!(generation, %digest, added, updated, removed, names_changed, keys_changed, "applied");
    }

    /// The journal has a gap.
    pub(crate) fn journal_failed(&self, wrong: &str, metrics: &Metrics) {
        metrics.counts().notice("journal_failed");
        tracing::warn!(code = "journal_failed", "the journal is not written: {wrong}; tried again in a while");
    }
}

fn say_malformed(malformed: &Malformed, unlogged: u64) {
    tracing::warn!(kind = malformed.kind.label(), unlogged, "{malformed}");
}

fn say_health(change: &HealthChange) {
    let HealthChange { backend, from, to, why } = change;
    match to {
        Health::Down => tracing::warn!(%backend, %from, %to, %why, "a backend takes no requests for now"),
        Health::Quarantined => {
            tracing::warn!(%backend, %from, %to, %why, "a backend takes no requests for now, but for models with too few others");
        }
        Health::Drained => tracing::info!(%backend, %from, %to, %why, "a backend was taken out by an operator"),
        Health::WarmingUp => tracing::info!(%backend, %from, %to, %why, "a backend is not ready yet"),
        Health::Unknown | Health::Ready => tracing::info!(%backend, %from, %to, %why, "a backend takes requests"),
    }
}
