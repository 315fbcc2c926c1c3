//! The file as a tree in which every key and value knows its place. Nothing is interpreted here.

use core::fmt;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Location, Spanned};

use super::problem::{Position, Problem};
use crate::limits;

/// A value with its place.
#[derive(Clone)]
pub(super) struct Node {
    pub(super) at: Position,
    pub(super) value: Value,
}

/// What a value is. No `Debug`: it may hold secrets.
#[derive(Clone)]
pub(super) enum Value {
    Null,
    /// The text as written, without quotes.
    Scalar(String),
    /// A text of the environment: nothing in it is replaced, and no message shows it.
    Literal(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One key of a mapping with its value.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) at: Position,
    pub(super) node: Node,
}

/// Reads `text`. A text that is no YAML is one problem: nothing behind its place can be trusted.
pub(super) fn parse(text: &str) -> Result<Node, Problem> {
    if text.len() > limits::CONFIG_BYTES {
        return Err(Problem {
            at: Position::default(),
            key: String::new(),
            wrong: format!("the file is larger than {} bytes", limits::CONFIG_BYTES),
            right: "a configuration is far smaller; is this the right file?".to_owned(),
        });
    }
    let options = serde_saphyr::options! {
        with_snippet: false,
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        budget: serde_saphyr::budget! {
            max_events: 100_000,
            max_nodes: 50_000,
            max_depth: 16,
            max_documents: 2,
            max_aliases: 1_000,
            max_anchors: 1_000,
            max_merge_keys: 1_000,
            max_recorded_anchor_events: 50_000,
            max_total_scalar_bytes: limits::CONFIG_BYTES
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 50_000,
            max_replay_stack_depth: 8
        }
    };
    let raw: Option<Spanned<Raw>> =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| refusal(&error, text))?;
    Ok(raw.map_or_else(|| Node { at: Position::default(), value: Value::Null }, |raw| settle(raw, text)))
}

/// A value as the parser gives it; scalars that it took for something else than text are read again from the file.
enum Raw {
    Null,
    Text(String),
    Other(String),
    List(Vec<Spanned<Self>>),
    Map(Vec<(Spanned<String>, Spanned<Self>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Other(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Other(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Other(value.to_string()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Raw, E> {
        Ok(Raw::Other(value.to_string()))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Raw, E> {
        Ok(Raw::Other(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Other(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Raw, E> {
        Ok(Raw::Text(value))
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        Raw::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Raw::Map(entries))
    }
}

fn settle(raw: Spanned<Raw>, text: &str) -> Node {
    let value = match raw.value {
        Raw::Null => Value::Null,
        Raw::Text(scalar) => Value::Scalar(scalar),
        // A secret of digits, an octal mode, `1_000`: what counts is what the operator wrote.
        Raw::Other(scalar) => Value::Scalar(as_written(raw.defined, text).map_or(scalar, str::to_owned)),
        Raw::List(items) => Value::List(items.into_iter().map(|item| settle(item, text)).collect()),
        Raw::Map(entries) => Value::Map(
            entries
                .into_iter()
                .map(|(key, value)| Entry { at: position(key.referenced), key: key.value, node: settle(value, text) })
                .collect(),
        ),
    };
    Node { at: position(raw.referenced), value }
}

fn as_written(at: Location, text: &str) -> Option<&str> {
    let from = usize::try_from(at.span().byte_offset()?).ok()?;
    let length = usize::try_from(at.span().byte_len()?).ok()?;
    let written = text.get(from..from.checked_add(length)?)?.trim();
    (!written.is_empty() && !written.contains(char::is_whitespace)).then_some(written)
}

fn position(at: Location) -> Position {
    Position { line: at.line(), column: at.column() }
}

/// The parser's own words are kept only when they quote nothing of the file.
fn refusal(error: &serde_saphyr::Error, text: &str) -> Problem {
    use serde_saphyr::Error;
    let error = error.without_snippet();
    let at = error.location().map_or_else(Position::default, position);
    let (wrong, right) = match error {
        Error::Eof { .. } => ("the file ends too early".to_owned(), "look for an unclosed quote, bracket or brace"),
        Error::MultipleDocuments { .. } => {
            ("a second document begins here".to_owned(), "a configuration is one document, without `---` in between")
        }
        Error::UnknownAnchor { .. } => {
            ("an alias (`*name`) to nothing".to_owned(), "quote the value if it begins with `*`")
        }
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            ("too large, too deep or too many aliases".to_owned(), "at most 16 levels and 50 000 values are read")
        }
        Error::AliasError { error, .. } if !matches!(**error, Error::AliasError { .. }) => {
            let inner = refusal(error, text);
            return if at.line > 0 { Problem { at, ..inner } } else { inner };
        }
        // Only keys are read as text, so only a key can be the wrong thing.
        Error::NullIntoString { .. } | Error::Unexpected { expected: "string scalar", .. } => {
            ("a key that is empty or no plain text".to_owned(), "every line of a section is `key: value`")
        }
        Error::ExternalMessage { msg, .. } if quotes_nothing_of(text, msg) => {
            (format!("not valid YAML ({msg})"), "check indentation, quotes and colons at and just before this place")
        }
        _ => ("not valid YAML".to_owned(), "check indentation, quotes and colons at and just before this place"),
    };
    Problem { at, key: String::new(), wrong, right: right.to_owned() }
}

/// Whether no longer word of the parser's message stands in the file: then it quotes no value, so no secret.
fn quotes_nothing_of(text: &str, message: &str) -> bool {
    !message.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word.len() > 3 && text.contains(word))
}
