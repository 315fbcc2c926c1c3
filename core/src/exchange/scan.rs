//! A quick walk over a JSON object that keeps nothing: where its `model` and `stream` stand (data-plane 3.1).
//!
//! It accepts less than JSON and never more: what it does not accept may be fine, and serde_json judges it, in its own
//! words. So a body is gone through once at a few bits of work a byte, and only a bad or a strange one twice.

/// Nesting that is walked here; deeper bodies are left to serde_json.
const DEEPEST: u32 = 64;

/// Where the values of the two members stand.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Places {
    /// Start and end of the value of `model`, quotes included.
    pub(super) model: Option<(usize, usize)>,
    /// Start and end of the value of `stream`.
    pub(super) stream: Option<(usize, usize)>,
}

/// The places in `text`, one valid JSON object of UTF-8 whose top level says neither member twice. `None`: not seen to
/// be that.
pub(super) fn members(text: &str) -> Option<Places> {
    let mut walk = Walk { bytes: text.as_bytes(), at: 0 };
    let mut places = Places::default();
    walk.space();
    walk.take(b'{')?;
    walk.space();
    if walk.peek()? != b'}' {
        loop {
            let name = walk.key()?;
            walk.space();
            let start = walk.at;
            walk.value()?;
            let place = match name {
                b"model" => Some(&mut places.model),
                b"stream" => Some(&mut places.stream),
                _ => None,
            };
            if let Some(place) = place
                && place.replace((start, walk.at)).is_some()
            {
                return None;
            }
            walk.space();
            match walk.next()? {
                b',' => walk.space(),
                b'}' => break,
                _ => return None,
            }
        }
    } else {
        walk.at += 1;
    }
    walk.space();
    (walk.at == walk.bytes.len()).then_some(places)
}

struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    #[inline]
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    #[inline]
    fn take(&mut self, wanted: u8) -> Option<()> {
        (self.next()? == wanted).then_some(())
    }

    #[inline]
    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// A member's name and its colon. A name with escapes could spell anything: not for us at the top level, and not
    /// looked at below it.
    fn key(&mut self) -> Option<&'a [u8]> {
        self.take(b'"')?;
        let start = self.at;
        let plain = self.string()?;
        let name = self.bytes.get(start..self.at - 1)?;
        self.colon()?;
        plain.then_some(name)
    }

    #[inline]
    fn colon(&mut self) -> Option<()> {
        self.space();
        self.take(b':')
    }

    /// The rest of a string, its closing quote included, and whether it had no escape.
    #[inline]
    fn string(&mut self) -> Option<bool> {
        let mut plain = true;
        loop {
            self.text();
            match self.next()? {
                b'"' => return Some(plain),
                b'\\' => {
                    plain = false;
                    match self.next()? {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => (),
                        b'u' => {
                            let digits = self.bytes.get(self.at..self.at + 4)?;
                            if !digits.iter().all(u8::is_ascii_hexdigit) {
                                return None;
                            }
                            self.at += 4;
                        }
                        _ => return None,
                    }
                }
                // A control character.
                _ => return None,
            }
        }
    }

    /// To the next quote, backslash or control character.
    #[inline]
    fn text(&mut self) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let mut gone = 0;
        let (words, _) = rest.as_chunks::<8>();
        for word in words {
            let found = specials(u64::from_le_bytes(*word));
            if found != 0 {
                self.at += gone + (found.trailing_zeros() / 8) as usize;
                return;
            }
            gone += 8;
        }
        while rest.get(gone).is_some_and(|&byte| !is_special(byte)) {
            gone += 1;
        }
        self.at += gone;
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn number(&mut self) -> Option<()> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1
        } else {
            self.digits()?
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.bytes.get(self.at..)?.starts_with(word).then(|| self.at += word.len())
    }

    /// One value, whatever is in it.
    fn value(&mut self) -> Option<()> {
        // One bit for each level that is open: an object or not.
        let (mut depth, mut objects) = (0_u32, 0_u64);
        loop {
            let opened = match self.peek()? {
                b'"' => {
                    self.at += 1;
                    self.string()?;
                    None
                }
                b'{' => Some(true),
                b'[' => Some(false),
                b't' => {
                    self.word(b"true")?;
                    None
                }
                b'f' => {
                    self.word(b"false")?;
                    None
                }
                b'n' => {
                    self.word(b"null")?;
                    None
                }
                _ => {
                    self.number()?;
                    None
                }
            };
            if let Some(object) = opened {
                self.at += 1;
                self.space();
                if self.peek()? == if object { b'}' } else { b']' } {
                    self.at += 1;
                } else if depth == DEEPEST {
                    return None;
                } else {
                    depth += 1;
                    objects = objects << 1 | u64::from(object);
                    if object {
                        self.inner_key()?;
                    }
                    continue;
                }
            }
            // What ends here, and what follows it.
            loop {
                if depth == 0 {
                    return Some(());
                }
                self.space();
                let object = objects & 1 == 1;
                match self.next()? {
                    b',' => {
                        self.space();
                        if object {
                            self.inner_key()?;
                        }
                        break;
                    }
                    b'}' if object => (),
                    b']' if !object => (),
                    _ => return None,
                }
                depth -= 1;
                objects >>= 1;
            }
        }
    }

    #[inline]
    fn inner_key(&mut self) -> Option<()> {
        self.take(b'"')?;
        self.string()?;
        self.colon()?;
        self.space();
        Some(())
    }
}

