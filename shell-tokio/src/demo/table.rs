//! The table of what is running.

use core::fmt;

use super::{AUTHORITY, Places};

/// Writes it; `rows` are what there is to use.
pub(super) fn write(f: &mut fmt::Formatter<'_>, places: &Places, rows: &[(&str, &str, &str)]) -> fmt::Result {
    let mut row = |what: &str, place: &str, note: &str| writeln!(f, "  {what:<12} {place:<28} {note}");
    row("worker", &format!("http://{}", places.worker), &format!("/health /readyz /status; authority {AUTHORITY}"))?;
    row("admin", &format!("http://{}", places.admin), "/metrics")?;
    row("coordinator", &format!("http://{}", places.coordinator), "development coordinator; GET / lists its calls")?;
    for (number, replica) in (1..).zip(&places.replicas) {
        row(&format!("replica {number}"), &format!("http://{replica}"), "mock replica")?;
    }
    row("switches", &format!("http://{}", places.switches), "kills and starts replicas")?;
    match places.bus {
        Some(port) => row("bus", &format!("redis://127.0.0.1:{port}"), "a redis-server of the demo's own")?,
        None => row("bus", "none", "no redis-server found: pull-only, a change shows within a second")?,
    }
    for (what, place, note) in rows {
        row(what, place, note)?;
    }
    writeln!(f)
}
