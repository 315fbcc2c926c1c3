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
    // A name with line ends in it would be more than a name in a form or a header.
    let fit =
        |name: &&str| !name.is_empty() && name.len() <= limits::SERVED_NAME_BYTES && !name.contains(char::is_control);
    let names: Vec<Arc<str>> = names.into_iter().filter(fit).filter(|name| seen.insert(*name)).map(Arc::from).collect();
    (!names.is_empty()).then_some(names)
}

/// Whether an answer is a model list at all, usable names or not.
#[must_use]
pub fn is_model_list(kind: BackendKind, status: StatusCode, body: &[u8]) -> bool {
    let list: Option<List> = serde_json::from_slice(body).ok().filter(|_| status == StatusCode::OK);
    list.is_some_and(|list| match kind {
        BackendKind::Gemini => list.models.is_array(),
        BackendKind::Vllm | BackendKind::Generic | BackendKind::OpenAi | BackendKind::Anthropic => list.data.is_array(),
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn names(kind: BackendKind, body: &str) -> Option<Vec<String>> {
        let names = served_names(kind, StatusCode::OK, body.as_bytes())?;
        Some(names.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn lists_of_every_kind_in_their_order() {
        let openai = r#"{"object":"list","data":[{"id":"org/z","object":"model"},{"id":"a"},{"id":"org/z"}]}"#;
        for kind in [BackendKind::Vllm, BackendKind::Generic, BackendKind::OpenAi, BackendKind::Anthropic] {
            assert_eq!(names(kind, openai).unwrap(), ["org/z", "a"]);
        }
        let gemini = r#"{"models":[{"name":"models/gemini-pro"},{"name":"tuned"}],"nextPageToken":"x"}"#;
        assert_eq!(names(BackendKind::Gemini, gemini).unwrap(), ["gemini-pro", "tuned"]);
        assert_eq!(names(BackendKind::Vllm, gemini), None);
    }

    #[test]
    fn what_is_no_list_teaches_nothing() {
        for body in
            ["", "ok", "[]", "{}", "null", r#"{"data":{}}"#, r#"{"data":[]}"#, r#"{"data":"m"}"#, "{\"data\":[{"]
        {
            assert_eq!(names(BackendKind::Vllm, body), None, "{body}");
        }
        let list = br#"{"data":[{"id":"m"}]}"#;
        for status in [StatusCode::CREATED, StatusCode::NOT_FOUND, StatusCode::UNAUTHORIZED, StatusCode::BAD_GATEWAY] {
            assert_eq!(served_names(BackendKind::Vllm, status, list), None);
        }
    }

    #[test]
    fn odd_entries_cost_only_themselves() {
        let long = "x".repeat(limits::SERVED_NAME_BYTES + 1);
        let body =
            format!(r#"{{"data":[1,null,{{}},{{"id":7}},{{"id":""}},{{"id":"{long}"}},{{"id":"m","x":[[]]}}]}}"#);
        assert_eq!(names(BackendKind::Generic, &body).unwrap(), ["m"]);
    }

    #[test]
    fn a_list_too_long_is_not_believed() {
        let list = |length: usize| {
            let ids: Vec<String> = (0..length).map(|at| format!(r#"{{"id":"{at}"}}"#)).collect();
            names(BackendKind::Vllm, &format!(r#"{{"data":[{}]}}"#, ids.join(",")))
        };
        assert_eq!(list(limits::SERVED_NAMES).map(|names| names.len()), Some(limits::SERVED_NAMES));
        assert_eq!(list(limits::SERVED_NAMES + 1), None);
        let padded = format!(r#"{{"data":[{{"id":"m"}}]}}{}"#, " ".repeat(limits::PROBE_ANSWER_BYTES));
        assert_eq!(names(BackendKind::Vllm, &padded), None);
    }
}
