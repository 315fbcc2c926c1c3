//! JSON read value by value, without building documents: an object becomes the raw texts of the fields asked for.
//!
//! Nothing here recurses, so no nesting can exhaust the stack.

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use uuid::Uuid;

use crate::limits;

/// What is wrong with one field; `field` is empty when it is the value as a whole.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) field: &'static str,
    pub(super) problem: String,
}

impl Fault {
    pub(super) fn whole(problem: impl Into<String>) -> Self {
        Self { field: "", problem: problem.into() }
    }

    pub(super) fn at(field: &'static str, problem: impl Into<String>) -> Self {
        Self { field, problem: problem.into() }
    }
}

/// The wanted fields of one object, unread. Kebab-case names count as their snake_case twins; of a name that comes
/// twice the last value counts, as in every reader the coordinator uses.
#[derive(Debug)]
pub(super) struct Object<'a, const N: usize> {
    names: [&'static str; N],
    values: [Option<&'a RawValue>; N],
}

impl<'a, const N: usize> Object<'a, N> {
    /// Reads `text`, a whole JSON text, as an object.
    pub(super) fn read(text: &'a str, names: [&'static str; N]) -> Result<Self, Fault> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let values = Wanted { names: &names }
            .deserialize(&mut deserializer)
            .and_then(|values| deserializer.end().map(|()| values))
            .map_err(|error| Fault::whole(explain(text, &error, "an object")))?;
        Ok(Self { names, values })
    }

    /// The field as it came, `null` included.
    pub(super) fn raw(&self, name: &str) -> Option<&'a RawValue> {
        debug_assert!(self.names.contains(&name), "{name} was not asked for");
        let place = self.names.iter().position(|known| *known == name)?;
        self.values.get(place).copied().flatten()
    }

    /// The field, unless it is absent or `null`.
    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.raw(name).filter(|raw| raw.get() != "null")
    }

    /// The first of `names` that is neither absent nor `null`, with its name.
    pub(super) fn first_of(&self, names: &[&'static str]) -> Option<(&'static str, &'a RawValue)> {
        names.iter().find_map(|name| Some((*name, self.get(name)?)))
    }

    /// An optional string.
    pub(super) fn text(&self, name: &'static str) -> Result<Option<Cow<'a, str>>, Fault> {
        self.optional(name, text)
    }

    /// An optional UUID.
    pub(super) fn uuid(&self, name: &'static str) -> Result<Option<Uuid>, Fault> {
        self.optional(name, uuid)
    }

    /// An optional list.
    pub(super) fn list(&self, name: &'static str) -> Result<Option<Vec<&'a RawValue>>, Fault> {
        self.optional(name, |raw| list(raw.get()))
    }

    /// An optional boolean.
    pub(super) fn flag(&self, name: &'static str) -> Result<Option<bool>, Fault> {
        self.optional(name, |raw| match raw.get() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(format!("{} where true or false should be", kind(raw.get()))),
        })
    }

    /// An optional field read by `read`.
    pub(super) fn optional<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&'a RawValue) -> Result<T, String>,
    ) -> Result<Option<T>, Fault> {
        self.get(name).map(read).transpose().map_err(|problem| Fault::at(name, problem))
    }

    /// A field that must be there, read by `read`.
    pub(super) fn required<T>(
        &self,
        name: &'static str,
        what: &str,
        read: impl FnOnce(&'a RawValue) -> Result<T, String>,
    ) -> Result<T, Fault> {
        self.optional(name, read)?.ok_or_else(|| Fault::at(name, format!("missing; {what} should be here")))
    }
}

/// A whole JSON text as a list of raw elements.
pub(super) fn list(text: &str) -> Result<Vec<&RawValue>, String> {
    serde_json::from_str(text).map_err(|error| explain(text, &error, "a list"))
}

/// A string.
pub(super) fn text(raw: &RawValue) -> Result<Cow<'_, str>, String> {
    #[derive(serde::Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    let json = raw.get();
    serde_json::from_str::<Text<'_>>(json).map(|text| text.0).map_err(|error| explain(json, &error, "a string"))
}

/// A string that is not empty.
pub(super) fn name(raw: &RawValue) -> Result<Cow<'_, str>, String> {
    text(raw).and_then(|text| if text.is_empty() { Err("empty; a name should be here".into()) } else { Ok(text) })
}

/// A UUID, with or without dashes, in braces, in any case.
pub(super) fn uuid(raw: &RawValue) -> Result<Uuid, String> {
    let text = text(raw)?;
    Uuid::parse_str(text.trim())
        .map_err(|_| format!("{} is no UUID; 32 hex digits, with or without dashes, should be here", quote(&text)))
}

