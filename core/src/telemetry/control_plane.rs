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

#[cfg(test)]
mod tests {
    use super::super::{Levels, export};
    use super::*;
    use crate::serving::HealthChange;
    use crate::wire::malformed::{Malformed, MalformedKind};

    fn health(to: Health) -> Event {
        let change = HealthChange { backend: "b1".into(), from: Health::Unknown, to, why: "said so".into() };
        Event::Health(change)
    }

    fn notice(severity: Severity) -> Event {
        Event::Notice { severity, code: "pull_failed".into(), text: "in words".to_owned() }
    }

    /// What the status page keeps of an event.
    fn kept(event: &Event) -> Vec<(&'static str, String, String)> {
        let metrics = Metrics::default();
        metrics.event(event, Moment::from_millis(7));
        let notices = metrics.notices();
        assert!(notices.newest_first().all(|noticed| noticed.at == Moment::from_millis(7)));
        notices.newest_first().map(|it| (it.severity, it.code.clone(), it.text.clone())).collect()
    }

    #[test]
    fn what_an_operator_should_read_is_kept_and_what_happens_all_the_time_is_not() {
        for (severity, word) in [(Severity::Info, "info"), (Severity::Warning, "warning"), (Severity::Error, "error")] {
            assert_eq!(kept(&notice(severity)), [(word, "pull_failed".to_owned(), "in words".to_owned())]);
        }
        for (to, word) in [
            (Health::Ready, "info"),
            (Health::Down, "warning"),
            (Health::Quarantined, "warning"),
            (Health::Drained, "warning"),
            (Health::WarmingUp, "warning"),
        ] {
            let [(severity, code, text)] = &kept(&health(to))[..] else { panic!("one notice") };
            assert_eq!((*severity, code.as_str()), (word, "health"), "{to}");
            assert_eq!(*text, format!("b1: {} -> {to} (said so)", Health::Unknown));
        }
        let malformed = Malformed::new(MalformedKind::Envelope, "", "cut short");
        let [(severity, code, text)] = &kept(&Event::Malformed(malformed.clone()))[..] else { panic!("one notice") };
        assert_eq!((*severity, code.as_str(), text), ("warning", "malformed", &malformed.to_string()));
        for event in [
            Event::AckSent,
            Event::AckDropped { why: "too_old".into() },
            Event::Heard { event: "key_removed".into(), outcome: "applied".into() },
            Event::Pull { scope: "full".into(), outcome: "ok".into() },
            Event::CallEnded { call: "register".into(), outcome: "200".into() },
            Event::ProbeEnded { backend: None, outcome: "200".into() },
        ] {
            assert_eq!(kept(&event), [], "{event:?}");
        }
    }

    #[test]
    fn every_event_is_counted_where_it_belongs() {
        let mut counts = Counts::default();
        for event in [
            notice(Severity::Info),
            Event::AckDropped { why: "too_old".into() },
            Event::Malformed(Malformed::new(MalformedKind::Envelope, "", "cut short")),
            health(Health::Quarantined),
            health(Health::Down),
        ] {
            counts.event(&event);
        }
        let text = export(&counts, &Levels::default());
        let label = MalformedKind::Envelope.label();
        for line in [
            r#"appproxy_notices_total{code="pull_failed"} 1"#,
            r#"appproxy_acks_total{outcome="too_old"} 1"#,
            &format!("appproxy_malformed_total{{kind=\"{label}\"}} 1"),
            // Only live traffic ejects.
            "appproxy_ejections_total 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
        }
    }
}
