//! What keeps like requests together: a client's own header, or the beginning of what it says (data-plane 3.3).

use core::fmt;
use http::HeaderMap;
use http::header::HeaderName;
use serde::de::{DeserializeSeed, Deserializer as _, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;

use super::rendezvous::fold;
use super::selection::Strategy;
use crate::limits::{AFFINITY_LEAD_BYTES, AFFINITY_PREFIX_BYTES};

/// The key of a client that names itself by `routing.affinity_header`.
pub(super) fn sticky(headers: &HeaderMap, name: Option<&HeaderName>) -> Option<u64> {
    let value = headers.get(name?)?.as_bytes();
    (!value.is_empty()).then(|| fold(0, value))
}

/// The key of a body, for the strategies that go by one; 0 for the others.
///
/// `consistent_hash`: everything up to and including the first message of the user, so that a conversation stays where
/// it began. `prefix_aware`: no more than the first KiB of that, so that conversations that begin alike meet.
pub(super) fn key(strategy: Strategy, body: &[u8]) -> u64 {
    let most = match strategy {
        Strategy::ConsistentHash => AFFINITY_LEAD_BYTES,
        Strategy::PrefixAware => AFFINITY_PREFIX_BYTES,
        _ => return 0,
    };
    let mut lead = Lead { sum: 0, left: most, found: false };
    if let Ok(text) = core::str::from_utf8(body) {
        // Reading stops, as a failure, once enough was seen.
        let _ = serde_json::Deserializer::from_str(text).deserialize_map(Body(&mut lead));
    }
    if lead.found { lead.sum } else { fold(0, body.get(..most).unwrap_or(body)) }
}

struct Lead {
    sum: u64,
    /// Bytes still to be taken.
    left: usize,
    found: bool,
}

impl Lead {
    fn take(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let bytes = bytes.get(..self.left).unwrap_or(bytes);
        self.left -= bytes.len();
        self.sum = fold(self.sum, bytes);
    }
}

#[derive(serde::Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Key {
    /// Stand before the messages where a surface has them apart.
    #[serde(alias = "instructions", alias = "systemInstruction", alias = "system_instruction")]
    System,
    #[serde(alias = "prompt", alias = "input", alias = "contents", alias = "query")]
    Messages,
    #[serde(other)]
    Other,
}

struct Body<'a>(&'a mut Lead);

impl<'de> Visitor<'de> for Body<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key()? {
            match key {
                Key::System => self.0.take(map.next_value::<&RawValue>()?.get()),
                Key::Messages => {
                    self.0.found = true;
                    map.next_value_seed(Said(self.0))?;
                    return Err(A::Error::custom("enough"));
                }
                Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// What is said: a text, or a list of messages.
struct Said<'a>(&'a mut Lead);

impl<'de> DeserializeSeed<'de> for Said<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Said<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.0.take(text);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element::<&RawValue>()? {
            self.0.take(item.get());
            if self.0.left == 0 || is_users(item) {
                return Err(A::Error::custom("enough"));
            }
        }
        Ok(())
    }
}

#[derive(serde::Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    role: Option<Cow<'a, str>>,
}

/// Whether a message is the user's. Gemini's may leave the role out.
fn is_users(message: &RawValue) -> bool {
    serde_json::from_str::<Message<'_>>(message.get())
        .is_ok_and(|message| message.role.is_none_or(|role| role == "user"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(body: &str) -> (u64, u64) {
        (key(Strategy::ConsistentHash, body.as_bytes()), key(Strategy::PrefixAware, body.as_bytes()))
    }

    #[test]
    fn a_conversation_keeps_its_key_and_another_has_its_own() {
        let turn = |first: &str, rest: &str| {
            format!(
                r#"{{"model":"m","messages":[{{"role":"system","content":"s"}},{{"role":"user","content":"{first}"}}{rest}],"n":1}}"#
            )
        };
        let one = keys(&turn("hi", ""));
        assert_eq!(keys(&turn("hi", r#",{"role":"assistant","content":"x"},{"role":"user","content":"y"}"#)), one);
        let other = keys(&turn("ho", ""));
        assert_ne!((one.0, one.1), (other.0, other.1));
        assert_ne!(one.0, other.0);
        assert_ne!(one.1, other.1);
    }

    #[test]
    fn long_beginnings_meet_under_prefix_aware_only() {
        let long = "s".repeat(2000);
        let turn = |first: &str| format!(r#"{{"system":"{long}","messages":[{{"role":"user","content":"{first}"}}]}}"#);
        let (one, other) = (keys(&turn("hi")), keys(&turn("ho")));
        assert_ne!(one.0, other.0);
        assert_eq!(one.1, other.1);
        let prompt = |end: &str| format!(r#"{{"prompt":"{long}{end}"}}"#);
        assert_eq!(keys(&prompt("a")).1, keys(&prompt("b")).1);
        assert_ne!(keys(&prompt("a")).0, keys(&prompt("b")).0);
    }

    #[test]
    fn no_more_is_looked_at_than_the_limit() {
        for (strategy, most) in
            [(Strategy::ConsistentHash, AFFINITY_LEAD_BYTES), (Strategy::PrefixAware, AFFINITY_PREFIX_BYTES)]
        {
            let key_of = |same: usize, end: &str| {
                key(strategy, format!(r#"{{"prompt":"{}{end}"}}"#, "x".repeat(same)).as_bytes())
            };
            assert_ne!(key_of(most - 1, "a"), key_of(most - 1, "b"), "the last byte within");
            assert_eq!(key_of(most, "a"), key_of(most, "b"), "the first one past it");
        }
    }

    #[test]
    fn any_body_has_a_key() {
        for body in
            ["", "{", "[]", "{}", r#"{"messages":7}"#, r#"{"messages":[]}"#, r#"{"messages":[7,"x",{}]}"#, "\u{e9}"]
        {
            let _ = keys(body);
        }
        let _ = key(Strategy::PrefixAware, b"\xff\xfe");
        assert_eq!(key(Strategy::Weighted, b"{\"prompt\":\"x\"}"), 0);
        // An embedding's text, and a body that is no JSON: told apart all the same.
        assert_ne!(keys(r#"{"input":"a"}"#), keys(r#"{"input":"b"}"#));
        assert_ne!(keys("a"), keys("b"));
    }
}
