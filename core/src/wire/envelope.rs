//! The bus envelope, in both dialects (worker-protocol 3.1, 3.2).

use serde::Serialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;

use super::args::Args;
use super::circuit::Circuit;
use super::event::{Ack, BusEvent, Decoded, EventKind};
use super::ids::{KeyId, NodeId};
use super::json::{self, Fault, Object};
use super::malformed::{Malformed, MalformedKind};
use super::read_circuit::{
    read_circuit_ids, read_circuit_without_routes, read_received, read_route_list, skipped_circuit,
};
use super::read_publication::parse_publication;
use super::report::{At, Reports, malformed};
use crate::config::worker::EventDialect;
use crate::limits;

/// The one Pub/Sub channel.
pub const CHANNEL: &str = "events_all-appproxy";

/// The `source` of what we publish.
pub const SOURCE: &str = "appproxy-worker";

/// The name of the ack that echoes circuits.
pub const CIRCUIT_ADDED: &str = "appproxy_worker_circuit_added_event";

/// What `bytes`, a message of the bus, says to the workers of `authority`. Never fails: what cannot be read is
/// [`Decoded::Malformed`]. Of an event with a list of circuits the good ones count, even when there are none.
#[must_use]
pub fn decode(bytes: &[u8], authority: &str) -> Decoded {
    match read(bytes, authority) {
        Ok(Some(event)) => Decoded::Event(event),
        Ok(None) => Decoded::NotForUs,
        Err(malformed) => Decoded::Malformed(malformed),
    }
}

/// The incoming events. Everything else on the channel, our own acks above all, is not for us.
#[derive(Clone, Copy)]
enum EventName {
    CircuitCreated,
    RouteUpdated,
    CircuitRemoved,
    ModelUpdated,
    ModelRemoved,
    KeyUpdated,
    KeyRemoved,
}

impl EventName {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "appproxy_circuit_created_event" => Self::CircuitCreated,
            "appproxy_circuit_route_updated_event" => Self::RouteUpdated,
            "appproxy_circuit_removed_event" => Self::CircuitRemoved,
            "appproxy_router_model_updated_event" => Self::ModelUpdated,
            "appproxy_router_model_removed_event" => Self::ModelRemoved,
            "appproxy_router_key_updated_event" => Self::KeyUpdated,
            "appproxy_router_key_removed_event" => Self::KeyRemoved,
            _ => return None,
        })
    }
}

fn read(bytes: &[u8], authority: &str) -> Result<Option<BusEvent>, Malformed> {
    if bytes.len() > limits::ENVELOPE_BYTES {
        let problem = format!("{} bytes; at most {} should be here", bytes.len(), limits::ENVELOPE_BYTES);
        return Err(Malformed::new(MalformedKind::Envelope, "message", problem));
    }
    let wrong = |fault: Fault| malformed(MalformedKind::Envelope, At::Root("message"), None, &fault);
    let text = core::str::from_utf8(bytes)
        .map_err(|error| wrong(Fault::whole(format!("not UTF-8 after byte {}", error.valid_up_to()))))?;
    let envelope = Object::read(text, ["name", "args", "payload", "metadata"]).map_err(wrong)?;
    let name = envelope.required("name", "the event's name", json::text).map_err(wrong)?;
    let Some(name) = EventName::of(&name) else { return Ok(None) };
    refuse_deep(text, "message").map_err(wrong)?;
    let request_id = envelope.get("metadata").and_then(request_id);
    let wrong = |fault: Fault| malformed(MalformedKind::EventBody, At::Root(""), None, &fault);
    let payload = envelope.text("payload").map_err(wrong)?;
    let body = match &payload {
        Some(payload) => {
            Body::Payload(Box::new(Object::read(payload, FIELDS).map_err(|fault| within("payload", &fault))?))
        }
        None => {
            let args = envelope.required("args", "this or payload, as a string,", json::text).map_err(wrong)?;
            Body::Args(Args::read(&args).map_err(|problem| wrong(Fault::at("args", problem)))?)
        }
    };
    if body.plain(AUTHORITY)? != authority {
        return Ok(None);
    }
    if let Some(payload) = &payload {
        refuse_deep(payload, "payload").map_err(wrong)?;
    }
    let mut reports = Reports::default();
    let kind = body.event(name, &mut reports)?;
    Ok(Some(BusEvent { request_id, kind, malformed: reports.finish() }))
}

