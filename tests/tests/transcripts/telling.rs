//! Outputs in words.

use appproxy_core::serving::ServingView;
use appproxy_core::worker::{AckTicket, Apply, Call, Deadline, Event, Severity, Worker};
use appproxy_fixtures::wire::{AckRead, Dialect, read_ack};

/// `apply g2 digest 1a2b3c4d: added a, names m, keys 1`, and the view as it is then.
pub(crate) fn apply(apply: &Apply) -> Vec<String> {
    let changes = &apply.changes;
    let mut parts = Vec::new();
    for (what, names) in [
        ("added", &changes.added),
        ("updated", &changes.updated),
        ("removed", &changes.removed),
        ("names", &changes.names),
    ] {
        if !names.is_empty() {
            parts.push(format!("{what} {}", names.join(" ")));
        }
    }
    if !changes.circuits.is_empty() {
        let ids: Vec<String> = changes.circuits.iter().map(ToString::to_string).collect();
        parts.push(format!("circuits {}", ids.join(" ")));
    }
    if changes.keys > 0 {
        parts.push(format!("keys {}", changes.keys));
    }
    let changed = if parts.is_empty() { "nothing that requests see".into() } else { parts.join(", ") };
    vec![format!("apply {}: {changed}", generation(&apply.view)), format!("      {}", view(&apply.view))]
}

fn generation(view: &ServingView) -> String {
    let digest = view.digest().to_string();
    format!("g{} digest {}", view.generation.0, digest.get(..8).unwrap_or_default())
}

/// What requests see: each model with its backends, and the keys.
fn view(view: &ServingView) -> String {
    let models = view.published().map(|(name, pool)| {
        let backends: Vec<String> =
            pool.candidates().map(|candidate| candidate.backend.name.replace("appproxy-", "")).collect();
        format!("{name}=[{}]", backends.join(" "))
    });
    let models: Vec<String> = models.collect();
    let counts = view.counts();
    format!(
        "{} circuit(s), models {}, {}",
        counts.circuits,
        if models.is_empty() { "none".into() } else { models.join(" ") },
        if view.keys_loaded() { format!("{} key(s)", counts.keys) } else { "no key set yet".into() },
    )
}

/// `call #3 GET /api/worker/… until 30.000s`, with its body.
pub(crate) fn call(call: &Call) -> Vec<String> {
    let request = call.request();
    let head = format!("call #{} {} {} until {}", call.id().0, request.method, request.path_and_query, call.deadline());
    let mut lines = vec![head];
    lines.extend(request.body.iter().map(|body| format!("      {body}")));
    lines
}

/// An ack as the coordinator reads it, not as the worker calls it.
pub(crate) fn ack(ticket: &AckTicket) -> String {
    let said = match read_ack(&ticket.message, Dialect::Both) {
        AckRead::Circuits(ids) => {
            format!("circuits {}", ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        }
        AckRead::Applied(applied) => format!("{} {} of node {}", applied.kind, applied.id, applied.node_id),
        other => format!("which the coordinator does not take: {other:?}"),
    };
    format!("ack #{} {said}", ticket.id.0)
}

/// An event in one line.
pub(crate) fn event(event: &Event) -> String {
    match event {
        Event::Notice { severity, code, text } => {
            let loud = match severity {
                Severity::Info => "info",
                Severity::Warning => "warning",
                Severity::Error => "ERROR",
            };
            format!("{loud} {code}: {text}")
        }
        Event::Malformed(malformed) => malformed.to_string(),
        Event::Heard { event, outcome } => format!("heard {event}: {outcome}"),
        Event::Pull { scope, outcome } => format!("pull {scope}: {outcome}"),
        Event::CallEnded { call, outcome } => format!("ended {call}: {outcome}"),
        Event::ProbeEnded { backend, outcome } => {
            format!("probed {}: {outcome}", backend.as_deref().unwrap_or("nobody"))
        }
        Event::Health(change) => format!("{} was {} and is {}: {}", change.backend, change.from, change.to, change.why),
        Event::AckDropped { why } => format!("ack dropped: {why}"),
        Event::AckSent => "ack is out".into(),
    }
}

/// `wait until 2.000s for bus_wait`.
pub(crate) fn wait(deadline: Option<Deadline>) -> String {
    match deadline {
        Some(deadline) => format!("wait until {} for {}", deadline.at, reason(deadline)),
        None => "wait for an input".into(),
    }
}

/// Why the worker wants to wake up.
pub(crate) fn reason(deadline: Deadline) -> String {
    serde_json::to_value(deadline.reason).ok().and_then(|name| Some(name.as_str()?.to_owned())).unwrap_or_default()
}

/// How the worker stands.
pub(crate) fn standing(worker: &Worker, now: appproxy_core::time::Moment) -> String {
    let standing = worker.standing();
    let mut parts = Vec::new();
    parts.push(match standing.worker_id {
        Some(id) => format!("registered as {id}"),
        None => "not registered".into(),
    });
    parts.push(if standing.ready(now) { "ready" } else { "not ready" }.into());
    parts.push(
        match standing.bus_up {
            Some(true) => "bus up",
            Some(false) => "bus down",
            None => "no bus",
        }
        .into(),
    );
    if let Some(revision) = standing.revision {
        parts.push(format!("revision {}", revision.0));
    }
    if standing.leaving {
        parts.push("leaving".into());
    }
    if !standing.trouble.is_empty() {
        parts.push(format!("{} trouble(s)", standing.trouble.len()));
    }
    format!("stands: {}", parts.join(", "))
}