const fn is_special(byte: u8) -> bool {
    byte == b'"' || byte == b'\\' || byte < 0x20
}

/// The high bit of each byte of `word` that is special; above the lowest, bits may be set that should not be.
const fn specials(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let quote = word ^ (ONES * b'"' as u64);
    let escape = word ^ (ONES * b'\\' as u64);
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    ((quote.wrapping_sub(ONES) & !quote) | (escape.wrapping_sub(ONES) & !escape) | control) & HIGH
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    /// What serde_json makes of the same text, when it has no escaped name at the top level.
    fn whole(text: &str) -> bool {
        serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() && text.trim_ascii_start().starts_with('{')
    }

    #[test]
    fn places_are_those_of_the_values() {
        let text = r#" {"a":[{"model":1},"\"model\":"], "model" : "m\"1" ,"stream":true} "#;
        let places = members(text).unwrap();
        assert_eq!(places.model.map(|(start, end)| &text[start..end]), Some(r#""m\"1""#));
        assert_eq!(places.stream.map(|(start, end)| &text[start..end]), Some("true"));
        assert_eq!(members("{}"), Some(Places::default()));
    }

    #[test]
    fn what_is_strange_is_left_to_others() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(66), "]".repeat(66));
        for text in [r#"{"mod\u0065l":"a"}"#, r#"{"model":1,"model":2}"#, r#"{"stream":1,"stream":2}"#, &deep] {
            assert_eq!(members(text), None, "{text}");
            assert!(whole(text));
        }
        let text = format!("{{\"a\":{}{}}}", "[".repeat(65), "]".repeat(65));
        assert!(members(&text).is_some(), "as deep as it goes");
    }

    #[test]
    fn a_special_byte_is_found_wherever_it_stands() {
        for special in ['"', '\\', '\u{0}', '\u{1f}'] {
            for before in 0..80 {
                let text = format!(
                    "{}{special}{}",
                    "é~\u{7f} !#[]".repeat(10).chars().take(before).collect::<String>(),
                    "x".repeat(40)
                );
                let mut walk = Walk { bytes: text.as_bytes(), at: 0 };
                walk.text();
                assert_eq!(Some(walk.at), text.find(special), "{text:?}");
            }
        }
    }

    /// Bits of JSON and of what is nearly JSON.
    fn bit() -> impl Strategy<Value = String> {
        let bits: &[&str] = &[
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"",
            "\\",
            "\"a\"",
            "\"model\"",
            "\"stream\"",
            "\"model\":\"m\"",
            "true",
            "false",
            "null",
            "nul",
            "0",
            "01",
            "-",
            "-0",
            "1.",
            "1.5",
            ".5",
            "1e",
            "1E+9",
            "1e-",
            "\\u00e9",
            "\"\\u12\"",
            "\"\\ud800\"",
            "\"\\x\"",
            " ",
            "\n",
            "\u{b}",
            "\u{1}",
            "é",
            "{\"a\":1}",
            "[1,2]",
            "[]",
            "{}",
            "\"\t\"",
            "\u{a0}",
            "\"a long text of more than thirty two bytes in all\"",
        ];
        prop_oneof![8 => proptest::sample::select(bits).prop_map(str::to_owned), 1 => any::<char>().prop_map(String::from)]
    }

    /// Any document.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,40}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 30, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec(("[a-zé\"]{0,6}", inner), 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_096))]

        #[test]
        fn never_more_than_json(bits in prop::collection::vec(bit(), 0..12), inside in any::<bool>()) {
            let text = bits.concat();
            let text = if inside { format!("{{\"k\":{text}}}") } else { text };
            prop_assert!(members(&text).is_none() || whole(&text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn all_that_is_usual(doc in prop::collection::vec(("[a-z]{0,6}", value()), 0..6), pretty in any::<bool>()) {
            let doc = Value::Object(doc.into_iter().collect());
            let text = if pretty { serde_json::to_string_pretty(&doc).unwrap() } else { doc.to_string() };
            let places = members(&text);
            prop_assert!(places.is_some(), "{text}");
            let said = places.and_then(|places| places.model).map(|(start, end)| &text[start..end]);
            let said = said.map(|raw| serde_json::from_str::<Value>(raw).unwrap());
            prop_assert_eq!(said.as_ref(), doc.get("model"));
        }

        #[test]
        fn a_byte_changed_anywhere(doc in value(), place in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut text = serde_json::json!({"model": "m", "doc": doc}).to_string().into_bytes();
            let at = place.index(text.len());
            text[at] = byte;
            if let Ok(text) = core::str::from_utf8(&text) {
                prop_assert!(members(text).is_none() || whole(text), "{text}");
            }
        }
    }
}