/// What kind of value `json` begins with, in words.
pub(super) fn kind(json: &str) -> &'static str {
    match json.trim_start().as_bytes().first() {
        None => "nothing",
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b'"') => "a string",
        Some(b'n') => "null",
        Some(b't' | b'f') => "a boolean",
        Some(b'-' | b'0'..=b'9') => "a number",
        Some(_) => "no JSON",
    }
}

/// `text` in quotes, its control characters escaped, cut when long: for reports.
pub(super) fn quote(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}...", text.get(..end).unwrap_or_default()),
        None => format!("{text:?}"),
    }
}

/// Whether brackets nest deeper than [`limits::NESTING`] anywhere in `json`.
pub(super) fn too_deep(json: &str) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for byte in json.bytes() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                if depth > limits::NESTING {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// Says why `json` is not `wanted`, without quoting any of it: serde's own words for a wrong type would.
fn explain(json: &str, error: &serde_json::Error, wanted: &str) -> String {
    let found = kind(json);
    if error.is_data() && found != wanted {
        format!("{found} where {wanted} should be")
    } else if error.is_data() {
        format!("{wanted} that cannot be read, at line {} column {}", error.line(), error.column())
    } else {
        format!("not valid JSON: {error}")
    }
}

/// Collects the raw values of some names and skips all others.
struct Wanted<'n, const N: usize> {
    names: &'n [&'static str; N],
}

impl<'de, const N: usize> DeserializeSeed<'de> for Wanted<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for Wanted<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = [None; N];
        while let Some(place) = map.next_key_seed(Place { names: self.names })? {
            match place.and_then(|place| values.get_mut(place)) {
                Some(value) => *value = Some(map.next_value::<&'de RawValue>()?),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(values)
    }
}

/// Finds a key among the wanted names, without keeping it.
struct Place<'n, const N: usize> {
    names: &'n [&'static str; N],
}

impl<'de, const N: usize> DeserializeSeed<'de> for Place<'_, N> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<const N: usize> Visitor<'_> for Place<'_, N> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.names.iter().position(|name| same_name(name, key)))
    }
}

/// Whether `key` is the snake_case `name` or its kebab-case twin.
fn same_name(name: &str, key: &str) -> bool {
    name.len() == key.len() && name.bytes().zip(key.bytes()).all(|(n, k)| n == if k == b'-' { b'_' } else { k })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_both_spellings_and_the_last_one_counts() {
        let object = Object::read(
            r#" {"route-id":1,"x":{"route_id":2},"kernel_port":3,"kernel\u005fport":4,"n":null} "#,
            ["route_id", "kernel_port", "n", "absent"],
        )
        .expect("an object");
        assert_eq!(object.raw("route_id").map(RawValue::get), Some("1"));
        assert_eq!(object.raw("kernel_port").map(RawValue::get), Some("4"));
        assert_eq!(object.raw("n").map(RawValue::get), Some("null"));
        assert!(object.get("n").is_none() && object.get("absent").is_none());
        assert_eq!(object.first_of(&["absent", "n", "route_id"]).map(|found| found.0), Some("route_id"));
    }

    #[test]
    fn problems_say_what_is_there_and_what_should_be_and_quote_nothing() {
        for (text, problem) in [
            ("[1]", "a list where an object should be"),
            ("\"top-secret\"", "a string where an object should be"),
            ("", "not valid JSON: EOF while parsing a value at line 1 column 0"),
            ("{} x", "not valid JSON: trailing characters at line 1 column 4"),
            ("{\"a\":", "not valid JSON: EOF while parsing a value at line 1 column 5"),
        ] {
            assert_eq!(Object::read(text, ["a"]).expect_err(text).problem, problem);
        }
        assert_eq!(list("{}").expect_err("no list"), "an object where a list should be");
        let raw: &RawValue = serde_json::from_str(r#""\ud800 secret""#).expect("serde_json skips lone surrogates");
        assert!(!text(raw).expect_err("a lone surrogate").contains("secret"));
    }

    #[test]
    fn nesting_counts_brackets_outside_strings_only() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(!too_deep(&nested(limits::NESTING)));
        assert!(too_deep(&nested(limits::NESTING + 1)));
        assert!(!too_deep(&format!(r#"["{}\"{}"]"#, "[".repeat(500), "{".repeat(500))));
        assert!(!too_deep(&"[],".repeat(500)));
        // The limit is serde_json's own.
        assert!(serde_json::from_str::<serde_json::Value>(&nested(limits::NESTING)).is_ok());
        assert!(serde_json::from_str::<serde_json::Value>(&nested(limits::NESTING + 1)).is_err());
    }

    #[test]
    fn long_quotes_are_cut_between_characters() {
        assert_eq!(quote("a\nb"), r#""a\nb""#);
        assert_eq!(quote(&"한".repeat(61)), format!("\"{}\"...", "한".repeat(60)));
    }
}