/// `metadata.request_id`, which is only echoed: whatever cannot be read of it is as good as absent.
fn request_id(metadata: &RawValue) -> Option<String> {
    let text = json::text(metadata).ok()?;
    Object::read(&text, ["request_id"]).ok()?.text("request_id").ok()?.map(Into::into)
}

fn refuse_deep(text: &str, field: &'static str) -> Result<(), Fault> {
    if json::too_deep(text) {
        return Err(Fault::at(field, format!("nested deeper than {} levels", limits::NESTING)));
    }
    Ok(())
}

fn within(place: &str, fault: &Fault) -> Malformed {
    malformed(MalformedKind::EventBody, At::Root(place), None, fault)
}

/// A part of an event's body: what reports call it, its position in `args`, and its names in `payload`.
#[derive(Clone, Copy)]
struct Part {
    path: &'static str,
    position: usize,
    names: &'static [&'static str],
}

const AUTHORITY: Part =
    Part { path: "target_worker_authority", position: 0, names: &["target_worker_authority", "authority"] };
const CIRCUITS: Part = Part { path: "circuits", position: 1, names: &["circuits"] };
const CIRCUIT: Part = Part { path: "circuit", position: 1, names: &["circuit"] };
const ROUTES: Part = Part { path: "routes", position: 2, names: &["routes"] };
const MODEL: Part = Part { path: "model", position: 1, names: &["model_json", "model"] };
const MODEL_NAME: Part = Part { path: "model_name", position: 1, names: &["model_name", "model"] };
const KEY_ID: Part = Part { path: "key_id", position: 1, names: &["key_id"] };

const FIELDS: [&str; 9] = [
    "target_worker_authority",
    "authority",
    "circuits",
    "circuit",
    "routes",
    "model",
    "model_json",
    "model_name",
    "key_id",
];

/// An event's body in either dialect.
enum Body<'a> {
    Args(Args),
    Payload(Box<Object<'a, 9>>),
}

impl Body<'_> {
    fn event(&self, name: EventName, reports: &mut Reports) -> Result<EventKind, Malformed> {
        Ok(match name {
            EventName::CircuitCreated => {
                let text = self.json(CIRCUITS)?;
                EventKind::CircuitsCreated(read_received(&list(&text, CIRCUITS)?, At::Root("circuits"), reports).good)
            }
            EventName::CircuitRemoved => {
                let text = self.json(CIRCUITS)?;
                EventKind::CircuitsRemoved(
                    read_circuit_ids(&list(&text, CIRCUITS)?, At::Root("circuits"), reports).good,
                )
            }
            EventName::RouteUpdated => EventKind::RouteUpdated(Box::new(self.circuit_with_routes(reports)?)),
            EventName::ModelUpdated => {
                let text = self.json(MODEL)?;
                let (publication, inside) = parse_publication(value(&text, MODEL)?)?;
                reports.adopt(inside);
                EventKind::ModelUpdated(publication)
            }
            EventName::ModelRemoved => EventKind::ModelRemoved(Arc::from(self.name(MODEL_NAME)?)),
            EventName::KeyUpdated => EventKind::KeyUpdated(KeyId(Arc::from(self.name(KEY_ID)?))),
            EventName::KeyRemoved => EventKind::KeyRemoved(KeyId(Arc::from(self.name(KEY_ID)?))),
        })
    }

    /// The circuit with the routes beside it, which are its whole new table; its own are not looked at.
    fn circuit_with_routes(&self, reports: &mut Reports) -> Result<Circuit, Malformed> {
        let (circuit, routes) = (self.json(CIRCUIT)?, self.json(ROUTES)?);
        let routes = list(&routes, ROUTES)?;
        let at = At::Root("circuit");
        let circuit = read_circuit_without_routes(value(&circuit, CIRCUIT)?, at, reports)
            .map_err(|skipped| skipped_circuit(&skipped, at))?;
        Ok(Circuit { routes: read_route_list(&routes, At::Of(&At::Root("routes"), &circuit.id), reports), ..circuit })
    }

    /// A part that is plain text in both dialects.
    fn plain(&self, part: Part) -> Result<Cow<'_, str>, Malformed> {
        match self {
            Self::Args(args) => args.text(part.position).map(Cow::Borrowed).map_err(|problem| part.malformed(problem)),
            Self::Payload(fields) => json::text(part.of(fields)?).map_err(|problem| part.malformed(problem)),
        }
    }

    /// Plain text that names something.
    fn name(&self, part: Part) -> Result<Cow<'_, str>, Malformed> {
        let name = self.plain(part)?;
        if name.is_empty() { Err(part.malformed("empty; a name should be here")) } else { Ok(name) }
    }

    /// A part that is structured, as JSON text. In a payload it may be that text in a string, too.
    fn json(&self, part: Part) -> Result<Cow<'_, str>, Malformed> {
        let text = match self {
            Self::Args(_) => self.plain(part)?,
            Self::Payload(fields) => {
                let raw = part.of(fields)?;
                if json::kind(raw.get()) == "a string" { self.plain(part)? } else { Cow::Borrowed(raw.get()) }
            }
        };
        refuse_deep(&text, "").map_err(|fault| part.malformed(fault.problem))?;
        Ok(text)
    }
}

