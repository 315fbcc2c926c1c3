//! What only the control plane counts.

use core::time::Duration;

use super::counts::Counts;
use super::metrics::Metrics;
use super::notices::Noticed;
use crate::serving::Health;
use crate::time::Moment;
use crate::worker::{Event, Severity};

impl Metrics {
    /// One event of the control plane: counted, and kept when the status page shows it.
    pub fn event(&self, event: &Event, now: Moment) {
        self.counts().event(event);
        let (severity, code, text) = match event {
            Event::Notice { severity, code, text } => {
                let severity = match severity {
                    Severity::Info => "info",
                    Severity::Warning => "warning",
                    Severity::Error => "error",
                };
                (severity, code.clone().into_owned(), text.clone())
            }
            Event::Malformed(malformed) => ("warning", "malformed".to_owned(), malformed.to_string()),
            Event::Health(change) => {
                let severity = if change.to.serves() { "info" } else { "warning" };
                let text = format!("{}: {} -> {} ({})", change.backend, change.from, change.to, change.why);
                (severity, "health".to_owned(), text)
            }
            _ => return,
        };
        self.notices().keep(Noticed { at: now, severity, code, text });
    }
}

impl Counts {
    /// One event of the control plane.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Notice { code, .. } => self.notices.count([code.clone()], 1),
            Event::Malformed(malformed) => self.malformed.count([malformed.kind.label().into()], malformed.count()),
            Event::Heard { event, outcome } => self.events.count([event.clone(), outcome.clone()], 1),
            Event::Pull { scope, outcome } => self.pulls.count([scope.clone(), outcome.clone()], 1),
            Event::CallEnded { call, outcome } => self.calls.count([call.clone(), outcome.clone().into()], 1),
            Event::ProbeEnded { outcome, .. } => self.probes.count([outcome.clone().into()], 1),
            Event::Health(change) => self.ejections += u64::from(change.to == Health::Quarantined),
            Event::AckDropped { why } => self.acks.count([why.clone()], 1),
            Event::AckSent => self.acks.count(["sent".into()], 1),
        }
    }

    /// A notice of the shell's own: of its journal, for one.
    pub fn notice(&mut self, code: &'static str) {
        self.notices.count([code.into()], 1);
    }

    /// A view was put in force within this time.
    pub fn applied(&mut self, took: Duration) {
        self.apply.observe(took);
    }
}
