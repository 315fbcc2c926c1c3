//! Bodies of the calls about this worker itself (worker-protocol 1, 1.1, 1.2).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::ids::{NodeId, WorkerId};
use super::json::{self, Object};
use super::malformed::{Malformed, MalformedKind};
use super::report::{At, malformed};
use crate::config::worker::{Mode, WorkerConfig};
use crate::limits;

/// What we read of the answer to `PUT /api/worker`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterAnswer {
    /// The coordinator's row for this authority.
    pub worker_id: WorkerId,
    /// The traffics of the authority's first registration; `None` when the answer does not say.
    pub accepted_traffics: Option<Vec<String>>,
}

/// The one traffic this worker takes.
pub const ACCEPTED_TRAFFICS: [&str; 1] = ["inference"];

/// The body of `PUT /api/worker`; the mode decides between 1.1 and 1.2.
#[must_use]
pub fn register_body(config: &WorkerConfig, node_id: NodeId) -> String {
    match config.mode {
        // It never registers.
        Mode::Plain => String::new(),
        Mode::Router(_) => to_json(&RouterBody {
            authority: &config.authority,
            frontend_mode: "router",
            protocol: "http",
            hostname: &config.hostname,
            tls_listen: config.tls_listen,
            tls_advertised: config.tls_advertised,
            api_port: config.api_port,
            traffic_port: config.traffic_port,
            node_id,
            accepted_traffics: ACCEPTED_TRAFFICS,
            filtered_apps_only: false,
            app_filters: [],
            port_range: (),
            wildcard_domain: (),
            wildcard_traffic_port: (),
            traefik_last_used_marker_path: (),
        }),
        Mode::Legacy(ref legacy) => to_json(&WildcardBody {
            authority: &config.authority,
            frontend_mode: "wildcard",
            protocol: "http",
            hostname: &config.hostname,
            tls_listen: config.tls_listen,
            tls_advertised: config.tls_advertised,
            api_port: config.api_port,
            accepted_traffics: ACCEPTED_TRAFFICS,
            filtered_apps_only: false,
            app_filters: [],
            traefik_last_used_marker_path: (),
            wildcard_domain: &legacy.wildcard_domain,
            wildcard_traffic_port: config.traffic_port,
        }),
    }
}

/// Worker-protocol 1.2, in its order; the units are nulls that are sent.
#[derive(Serialize)]
struct RouterBody<'a> {
    authority: &'a str,
    frontend_mode: &'a str,
    protocol: &'a str,
    hostname: &'a str,
    tls_listen: bool,
    tls_advertised: bool,
    api_port: u16,
    traffic_port: u16,
    node_id: NodeId,
    accepted_traffics: [&'a str; 1],
    filtered_apps_only: bool,
    app_filters: [&'a str; 0],
    port_range: (),
    wildcard_domain: (),
    wildcard_traffic_port: (),
    traefik_last_used_marker_path: (),
}

/// Worker-protocol 1.1, in its order.
#[derive(Serialize)]
struct WildcardBody<'a> {
    authority: &'a str,
    frontend_mode: &'a str,
    protocol: &'a str,
    hostname: &'a str,
    tls_listen: bool,
    tls_advertised: bool,
    api_port: u16,
    accepted_traffics: [&'a str; 1],
    filtered_apps_only: bool,
    app_filters: [&'a str; 0],
    traefik_last_used_marker_path: (),
    wildcard_domain: &'a str,
    wildcard_traffic_port: u16,
}

/// The body of a ROUTER worker's heartbeat. A legacy worker's heartbeat has none.
#[must_use]
pub fn heartbeat_body(node_id: NodeId) -> String {
    #[derive(Serialize)]
    struct Heartbeat {
        node_id: NodeId,
    }
    to_json(&Heartbeat { node_id })
}

/// Reads the answer to `PUT /api/worker`. An error means the registration failed: no object, or no readable `id`.
/// `accepted_traffics` of any other form than a list of strings counts as not said.
pub fn parse_register_answer(body: &[u8]) -> Result<RegisterAnswer, Malformed> {
    let failed = |fault| malformed(MalformedKind::RestBody, At::Root(""), None, &fault);
    let text = core::str::from_utf8(body)
        .map_err(|error| Malformed::new(MalformedKind::RestBody, "", format!("not UTF-8: {error}")))?;
    let fields = Object::read(text, ["id", "accepted_traffics"]).map_err(failed)?;
    let worker_id = WorkerId(fields.required("id", "the worker's UUID", json::uuid).map_err(failed)?);
    let accepted_traffics = fields.get("accepted_traffics").and_then(|raw| serde_json::from_str(raw.get()).ok());
    Ok(RegisterAnswer { worker_id, accepted_traffics })
}

/// An error answer in words for the operator, at most [`limits::QUOTED_CHARS`] characters on one line. Of the
/// coordinator's error objects it shows `title`, `msg`, the first complaints of `data.errors` and `error_code`; of
/// anything else its text. Never depend on it beyond showing it.
#[must_use]
pub fn error_text(body: &[u8]) -> String {
    // An error object is far smaller; of anything larger only the beginning is looked at.
    const ERROR_BYTES: usize = 64 * 1024;
    let text = String::from_utf8_lossy(body.get(..ERROR_BYTES).unwrap_or(body));
    let words = error_object(&text).unwrap_or_else(|| text.into_owned());
    let line = words.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = line.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(limits::QUOTED_CHARS) {
        _ if line.is_empty() => "an empty answer".to_owned(),
        None => line,
        Some(_) => line.chars().take(limits::QUOTED_CHARS - 3).chain("...".chars()).collect(),
    }
}

fn error_object(text: &str) -> Option<String> {
    let fields = Object::read(text, ["type", "title", "msg", "error_code", "data"]).ok()?;
    let word = |name| fields.text(name).ok().flatten().filter(|text| !text.trim().is_empty());
    let mut parts: Vec<String> = ["title", "msg"].into_iter().filter_map(|name| word(name).map(Into::into)).collect();
    if let Some(complaints) = fields.get("data").and_then(complaints) {
        parts.push(complaints);
    }
    if parts.is_empty() {
        parts.extend(word("type").map(Into::into));
    }
    let code = word("error_code").map(|code| format!("({code})"));
    let words = parts.join(": ");
    Some([Some(words), code].into_iter().flatten().collect::<Vec<_>>().join(" "))
        .filter(|words| !words.trim().is_empty())
}

/// Which fields of our body the coordinator refuses, and why.
fn complaints(data: &RawValue) -> Option<String> {
    const SHOWN: usize = 3;
    let errors = Object::read(data.get(), ["errors"]).ok()?.list("errors").ok()??;
    let complaint = |raw: &&RawValue| {
        let fields = Object::read(raw.get(), ["loc", "msg"]).ok()?;
        let loc: Vec<serde_json::Value> = serde_json::from_str(fields.get("loc")?.get()).ok()?;
        let loc: Vec<_> = loc.iter().map(|part| part.as_str().map_or_else(|| part.to_string(), Into::into)).collect();
        Some(format!("{}: {}", loc.join("."), fields.text("msg").ok()??))
    };
    let shown: Vec<_> = errors.iter().take(SHOWN).filter_map(complaint).collect();
    (!shown.is_empty()).then(|| shown.join("; "))
}

fn to_json(body: &impl Serialize) -> String {
    // Only maps with odd keys and failing writers can fail here, and there are none.
    serde_json::to_string(body).unwrap_or_else(|error| unreachable!("a plain struct is always JSON: {error}"))
}

#[cfg(test)]
#[path = "register_tests.rs"]
mod tests;
