//! Outputs and states as text without secrets: what `replay` prints, and what it is compared by.

use serde_json::{Value, json};

use super::super::Worker;
use super::super::answers::{mask, mask_report};
use super::super::call::Call;
use super::super::input::Input;
use super::super::output::{AckTicket, Command, Event, Output};
use super::line::Ended;
use crate::serving::Drain;
use crate::wire::envelope::CIRCUIT_ADDED;

/// One output on one line of JSON. Of the ack for circuits, the echo is left out.
#[must_use]
pub fn output(output: &Output) -> String {
    match output {
        Output::Command(command) => json!({ "command": shown_command(command) }),
        Output::Event(event) => json!({ "event": without_hashes(event.clone()) }),
        Output::Wait(deadline) => json!({ "wait": deadline }),
    }
    .to_string()
}

fn shown_command(command: &Command) -> Value {
    match command {
        Command::Subscribe => json!("subscribe"),
        Command::Unsubscribe => json!("unsubscribe"),
        Command::Stop => json!("stop"),
        Command::Abandon(call) => json!({ "abandon": call }),
        Command::Call(call) => json!({ "call": shown_call(call) }),
        Command::Probe(probe) => json!({ "probe": {
            "id": probe.id(),
            "backend": probe.backend(),
            "uri": probe.request().uri().to_string(),
            "deadline": probe.deadline(),
        } }),
        Command::AbandonProbe(probe) => json!({ "abandon_probe": probe }),
        Command::SendAck(ticket) => json!({ "send_ack": shown_ack(ticket) }),
        Command::Apply(apply) => json!({ "apply": {
            "generation": apply.view.generation,
            "digest": apply.view.digest().to_string(),
            "counts": apply.view.counts(),
            "changes": apply.changes,
        } }),
    }
}

fn shown_call(call: &Call) -> Value {
    let request = call.request();
    json!({
        "id": call.id(),
        "method": request.method.as_str(),
        "path_and_query": request.path_and_query,
        "body": request.body,
        "request_id": request.request_id,
        "deadline": call.deadline(),
    })
}

fn shown_ack(ticket: &AckTicket) -> Value {
    let mut message: Value = serde_json::from_slice(&ticket.message).unwrap_or_default();
    let echoes = message.get("name").and_then(Value::as_str) == Some(CIRCUIT_ADDED);
    if let (true, Some(fields)) = (echoes, message.as_object_mut()) {
        fields.remove("args");
        fields.remove("payload");
    }
    json!({ "id": ticket.id, "about": ticket.about, "message": message })
}

fn without_hashes(mut event: Event) -> Event {
    match &mut event {
        Event::Notice { text, .. } => *text = mask(text),
        Event::Malformed(malformed) => mask_report(malformed),
        Event::Heard { .. }
        | Event::Pull { .. }
        | Event::CallEnded { .. }
        | Event::ProbeEnded { .. }
        | Event::Health(_)
        | Event::AckDropped { .. }
        | Event::AckSent => {}
    }
    event
}

/// An input in a few words.
pub(super) fn input(input: &Input) -> String {
    match input {
        Input::Bus(event) => format!("event {}", event.kind.label()),
        Input::BusMalformed(malformed) => format!("event, {malformed}"),
        Input::BusLost(why) => format!("bus lost: {why}"),
        Input::Applied(generation) => format!("applied generation {}", generation.0),
        Input::AckSent(id) => format!("ack {} sent", id.0),
        Input::AckFailed(id) => format!("ack {} failed", id.0),
        Input::CallEnded(ended) => format!("call {} ended", ended.id().0),
        Input::ProbeEnded(ended) => format!("probe {} ended", ended.id().0),
        Input::ExchangeEnded(ended) => format!("exchange with {} ended: {:?}", ended.backend, ended.end),
        Input::Drain(Drain { backend, out: true }) => format!("{backend} drained"),
        Input::Drain(Drain { backend, out: false }) => format!("{backend} not drained any more"),
        Input::Started => "started".to_owned(),
        Input::BusUp => "bus up".to_owned(),
        Input::Tick => "tick".to_owned(),
        Input::Configured(_) => "another configuration".to_owned(),
        Input::Shutdown => "shutdown".to_owned(),
        Input::Drained => "drained".to_owned(),
    }
}

pub(super) fn ended(ended: &Ended) -> String {
    let purpose = ended.purpose.map_or("late", |purpose| purpose.label());
    match (ended.status, &ended.failed) {
        (Some(status), _) => format!("answer to call {} ({purpose}): {status}", ended.id.0),
        (None, Some(failure)) => format!("call {} ({purpose}) failed: {failure:?}", ended.id.0),
        (None, None) => format!("call {} ({purpose})", ended.id.0),
    }
}

/// What a worker holds, as JSON: standing, digest, circuits, publications, keys (without their hashes), backends,
/// and what a legacy worker has learned of endpoints' models.
#[must_use]
pub fn state(worker: &Worker) -> Value {
    let (desired, view) = (worker.desired(), worker.view());
    let keys: Vec<Value> = desired
        .keys()
        .values()
        .map(|key| {
            json!({
                "key_id": key.key_id,
                "allowed_models": key.allowed_models,
                "expires_at": key.expires_at,
                "rate_limit": key.rate_limit,
                "allowed_client_ips": key.allowed_client_ips,
            })
        })
        .collect();
    let mut standing = worker.standing();
    for text in &mut standing.trouble {
        *text = mask(text);
    }
    let mut state = json!({
        "lifecycle": worker.lifecycle.label(),
        "standing": standing,
        "generation": view.generation,
        "applied": worker.applied,
        "digest": view.digest().to_string(),
        "circuits": desired.circuits().values().collect::<Vec<_>>(),
        "publications": desired.publications().values().collect::<Vec<_>>(),
        "keys": keys,
        "backends": view.backends().chain(view.static_backends()).collect::<Vec<_>>(),
        "held": held(worker),
    });
    // Only a legacy worker learns anything.
    if let Some(fields) = state.as_object_mut().filter(|_| !desired.learned().is_empty()) {
        fields.insert("learned".to_owned(), json!(desired.learned()));
    }
    state
}

fn held(worker: &Worker) -> Value {
    let [calls, acks, notices, guards, probes] = worker.held();
    json!({ "calls": calls, "acks": acks, "key_notices": notices, "guards": guards, "probes": probes })
}
