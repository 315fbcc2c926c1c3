//! Pages about this node: `/health`, `/livez`, `/readyz`, `/status` (data-plane 2).

use bytes::Bytes;
use http::StatusCode;
use http::header::{HeaderValue, RETRY_AFTER};
use serde_json::{Value, json};

use super::answer::Answer;
use super::control::{Control, Node};
use super::denial::RETRY_AFTER_SECONDS;
use super::outcome::Trail;
use super::surface::Page;
use crate::defects::{Defect, has};

pub(super) fn answer(page: Page, trail: Trail, node: Node<'_>) -> Box<Answer> {
    let (status, body) = render(page, node);
    let mut answer = Answer::json(trail, status, Bytes::from(body.to_string()), None);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        answer.headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
    }
    answer
}

/// A page's status and body; also for the admin listener.
#[must_use]
pub fn render(page: Page, node: Node<'_>) -> (StatusCode, Value) {
    match page {
        Page::Livez => (StatusCode::OK, json!({"status": "ok"})),
        Page::Health => {
            let reasons = reasons(node);
            let status = if reasons.is_empty() { "healthy" } else { "degraded" };
            (StatusCode::OK, json!({"status": status, "reasons": reasons}))
        }
        Page::Readyz => {
            if node.control.ready(node.now.moment) {
                (StatusCode::OK, json!({"status": "ready"}))
            } else {
                (StatusCode::SERVICE_UNAVAILABLE, json!({"status": "not_ready", "reasons": reasons(node)}))
            }
        }
        Page::Status => (StatusCode::OK, status(node)),
    }
}

/// Why this node is not as it should be, worst first; empty when it is.
fn reasons(node: Node<'_>) -> Vec<String> {
    if has(Defect::HealthAlwaysGood) {
        return Vec::new();
    }
    let mut reasons = node.control.trouble().to_vec();
    if node.control.leaving() {
        reasons.insert(0, "the worker is shutting down".to_owned());
    } else if !node.control.ready(node.now.moment) && reasons.is_empty() {
        reasons.push("no recent full pull from the coordinator was applied".to_owned());
    }
    if node.file_refused {
        // Why is for the operator: /admin/state and the log.
        reasons.push("the configuration file was refused, and the one before it is in force".to_owned());
    }
    reasons
}

fn status(node: Node<'_>) -> Value {
    let mut page = json!({
        "api_version": "v2",
        "version": env!("CARGO_PKG_VERSION"),
        "ready": node.control.ready(node.now.moment),
        "desired_state_digest": node.view.digest().to_string(),
        "generation": node.view.generation,
        "keys_loaded": node.view.keys_loaded(),
        "counts": node.view.counts(),
        "config_accepted": !node.file_refused,
        "uptime_seconds": node.now.moment.as_millis() / 1000,
    });
    if let (Some(fields), Value::Object(worker)) = (page.as_object_mut(), worker_fields(node)) {
        fields.extend(worker);
    }
    page
}

/// What only a worker of a coordinator has.
fn worker_fields(node: Node<'_>) -> Value {
    match node.control {
        #[cfg(feature = "appproxy-common")]
        Control::Worker { authority, standing } => json!({
            "authority": authority,
            "node_id": standing.node_id,
            "worker_id": standing.worker_id,
            "registered": standing.registered,
            "bus_connected": standing.bus_up,
            "revision": standing.revision,
            "seconds_since_full_pull": standing.last_full_pull.map(|at| node.now.moment.since(at).as_secs()),
        }),
        Control::Alone { .. } | Control::Unknown => json!({}),
    }
}

#[cfg(test)]
#[cfg(feature = "appproxy-router")]
#[path = "pages_tests.rs"]
mod tests;
