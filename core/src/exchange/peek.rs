//! Finds `model` and `stream` in a JSON body without building the document (data-plane 3.1).
//!
//! The whole body is validated on the way. What two readers could understand differently is refused: a second top-level
//! `model` or `stream`, in whatever spelling of the key. A pass of our own (`scan`) does it for nearly every body;
//! serde_json decides what that does not accept.

use core::fmt;
use core::ops::Range;
use serde::de::{Deserializer as _, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;

use super::denial::{Code, Denial};
use super::scan::{self, Members};
use crate::defects::{Defect, has};

/// What the gate and the rewrite need to know of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peek<'a> {
    /// The model asked for.
    pub model: Cow<'a, str>,
    /// Where its value stands in the body, quotes included.
    pub span: Range<usize>,
    /// What a new name must look like in its place.
    pub spelling: Spelling,
    /// Whether a stream is asked for.
    pub stream: bool,
}

/// How a name is written at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// As a JSON string.
    Json,
    /// As it is (a multipart part).
    Plain,
    /// As a member of the object, before others.
    Member,
    /// As the only member of the object.
    OnlyMember,
    /// As a part of a multipart body, before the others; its boundary belongs to it.
    Part,
}

impl Spelling {
    /// `name`, ready for its place.
    #[must_use]
    pub fn write(self, name: &str) -> String {
        match self {
            // A string always serialises.
            Self::Json => serde_json::to_string(name).unwrap_or_default(),
            Self::Plain | Self::Part => name.to_owned(),
            Self::Member => format!("\"model\":{},", Self::Json.write(name)),
            Self::OnlyMember => format!("\"model\":{}", Self::Json.write(name)),
        }
    }
}

/// Looks into a JSON body.
///
/// # Errors
/// 400 `invalid_json`, `missing_model` or `invalid_model` (data-plane 9).
pub fn json(body: &[u8]) -> Result<Peek<'_>, Denial> {
    let peek = look(body)?;
    match peek {
        Found::Named(peek) => Ok(peek),
        Found::Blank(_) => Err(invalid_model()),
        Found::Missing(_) => {
            Err(Denial::new(Code::MissingModel, "The request body has no `model`. Name the model to use."))
        }
    }
}

/// The same where every name will do: a missing, null or empty `model` is an empty name, to be filled in at its place.
///
/// # Errors
/// 400 `invalid_json` or `invalid_model` (a `model` that is no text).
pub fn json_or_fill(body: &[u8]) -> Result<Peek<'_>, Denial> {
    Ok(match look(body)? {
        Found::Named(peek) | Found::Blank(peek) | Found::Missing(peek) => peek,
    })
}

/// What stands in the place of the name.
enum Found<'a> {
    Named(Peek<'a>),
    /// Null, or an empty text.
    Blank(Peek<'a>),
    Missing(Peek<'a>),
}

fn look(body: &[u8]) -> Result<Found<'_>, Denial> {
    match scan::members(body).filter(|found| found.ascii || core::str::from_utf8(body).is_ok()) {
        Some(found) => named(body, found),
        None => named(body, slowly(body)?),
    }
}

/// Where the two members of a valid body stand, by serde_json: for what [`scan::members`] does not accept.
fn slowly(body: &[u8]) -> Result<Members, Denial> {
    let text = core::str::from_utf8(body).map_err(|_| invalid("it is not valid UTF-8"))?;
    if text.starts_with('\u{feff}') {
        return Err(invalid("it starts with a byte order mark; send plain UTF-8"));
    }
    if !text.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('{') {
        return Err(invalid("it is not a JSON object"));
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let found = reader.deserialize_map(TopLevel).map_err(|error| fault(&error))?;
    reader.end().map_err(|error| fault(&error))?;
    let place = |raw: &RawValue| {
        // It borrows from `text`, so the difference of the addresses is its place.
        let start = (raw.get().as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
        start..start.saturating_add(raw.get().len())
    };
    let (model, stream) = (found.model.map(place), found.stream.map(place));
    Ok(Members { model, model_escaped: true, stream, ascii: text.is_ascii() })
}

/// Reads the two members of a valid body.
fn named(body: &[u8], found: Members) -> Result<Found<'_>, Denial> {
    let stream = found.stream.is_some_and(|place| body.get(place) == Some(b"true"));
    let Some(span) = found.model else {
        let start = body.iter().position(|byte| *byte == b'{').map_or(0, |at| at + 1);
        let only = body.get(start..).is_some_and(|rest| rest.trim_ascii_start().starts_with(b"}"));
        let spelling = if only { Spelling::OnlyMember } else { Spelling::Member };
        return Ok(Found::Missing(Peek { model: Cow::Borrowed(""), span: start..start, spelling, stream }));
    };
    let model = match body.get(span.clone()).unwrap_or_default() {
        b"null" => Cow::Borrowed(""),
        [b'"', text @ .., b'"'] if !found.model_escaped => {
            Cow::Borrowed(core::str::from_utf8(text).map_err(|_| invalid("it is not valid UTF-8"))?)
        }
        quoted @ [b'"', ..] => {
            let text = serde_json::from_slice::<Text<'_>>(quoted);
            text.map_err(|_| invalid("`model` holds a broken escape"))?.0
        }
        _ => return Err(invalid_model()),
    };
    let peek = Peek { model, span, spelling: Spelling::Json, stream };
    Ok(if peek.model.is_empty() { Found::Blank(peek) } else { Found::Named(peek) })
}

/// What 400 `invalid_model` says, wherever the model stands.
pub(super) fn invalid_model() -> Denial {
    Denial::new(Code::InvalidModel, "`model` must be a non-empty string. Name the model to use.")
}

fn invalid(problem: &str) -> Denial {
    Denial::new(Code::InvalidJson, format!("The request body cannot be read: {problem}."))
}

/// serde_json's own words name only what it expected and where, never the body's content; a duplicate names the key,
/// which is one of our two.
fn fault(error: &serde_json::Error) -> Denial {
    invalid(&error.to_string())
}

/// A string that borrows where it has no escapes.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

struct RawMembers<'a> {
    model: Option<&'a RawValue>,
    stream: Option<&'a RawValue>,
}

#[derive(serde::Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Key {
    Model,
    Stream,
    #[serde(other)]
    Other,
}

struct TopLevel;

impl<'de> Visitor<'de> for TopLevel {
    type Value = RawMembers<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = RawMembers { model: None, stream: None };
        while let Some(key) = map.next_key()? {
            let (place, name) = match key {
                Key::Model => (&mut found.model, "model"),
                Key::Stream => (&mut found.stream, "stream"),
                Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if place.replace(map.next_value()?).is_some() && !has(Defect::DuplicatesTaken) {
                return Err(A::Error::custom(format_args!("`{name}` stands in it twice")));
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
#[path = "peek_tests.rs"]
mod tests;