impl Part {
    fn of<'a>(self, fields: &Object<'a, 9>) -> Result<&'a RawValue, Malformed> {
        let found = fields.first_of(self.names).map(|(_, raw)| raw);
        found.ok_or_else(|| self.malformed(format!("missing; {} should be here", self.names.join(" or "))))
    }

    fn malformed(self, problem: impl Into<String>) -> Malformed {
        Malformed::new(MalformedKind::EventBody, self.path, problem)
    }
}

fn list(text: &str, part: Part) -> Result<Vec<&RawValue>, Malformed> {
    json::list(text).map_err(|problem| part.malformed(problem))
}

fn value(text: &str, part: Part) -> Result<&RawValue, Malformed> {
    serde_json::from_str(text).map_err(|error| part.malformed(format!("not valid JSON: {error}")))
}

/// What we publish; the order of the fields is the order on the wire.
#[derive(Serialize)]
struct Outgoing<'a> {
    name: &'a str,
    source: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
    metadata: String,
}

/// The envelope to publish for `ack`, with the bodies that `dialect` asks for (worker-protocol 3.1, 3.2). The circuits
/// of an [`Ack::Circuits`] stand in it to the byte as they came.
#[must_use]
pub fn encode_ack(
    ack: &Ack,
    authority: &str,
    node_id: NodeId,
    request_id: Option<&str>,
    dialect: EventDialect,
) -> Vec<u8> {
    let (has_args, has_payload) = match dialect {
        EventDialect::Both => (true, true),
        EventDialect::Args => (true, false),
        EventDialect::Payload => (false, true),
    };
    let target = text_json(authority);
    let (name, args, payload) = match ack {
        Ack::Circuits(circuits) => {
            let echoes: Vec<&str> = circuits.iter().map(|circuit| circuit.echo.json()).collect();
            let circuits = format!("[{}]", echoes.join(","));
            (
                CIRCUIT_ADDED,
                has_args.then(|| Args::write([authority, &circuits])),
                has_payload.then(|| format!(r#"{{"target_worker_authority":{target},"circuits":{circuits}}}"#)),
            )
        }
        Ack::Model(model) => applied(authority, node_id, "model", model, has_args, has_payload),
        Ack::Key(key) => applied(authority, node_id, "key", key.as_str(), has_args, has_payload),
    };
    // Exactly these two keys, in a string: one more, and older coordinators drop the message.
    let metadata = format!(r#"{{"request_id":{},"user":null}}"#, request_id.map_or_else(|| "null".into(), text_json));
    let outgoing = Outgoing { name, source: SOURCE, args, payload, metadata };
    serde_json::to_vec(&outgoing).unwrap_or_else(|error| unreachable!("strings are always JSON: {error}"))
}

type Bodies = (&'static str, Option<String>, Option<String>);

fn applied(authority: &str, node_id: NodeId, kind: &str, id: &str, has_args: bool, has_payload: bool) -> Bodies {
    let payload = || {
        let (target, id) = (text_json(authority), text_json(id));
        format!(r#"{{"target_worker_authority":{target},"node_id":"{node_id}","kind":"{kind}","id":{id}}}"#)
    };
    (
        "appproxy_worker_router_config_applied_event",
        has_args.then(|| Args::write([authority, &node_id.to_string(), kind, id])),
        has_payload.then(payload),
    )
}

/// `text` as a JSON string, quotes included.
fn text_json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
#[path = "envelope_tests.rs"]
mod tests;
