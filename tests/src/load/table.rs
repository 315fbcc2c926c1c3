//! Figures as a table of ratios: what is measured in one run is to be compared within it alone.

use std::fmt::Write as _;

use super::{Figures, STEPS, Step};

impl Step {
    /// What it is called.
    #[must_use]
    pub fn name(&self) -> String {
        match self.every {
            None => format!("whole answers, {} clients", self.clients),
            Some(every) => {
                format!("streams, {} clients, {} pieces, {} ms apart", self.clients, self.pieces, every.as_millis())
            }
        }
    }
}

/// The table: for each step a line per target, the medians of its rounds; in brackets their ratio to `direct`'s.
#[must_use]
pub fn print(all: &[Figures]) -> String {
    let mut text = String::new();
    for step in STEPS {
        let (rate, unit) = if step.every.is_some() { ("events/s", "event") } else { ("answers/s", "answer") };
        let _ = writeln!(text, "\n{}", step.name());
        let _ = writeln!(
            text,
            "{:8}{rate:>18}{:>20}{:>20}{:>20}{:>16}{:>10}{:>7}",
            "",
            "p50 us",
            "p99 us",
            "gap p99 us",
            format!("CPU us/{unit}"),
            "RSS MiB",
            "wrong"
        );
        let mut targets: Vec<&str> = Vec::new();
        all.iter().for_each(|figures| {
            if !targets.contains(&figures.target) {
                targets.push(figures.target);
            }
        });
        for target in targets {
            let of = |target: &str, what: fn(&Figures) -> Option<f64>| {
                let mine = all.iter().filter(|figures| figures.step == step && figures.target == target);
                median(mine.filter_map(what).collect())
            };
            let with_ratio = |what: fn(&Figures) -> Option<f64>| match (of(target, what), of("direct", what)) {
                (Some(mine), Some(direct)) if direct > 0.0 => format!("{mine:.0} ({:.2})", mine / direct),
                (mine, _) => plain(mine.filter(|value| *value > 0.0), 0),
            };
            let wrong: u64 = all.iter().filter(|f| f.step == step && f.target == target).map(|f| f.wrong).sum();
            let _ = writeln!(
                text,
                "{target:8}{:>18}{:>20}{:>20}{:>20}{:>16}{:>10}{wrong:>7}",
                with_ratio(|figures| Some(figures.rate)),
                with_ratio(|figures| Some(figures.latency.0)),
                with_ratio(|figures| Some(figures.latency.1)),
                with_ratio(|figures| Some(figures.gap.1)),
                // Milliseconds for ten thousand are tenths of a microsecond for one.
                plain(of(target, |figures| figures.cpu).map(|cpu| cpu / 10.0), 1),
                plain(of(target, |figures| Some(figures.memory? as f64 / 1024.0)), 1),
            );
        }
    }
    text
}

fn plain(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (above, below) = (values.get(values.len() / 2)?, values.get((values.len() - 1) / 2)?);
    Some(f64::midpoint(*above, *below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_the_medians_of_the_rounds() {
        let figures = |target, rate| Figures {
            target,
            step: STEPS[0],
            answers: 1,
            rate,
            latency: (10.0, 20.0),
            gap: (0.0, 0.0),
            cpu: Some(250.0),
            memory: Some(2048),
            wrong: 0,
        };
        let all = [figures("direct", 100.0), figures("tokio", 30.0), figures("direct", 300.0), figures("tokio", 70.0)];
        let text = print(&all);
        let line = text.lines().find(|line| line.starts_with("tokio")).unwrap_or_default();
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words, ["tokio", "50", "(0.25)", "10", "(1.00)", "20", "(1.00)", "-", "25.0", "2.0", "0"]);
        assert_eq!(median(Vec::new()), None);
    }
}
