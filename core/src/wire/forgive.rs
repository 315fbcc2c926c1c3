//! The one thing forgiven in a pulled body: `NaN`, `Infinity` and `-Infinity` as values, which Python's encoder writes
//! (worker-protocol 9). They are read as 0 and reported with their paths; one bad ratio must not freeze every pull.

use core::fmt::Write;
use core::ops::Range;

use super::json::Fault;
use super::malformed::{Malformed, MalformedKind};
use super::report::{At, Reports, malformed};
use crate::limits;

/// Reads a pulled body with `read`; when that fails, once more with the unknown numbers as 0. Answers with the reports
/// of those numbers.
pub(super) fn read_body<T>(
    body: &[u8],
    read: impl Fn(&str) -> Result<T, Fault>,
) -> Result<(T, Vec<Malformed>), Malformed> {
    let failed = |fault: &Fault| malformed(MalformedKind::RestBody, At::Root(""), None, fault);
    let text = core::str::from_utf8(body)
        .map_err(|error| failed(&Fault::whole(format!("not UTF-8 after byte {}", error.valid_up_to()))))?;
    let fault = match read(text) {
        Ok(value) => return Ok((value, Vec::new())),
        Err(fault) => fault,
    };
    let Some((repaired, reports)) = forgive(text) else { return Err(failed(&fault)) };
    read(&repaired).map(|value| (value, reports)).map_err(|fault| failed(&fault))
}

/// `text` with every bare `NaN`, `Infinity` and `-Infinity` as `0`; `None` when there is none. Whether the rest is JSON
/// is not decided here.
fn forgive(text: &str) -> Option<(String, Vec<Malformed>)> {
    let mut repaired = String::new();
    let mut copied = 0;
    let mut reports = Reports::default();
    let mut place = Place::default();
    let mut at = 0;
    while let Some(rest) = text.as_bytes().get(at..).filter(|rest| !rest.is_empty()) {
        let token = token(rest);
        let range = at..at + token.len();
        match token {
            [b'"', ..] => place.string(range.clone()),
            [b'{'] => place.open(true),
            [b'['] => place.open(false),
            [b'}' | b']'] => place.close(),
            [b','] => place.next(),
            b"NaN" | b"Infinity" | b"-Infinity" => {
                let word = text.get(range.clone()).unwrap_or_default();
                reports.number(At::Root(&place.path(text)), &format!("{word} is no JSON number; read as 0"));
                repaired.push_str(text.get(copied..range.start).unwrap_or_default());
                repaired.push('0');
                copied = range.end;
            }
            _ => {}
        }
        at = range.end;
    }
    let reports = reports.finish();
    if reports.is_empty() {
        return None;
    }
    repaired.push_str(text.get(copied..).unwrap_or_default());
    Some((repaired, reports))
}

/// The token `rest` begins with: a whole string (to the end, when it has no end), a whole word or number, or one byte.
fn token(rest: &[u8]) -> &[u8] {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b'_');
    let length = match rest.first() {
        Some(b'"') => string_length(rest),
        Some(byte) if is_word(byte) => rest.iter().take_while(|byte| is_word(byte)).count(),
        _ => 1,
    };
    rest.get(..length).unwrap_or(rest)
}

fn string_length(rest: &[u8]) -> usize {
    let mut escaped = false;
    for (index, byte) in rest.iter().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Where in the body the scan stands. Levels beyond [`limits::NESTING`] are counted and not kept.
#[derive(Default)]
struct Place {
    levels: Vec<Level>,
    beyond: usize,
}

enum Level {
    /// An object, with the current key's place in the text, quotes included.
    Object(Option<Range<usize>>),
    /// A list, with the current index.
    List(usize),
}

impl Place {
    fn open(&mut self, object: bool) {
        if self.levels.len() >= limits::NESTING {
            self.beyond += 1;
        } else {
            self.levels.push(if object { Level::Object(None) } else { Level::List(0) });
        }
    }

    fn close(&mut self) {
        if self.beyond > 0 {
            self.beyond -= 1;
        } else {
            self.levels.pop();
        }
    }

    fn next(&mut self) {
        match self.levels.last_mut() {
            _ if self.beyond > 0 => {}
            Some(Level::Object(key)) => *key = None,
            Some(Level::List(index)) => *index += 1,
            None => {}
        }
    }

    fn string(&mut self, range: Range<usize>) {
        if self.beyond == 0
            && let Some(Level::Object(key @ None)) = self.levels.last_mut()
        {
            *key = Some(range);
        }
    }

    /// The path to here. It ends at `envs`, whose names are nobody's business, and shows plain names only.
    fn path(&self, text: &str) -> String {
        let mut path = String::new();
        for level in &self.levels {
            match level {
                Level::List(index) => {
                    let _ = write!(path, "[{index}]");
                }
                Level::Object(key) => {
                    let name = key.clone().and_then(|range| text.get(range)).unwrap_or_default().trim_matches('"');
                    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                    let shown = if name.len() <= 40 && name.chars().all(plain) { name } else { "?" };
                    path.push_str(if path.is_empty() { "" } else { "." });
                    path.push_str(shown);
                    if name == "envs" {
                        break;
                    }
                }
            }
        }
        path
    }
}

#[cfg(test)]
#[path = "forgive_tests.rs"]
mod tests;
