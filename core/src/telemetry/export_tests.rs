use super::*;

use core::time::Duration;
use std::collections::BTreeSet;

use super::super::{Row, TABLE};
use crate::worker::Event;

#[test]
fn the_table_is_what_is_exported() {
    let text = export(&Counts::default(), &Levels::default());
    let exported: Vec<(&str, &str)> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let listed: BTreeSet<(&str, &str)> = TABLE.iter().map(|row| (row.name, row.kind)).collect();
    assert_eq!(exported.iter().copied().collect::<BTreeSet<_>>(), listed);
    assert_eq!(exported.len(), TABLE.len(), "a name stands twice in the export");
    assert_eq!(listed.len(), TABLE.len(), "a name stands twice in the table");
    assert!(TABLE.iter().all(|row| row.name.starts_with("appproxy_") && !row.help.ends_with('.')));
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let of = |row: &Row| line.strip_prefix(row.name).is_some_and(|rest| rest.starts_with(['_', '{', ' ']));
        assert!(TABLE.iter().any(of), "{line}");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn parts_add_up() {
    let mut counts = Counts::default();
    counts.event(&Event::Pull { scope: "full".into(), outcome: "ok".into() });
    counts.event(&Event::Heard { event: "key_removed".into(), outcome: "applied".into() });
    counts.event(&Event::CallEnded { call: "register".into(), outcome: "200".into() });
    counts.event(&Event::ProbeEnded { backend: None, outcome: "200".into() });
    counts.event(&Event::AckSent);
    counts.notice("journal_failed");
    counts.refused("internal");
    counts.end_lost();
    counts.applied(Duration::from_millis(3));
    let mut twice = counts.clone();
    twice.add(&counts);
    let text = export(&twice, &Levels::default());
    for line in [
        r#"appproxy_pulls_total{scope="full",outcome="ok"} 2"#,
        r#"appproxy_bus_events_total{event="key_removed",outcome="applied"} 2"#,
        r#"appproxy_coordinator_calls_total{call="register",outcome="200"} 2"#,
        r#"appproxy_probes_total{outcome="200"} 2"#,
        r#"appproxy_acks_total{outcome="sent"} 2"#,
        r#"appproxy_notices_total{code="journal_failed"} 2"#,
        r#"appproxy_refusals_total{reason="internal"} 2"#,
        "appproxy_health_reports_lost_total 2",
        "appproxy_apply_duration_seconds_count 2",
        "appproxy_last_full_pull_seconds_ago -1.0",
        "appproxy_bus_connected -1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
    }
}
