//! What the operator gets to see of the control plane: the core's events as log lines and counts.

use core::time::Duration;
use std::collections::BTreeMap;

use appproxy_core::serving::{ChangeSet, Health, HealthChange, ServingView};
use appproxy_core::time::Moment;
use appproxy_core::wire::malformed::{Malformed, MalformedKind};
use appproxy_core::worker::{Event, Severity};

use crate::metrics::Metrics;

/// Malformed things of one kind are logged at most this often; all are counted.
const MALFORMED_EVERY: Duration = Duration::from_secs(60);

/// Turns events into lines and counts.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    malformed: BTreeMap<MalformedKind, Quiet>,
}

#[derive(Debug)]
struct Quiet {
    logged: Moment,
    since: u64,
}

impl Observer {
    /// One event of the control plane.
    pub(crate) fn event(&mut self, event: &Event, metrics: &Metrics, now: Moment) {
        match event {
            Event::Notice { severity, code, text } => {
                metrics.notice(code);
                match severity {
                    Severity::Info => tracing::info!(%code, "{text}"),
                    Severity::Warning => tracing::warn!(%code, "{text}"),
                    Severity::Error => tracing::error!(%code, "{text}"),
                }
            }
            Event::Malformed(malformed) => {
                metrics.malformed(malformed.kind.label(), malformed.count());
                if let Some(unlogged) = self.may_log(malformed.kind, now) {
                    say_malformed(malformed, unlogged);
                }
            }
            Event::Heard { event, outcome } => metrics.event(event, outcome),
            Event::Pull { scope, outcome } => metrics.pull(scope, outcome),
            Event::CallEnded { call, outcome } => {
                metrics.call(call, outcome);
                tracing::debug!(%call, %outcome, "a call to the coordinator ended");
            }
            Event::ProbeEnded { backend, outcome } => {
                metrics.probe(outcome);
                let backend = backend.as_deref().unwrap_or("-");
                tracing::debug!(%backend, %outcome, "a probe ended");
            }
            Event::Health(change) => {
                if change.to == Health::Quarantined {
                    metrics.ejections.inc();
                }
                say_health(change);
            }
            Event::AckDropped { why } => metrics.ack(why),
            Event::AckSent => metrics.ack("sent"),
        }
    }

    /// A view is in force.
    pub(crate) fn applied(&self, view: &ServingView, changes: &ChangeSet) {
        let (generation, digest) = (view.generation.0, view.digest());
        let (added, updated, removed) = (changes.added.len(), changes.updated.len(), changes.removed.len());
        let (names, keys) = (changes.names.len(), changes.keys);
        tracing::info!(generation, %digest, added, updated, removed, names, keys, "applied");
    }

    /// The journal has a gap.
    pub(crate) fn journal_failed(&self, wrong: &str, metrics: &Metrics) {
        metrics.notice("journal_failed");
        tracing::warn!(code = "journal_failed", "the journal is not written: {wrong}; tried again in a while");
    }

    /// Whether a malformed thing of this kind may be logged now, and how many went unlogged before it.
    fn may_log(&mut self, kind: MalformedKind, now: Moment) -> Option<u64> {
        match self.malformed.get_mut(&kind) {
            Some(quiet) if now.since(quiet.logged) < MALFORMED_EVERY => {
                quiet.since += 1;
                None
            }
            Some(quiet) => {
                quiet.logged = now;
                Some(core::mem::take(&mut quiet.since))
            }
            None => {
                self.malformed.insert(kind, Quiet { logged: now, since: 0 });
                Some(0)
            }
        }
    }
}

fn say_malformed(malformed: &Malformed, unlogged: u64) {
    tracing::warn!(kind = malformed.kind.label(), unlogged, "{malformed}");
}

fn say_health(change: &HealthChange) {
    let HealthChange { backend, from, to, why } = change;
    match to {
        Health::Down | Health::Quarantined => {
            tracing::warn!(%backend, %from, %to, %why, "a backend takes no requests for now");
        }
        Health::WarmingUp => tracing::info!(%backend, %from, %to, %why, "a backend is not ready yet"),
        Health::Unknown | Health::Ready => tracing::info!(%backend, %from, %to, %why, "a backend takes requests"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_kind_and_minute() {
        let mut observer = Observer::default();
        let at = |seconds: u64| Moment::from_millis(seconds * 1000);
        assert_eq!(observer.may_log(MalformedKind::Key, at(0)), Some(0));
        assert_eq!(observer.may_log(MalformedKind::Key, at(1)), None);
        assert_eq!(observer.may_log(MalformedKind::Route, at(1)), Some(0));
        assert_eq!(observer.may_log(MalformedKind::Key, at(59)), None);
        assert_eq!(observer.may_log(MalformedKind::Key, at(60)), Some(2));
        assert_eq!(observer.may_log(MalformedKind::Key, at(119)), None);
    }
}
