//! Gemini calls whose body names the model that the path names already (`embedContent`, `batchEmbedContents`): the two
//! must agree, or a check and a replica could read different ones; and where one is rewritten, so is the other.

use bytes::Bytes;
use core::ops::Range;
use serde_json::value::RawValue;
use std::borrow::Cow;

use super::denial::{Code, Denial};

pub(super) const EMBED: &str = ":embedContent";
pub(super) const EMBED_BATCH: &str = ":batchEmbedContents";

#[derive(serde::Deserialize)]
struct One<'a> {
    #[serde(borrow, default)]
    model: Option<&'a RawValue>,
}

#[derive(serde::Deserialize)]
struct Many<'a> {
    #[serde(borrow, default)]
    requests: Vec<One<'a>>,
}

/// Where the body of a call names its model, quotes included, in order; nothing for calls that name it in the path alone.
///
/// # Errors
/// 400: no JSON, or a name that is not `model`'s.
pub(super) fn names_in(body: &[u8], verb: &str, model: &str) -> Result<Vec<Range<usize>>, Denial> {
    let ones = match verb {
        EMBED => vec![read::<One<'_>>(body)?],
        EMBED_BATCH => read::<Many<'_>>(body)?.requests,
        _ => return Ok(Vec::new()),
    };
    let named = ones.into_iter().filter_map(|one| one.model).filter(|raw| raw.get() != "null");
    named
        .map(|raw| {
            let name: Cow<'_, str> = serde_json::from_str(raw.get()).map_err(|_| differs())?;
            if name.strip_prefix("models/").unwrap_or(&name) != model {
                return Err(differs());
            }
            // It borrows from `body`, so the difference of the addresses is its place.
            let start = (raw.get().as_ptr() as usize).wrapping_sub(body.as_ptr() as usize);
            Ok(start..start.saturating_add(raw.get().len()))
        })
        .collect()
}

fn read<'a, T: serde::Deserialize<'a>>(body: &'a [u8]) -> Result<T, Denial> {
    let problem = |error: serde_json::Error| format!("The request body cannot be read: {error}.");
    serde_json::from_slice(body).map_err(|error| Denial::new(Code::InvalidJson, problem(error)))
}

fn differs() -> Denial {
    let text = "`model` in the body is not the model in the path. Name the same one, as `models/...`, or none.";
    Denial::new(Code::InvalidModel, text)
}

/// `body` with `name` at all of `places`.
pub(super) fn renamed(body: &[u8], places: &[Range<usize>], name: &str) -> Bytes {
    // A string always serialises.
    let name = serde_json::to_string(&format!("models/{name}")).unwrap_or_default();
    let mut fresh = Vec::with_capacity(body.len() + places.len() * name.len());
    let mut at = 0;
    for place in places {
        fresh.extend_from_slice(body.get(at..place.start).unwrap_or_default());
        fresh.extend_from_slice(name.as_bytes());
        at = place.end;
    }
    fresh.extend_from_slice(body.get(at..).unwrap_or_default());
    fresh.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_agree_are_found_and_rewritten_where_they_stand() {
        let body = r#"{ "content": {"model":"other"}, "model" : "models\/m" }"#;
        let places = names_in(body.as_bytes(), EMBED, "m").unwrap();
        let expected = r#"{ "content": {"model":"other"}, "model" : "models/n\"" }"#;
        assert_eq!(renamed(body.as_bytes(), &places, "n\""), expected);
        let body = r#"{"requests":[{"model":"models/m","content":1},{"content":2},{"model":"m"},{"model":null}]}"#;
        let places = names_in(body.as_bytes(), EMBED_BATCH, "m").unwrap();
        let expected =
            r#"{"requests":[{"model":"models/x","content":1},{"content":2},{"model":"models/x"},{"model":null}]}"#;
        assert_eq!(renamed(body.as_bytes(), &places, "x"), expected);
        assert_eq!(names_in(b"no json", ":generateContent", "m"), Ok(Vec::new()));
        assert_eq!(names_in(b"{}", EMBED, "m"), Ok(Vec::new()));
    }

    #[test]
    fn a_name_of_another_model_is_refused_wherever_it_stands() {
        for (verb, body, code) in [
            (EMBED, r#"{"model":"models/other"}"#, Code::InvalidModel),
            (EMBED, r#"{"model":"models/models/m"}"#, Code::InvalidModel),
            (EMBED, r#"{"model":7}"#, Code::InvalidModel),
            (EMBED, r#"{"model":"m","model":"other"}"#, Code::InvalidJson),
            (EMBED, r#"{"model":"m""#, Code::InvalidJson),
            (EMBED, r#"["#, Code::InvalidJson),
            (EMBED_BATCH, r#"{"requests":[{"model":"m"},{"model":"other"}]}"#, Code::InvalidModel),
            (EMBED_BATCH, r#"{"requests":[],"requests":[{"model":"other"}]}"#, Code::InvalidJson),
        ] {
            assert_eq!(names_in(body.as_bytes(), verb, "m").unwrap_err().code, code, "{body}");
        }
    }
}
