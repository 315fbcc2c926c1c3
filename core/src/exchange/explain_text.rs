//! An explanation as a tree for people.

use core::fmt;

use super::explain::Explanation;
use super::shown::PoolShown;

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.refusal {
            Some(refusal) => writeln!(f, "{}: refused with {} {}", self.model, refusal.status, refusal.code)?,
            None => writeln!(f, "{}: served", self.model)?,
        }
        if let Some(assumed) = &self.assumed {
            writeln!(f, "  assumed           {assumed}; --access-token none asks without one")?;
        }
        for step in &self.steps {
            let mark = if step.passes { "passes" } else { "REFUSES" };
            writeln!(f, "  {:<8} {mark:<8} {}", step.gate, step.because)?;
            if let Some(cure) = &step.to_change {
                writeln!(f, "           to change it: {cure}")?;
            }
        }
        if let Some(pool) = &self.pool {
            write_pool(f, pool, self.next.as_deref())?;
        }
        for pool in &self.siblings {
            write_pool(f, pool, None)?;
        }
        for stand_in in &self.fallback {
            let state = match (stand_in.served, stand_in.can_serve) {
                (_, true) => "can serve",
                (true, false) => "no replica can take requests now",
                (false, false) => "not served here",
            };
            let source = stand_in.source.as_deref().map_or_else(String::new, |source| format!(" ({source})"));
            writeln!(f, "fallback {}: {state}{source}", stand_in.model)?;
        }
        Ok(())
    }
}

fn write_pool(f: &mut fmt::Formatter<'_>, pool: &PoolShown, next: Option<&str>) -> fmt::Result {
    writeln!(f, "{}", pool.source)?;
    if pool.endpoints.is_empty() && pool.no_circuit.is_empty() {
        writeln!(f, "  no endpoint is mapped")?;
    }
    for endpoint in &pool.no_circuit {
        writeln!(f, "  endpoint {endpoint}: no circuit of it here")?;
    }
    for endpoint in &pool.endpoints {
        writeln!(f, "  endpoint {}  ratio {}  {}", endpoint.endpoint, endpoint.ratio, Percent(endpoint.share))?;
        if endpoint.groups.is_empty() {
            writeln!(f, "    no replica")?;
        }
        for group in &endpoint.groups {
            writeln!(f, "    group {}  weight {}  {}", group.group, group.traffic_weight, Percent(group.share))?;
            for replica in &group.replicas {
                write!(
                    f,
                    "      {}  {}  ratio {}  {}  {}  {} in flight",
                    replica.backend,
                    replica.address,
                    replica.ratio,
                    if replica.kept { "quarantined, but needed here" } else { replica.health },
                    Percent(replica.share),
                    replica.in_flight
                )?;
                if let Some(millis) = replica.first_byte_ms {
                    write!(f, "  first byte {millis:.1} ms")?;
                }
                writeln!(f, "{}", if next == Some(&*replica.backend) { "  <- next" } else { "" })?;
            }
        }
    }
    Ok(())
}

/// A share as people read it.
struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} %", self.0 * 100.0)
    }
}
