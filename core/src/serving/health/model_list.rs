//! The names a backend says it serves (data-plane 3.2, 4).

use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

use crate::desired::BackendKind;
use crate::limits;

/// The names in a model list, in its order, each once. `None`: the answer is no list, or one without a usable name.
#[must_use]
pub fn served_names(kind: BackendKind, status: StatusCode, body: &[u8]) -> Option<Vec<Arc<str>>> {
    if status != StatusCode::OK || body.len() > limits::PROBE_ANSWER_BYTES {
        return None;
    }
    let list: List = serde_json::from_slice(body).ok()?;
    let names: Vec<&str> = match kind {
        BackendKind::Gemini => {
            let names = texts(&list.models, "name");
            names.map(|name| name.strip_prefix("models/").unwrap_or(name)).collect()
        }
        BackendKind::Vllm | BackendKind::Generic | BackendKind::OpenAi | BackendKind::Anthropic => {
            texts(&list.data, "id").collect()
        }
    };
    // Of a list too long to be kept nothing is: one that was cut would say that the rest is not served.
    if names.len() > limits::SERVED_NAMES {
        return None;
    }
    let mut seen = std::collections::BTreeSet::new();
    let fit = |name: &&str| !name.is_empty() && name.len() <= limits::SERVED_NAME_BYTES;
    let names: Vec<Arc<str>> = names.into_iter().filter(fit).filter(|name| seen.insert(*name)).map(Arc::from).collect();
    (!names.is_empty()).then_some(names)
}

/// Vendors add to their lists as they like: only what is asked for is looked at, and its form is not trusted.
#[derive(Deserialize)]
struct List {
    #[serde(default)]
    data: Value,
    #[serde(default)]
    models: Value,
}

fn texts<'a>(list: &'a Value, field: &'static str) -> impl Iterator<Item = &'a str> {
    list.as_array().into_iter().flatten().filter_map(move |entry| entry.get(field)?.as_str())
}
