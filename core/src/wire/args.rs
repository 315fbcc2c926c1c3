//! The body of the args dialect: base64 of a msgpack array of strings (worker-protocol 3.1).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use core::fmt;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::limits;

/// The array's elements; `None` for one that is no text.
pub(super) struct Args(Vec<Option<String>>);

impl Args {
    /// Reads `text`. Says what is wrong with it otherwise.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let bytes = STANDARD.decode(text).map_err(|error| format!("no padded standard base64: {error}"))?;
        let mut rest: &[u8] = &bytes;
        let mut deserializer = rmp_serde::Deserializer::new(&mut rest);
        // Elements are strings; whatever else a longer array holds is skipped, and need not be deep.
        deserializer.set_max_depth(limits::NESTING);
        let args = Self::deserialize(&mut deserializer)
            .map_err(|error| format!("no msgpack array of strings: {}", without_values(&error.to_string())))?;
        if rest.is_empty() { Ok(args) } else { Err(format!("{} bytes after the msgpack array", rest.len())) }
    }

    /// The text at `position`.
    pub(super) fn text(&self, position: usize) -> Result<&str, String> {
        match self.0.get(position) {
            Some(Some(text)) => Ok(text),
            Some(None) => Err("no string; every element should be a string".to_owned()),
            None => Err(format!("missing; the array has only {} elements", self.0.len())),
        }
    }

    /// Writes `elements` in the smallest form.
    pub(super) fn write<const N: usize>(elements: [&str; N]) -> String {
        let mut bytes = rmp_serde::Serializer::new(Vec::new());
        // Writing text to memory cannot fail.
        serde::Serializer::collect_seq(&mut bytes, elements)
            .unwrap_or_else(|error| unreachable!("strings are always msgpack: {error}"));
        STANDARD.encode(bytes.into_inner())
    }
}

/// What a library says of a value without the value, which may be anything: `invalid type: string "..."`.
fn without_values(error: &str) -> String {
    match error.strip_prefix("invalid type: ") {
        Some(found) => {
            let kind: String = found.chars().take_while(|c| c.is_ascii_lowercase() || *c == ' ').collect();
            format!("invalid type: {}", kind.trim_end())
        }
        None => error.to_owned(),
    }
}

impl<'de> Deserialize<'de> for Args {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ArgsVisitor)
    }
}

struct ArgsVisitor;

impl<'de> Visitor<'de> for ArgsVisitor {
    type Value = Args;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array of at most {} strings", limits::ENVELOPE_ARGS)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        if seq.size_hint().is_some_and(|length| length > limits::ENVELOPE_ARGS) {
            return Err(A::Error::custom(format!("more than {} elements", limits::ENVELOPE_ARGS)));
        }
        let mut args = Vec::new();
        while let Some(Arg(arg)) = seq.next_element()? {
            if args.len() == limits::ENVELOPE_ARGS {
                return Err(A::Error::custom(format!("more than {} elements", limits::ENVELOPE_ARGS)));
            }
            args.push(arg);
        }
        Ok(Args(args))
    }
}

struct Arg(Option<String>);

impl<'de> Deserialize<'de> for Arg {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ArgVisitor)
    }
}

struct ArgVisitor;

impl<'de> Visitor<'de> for ArgVisitor {
    type Value = Arg;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, text: &str) -> Result<Arg, E> {
        Ok(Arg(Some(text.to_owned())))
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Arg, E> {
        Ok(Arg(core::str::from_utf8(bytes).ok().map(str::to_owned)))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Arg, E> {
        Ok(Arg(None))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Arg, E> {
        Ok(Arg(None))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Arg, E> {
        Ok(Arg(None))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Arg, E> {
        Ok(Arg(None))
    }

    fn visit_unit<E>(self) -> Result<Arg, E> {
        Ok(Arg(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Arg, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Arg(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Arg, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Arg(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_array_is_named_by_its_kind_and_never_quoted() {
        let marked = "s3cr3t".repeat(20);
        let text = rmp_serde::to_vec(&marked).expect("msgpack");
        for bytes in [text, rmp_serde::to_vec(&-1.5e300_f64).expect("msgpack"), vec![0xc3], vec![0xc0], vec![0x05]] {
            let wrong = Args::read(&STANDARD.encode(bytes)).err().expect("no array");
            assert!(wrong.starts_with("no msgpack array of strings: invalid type: "), "{wrong}");
            assert!(!wrong.contains("s3cr3t") && wrong.len() < 90, "{wrong}");
        }
        let many = rmp_serde::to_vec(&vec!["x"; limits::ENVELOPE_ARGS + 1]).expect("msgpack");
        assert!(Args::read(&STANDARD.encode(many)).err().expect("too many").contains("more than"));
    }
}
