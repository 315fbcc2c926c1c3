//! Series of numbers, and how they are written: the OpenMetrics text format.

use core::fmt::{Display, Write};
use core::time::Duration;
use std::borrow::Cow;
use std::collections::BTreeMap;

use super::table::Row;

/// The value of a label.
pub(super) type Label = Cow<'static, str>;

/// Counters by their labels. What the labels say must be bounded in number by whoever counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Family<const N: usize>(BTreeMap<[Label; N], u64>);

impl<const N: usize> Default for Family<N> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<const N: usize> Family<N> {
    pub(super) fn count(&mut self, labels: [Label; N], more: u64) {
        *self.0.entry(labels).or_default() += more;
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (labels, count) in &other.0 {
            self.count(labels.clone(), *count);
        }
    }

    pub(super) fn write(&self, row: Row, names: [&str; N], to: &mut Text) {
        to.begin(row);
        for (labels, count) in &self.0 {
            let labels: Vec<_> = names.iter().copied().zip(labels.iter().map(|label| &**label)).collect();
            to.sample(row, "_total", &labels, count);
        }
    }
}

/// From a cache hit's fraction of a millisecond to the longest answers, in seconds.
const BOUNDS: [f64; 16] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0];

/// How often something took how long.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Durations {
    within: [u64; BOUNDS.len()],
    count: u64,
    seconds: f64,
}

impl Durations {
    pub(super) fn observe(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        if let Some((_, within)) = BOUNDS.iter().zip(&mut self.within).find(|(bound, _)| seconds <= **bound) {
            *within += 1;
        }
        self.count += 1;
        self.seconds += seconds;
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.within.iter_mut().zip(other.within).for_each(|(own, others)| *own += others);
        self.count += other.count;
        self.seconds += other.seconds;
    }

    /// The samples of one series, after [`Text::begin`].
    pub(super) fn write(&self, row: Row, labels: &[(&str, &str)], to: &mut Text) {
        to.sample(row, "_sum", labels, format_args!("{:?}", self.seconds));
        to.sample(row, "_count", labels, self.count);
        let mut up_to = 0;
        for (bound, within) in BOUNDS.iter().zip(self.within) {
            up_to += within;
            to.sample(row, "_bucket", &with_bound(&format!("{bound:?}"), labels), up_to);
        }
        to.sample(row, "_bucket", &with_bound("+Inf", labels), self.count);
    }
}

fn with_bound<'a>(bound: &'a str, labels: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [("le", bound)].into_iter().chain(labels.iter().copied()).collect()
}

/// The export as it grows.
#[derive(Debug, Default)]
pub(super) struct Text(String);

impl Text {
    /// The two lines before the samples of a metric.
    pub(super) fn begin(&mut self, row: Row) {
        let _ = writeln!(self.0, "# HELP {} {}.\n# TYPE {} {}", row.name, row.help, row.name, row.kind);
    }

    pub(super) fn sample(&mut self, row: Row, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.0, "{}{suffix}", row.name);
        for (number, (name, value)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{name}=\"", if number == 0 { '{' } else { ',' });
            for character in value.chars() {
                match character {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    other => self.0.push(other),
                }
            }
            self.0.push('"');
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// A metric of one sample.
    pub(super) fn one(&mut self, row: Row, value: impl Display) {
        self.begin(row);
        self.sample(row, if row.kind == "counter" { "_total" } else { "" }, &[], value);
    }

    /// A metric that says a text.
    pub(super) fn info(&mut self, row: Row, name: &str, value: &str) {
        self.begin(row);
        self.sample(row, "_info", &[(name, value)], 1);
    }

    pub(super) fn finish(mut self) -> String {
        self.0.push_str("# EOF\n");
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut text = Text::default();
        text.sample(table::REFUSALS, "_total", &[("reason", "a\"b\\c\nd"), ("x", "모델")], 1);
        assert_eq!(text.finish(), "appproxy_refusals_total{reason=\"a\\\"b\\\\c\\nd\",x=\"모델\"} 1\n# EOF\n");
    }

    #[test]
    fn buckets_hold_what_is_at_most_their_bound() {
        let mut durations = Durations::default();
        for millis in [1, 2, 10, 700_000] {
            durations.observe(Duration::from_millis(millis));
        }
        let mut twice = durations.clone();
        twice.add(&durations);
        let mut text = Text::default();
        twice.write(table::APPLY, &[], &mut text);
        let text = text.finish();
        for line in ["{le=\"0.001\"} 2", "{le=\"0.0025\"} 4", "{le=\"0.01\"} 6", "{le=\"600.0\"} 6", "{le=\"+Inf\"} 8"]
        {
            assert!(text.contains(&format!("appproxy_apply_duration_seconds_bucket{line}\n")), "{line}: {text}");
        }
        assert!(text.contains("seconds_count 8\n") && text.contains("seconds_sum 1400.026"), "{text}");
    }
}
