//! One pass over a JSON body: whether it is an object, and where two of its members stand (data-plane 3.1).
//!
//! What this accepts serde_json accepts too, and reads alike. What it does not accept is either no JSON or rare: serde_json
//! decides then, and has the words for what is wrong. Nothing is allocated, nothing recurses; strings, most of any chat,
//! go by thirty-two bytes at a time.

use core::ops::Range;
use fearless_simd::{Level, Simd, dispatch};

use super::window::{Seen, WIDTH};

/// Where the values of the two members stand that are looked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Members {
    pub(super) model: Option<Range<usize>>,
    /// Whether the model's value may have an escape in it.
    pub(super) model_escaped: bool,
    pub(super) stream: Option<Range<usize>>,
    /// Whether every byte is ASCII; if not, whether it is UTF-8 is still to be found out.
    pub(super) ascii: bool,
}

/// Goes through a whole body. `None`: it is no object, or has what is rare: a name of a member written with an escape, one
/// of the two a second time, more than 63 levels.
pub(super) fn members(body: &[u8]) -> Option<Members> {
    dispatch!(Level::new(), simd => Scan { seen: Seen::nothing(simd), escapes: 0 }.members(body))
}

struct Scan<S: Simd> {
    seen: Seen<S>,
    /// How many there were so far.
    escapes: usize,
}

impl<S: Simd> Scan<S> {
    #[inline(always)]
    fn members(mut self, body: &[u8]) -> Option<Members> {
        let mut found = Members::default();
        let place = |rest: &[u8]| body.len() - rest.len();
        let mut rest = token(body, b'{')?;
        match closed(rest, b'}') {
            Some(behind) => rest = behind,
            None => loop {
                let (quoted, escapes) = (token(rest, b'"')?, self.escapes);
                let behind = self.string(quoted)?;
                let name = quoted.get(..quoted.len() - behind.len() - 1)?;
                let slot = match name {
                    b"model" => Some(&mut found.model),
                    b"stream" => Some(&mut found.stream),
                    _ if self.escapes != escapes => return None,
                    _ => None,
                };
                let value = past_space(token(behind, b':')?);
                rest = self.value(value)?;
                if let Some(slot) = slot {
                    if slot.replace(place(value)..place(rest)).is_some() {
                        return None;
                    }
                    found.model_escaped |= self.escapes != escapes;
                }
                let (next, behind) = past_space(rest).split_first()?;
                rest = behind;
                match next {
                    b',' => {}
                    b'}' => break,
                    _ => return None,
                }
            },
        }
        found.ascii = self.seen.ascii();
        past_space(rest).is_empty().then_some(found)
    }

    /// What follows a string, whose opening quote has gone by.
    #[inline(always)]
    fn string<'a>(&mut self, mut rest: &'a [u8]) -> Option<&'a [u8]> {
        loop {
            let Some(window) = rest.first_chunk::<WIDTH>() else { return self.last_string(rest) };
            let Some(at) = self.seen.special(window) else {
                rest = rest.get(WIDTH..)?;
                continue;
            };
            let special = *window.get(at)?;
            rest = rest.get(at + 1..)?;
            if special == b'"' {
                return Some(rest);
            }
            self.escapes += 1;
            rest = escaped(special, rest)?;
        }
    }

    /// The same where less than a window is left.
    #[inline(always)]
    fn last_string<'a>(&mut self, mut rest: &'a [u8]) -> Option<&'a [u8]> {
        loop {
            let window = last_window(rest);
            let at = self.seen.special(&window)?;
            let special = *window.get(at)?;
            // A space is nothing special, so it is a byte of the body.
            rest = rest.get(at + 1..)?;
            if special == b'"' {
                return Some(rest);
            }
            self.escapes += 1;
            rest = escaped(special, rest)?;
        }
    }

    /// What follows a value.
    #[inline(always)]
    fn value<'a>(&mut self, mut rest: &'a [u8]) -> Option<&'a [u8]> {
        // A bit for each list (0) and object (1) around, the innermost lowest; above them a 1.
        let mut levels = 1_u64;
        loop {
            let (first, behind) = rest.split_first()?;
            let mut names = false;
            rest = match *first {
                b'"' => self.string(behind)?,
                b'{' => match closed(behind, b'}') {
                    Some(behind) => behind,
                    None => {
                        levels = deeper(levels, 1)?;
                        names = true;
                        behind
                    }
                },
                b'[' => match closed(behind, b']') {
                    Some(behind) => behind,
                    None => {
                        levels = deeper(levels, 0)?;
                        rest = behind;
                        continue;
                    }
                },
                space if space <= b' ' => {
                    rest = past_one_space(space, behind)?;
                    continue;
                }
                first => scalar(first, behind)?,
            };
            if !names {
                // What may follow a value: the end of what is around it, and of what is around that; then the next one.
                names = loop {
                    if levels == 1 {
                        return Some(rest);
                    }
                    let (next, behind) = rest.split_first()?;
                    rest = behind;
                    match *next {
                        b',' => break levels & 1 == 1,
                        b'}' if levels & 1 == 1 => levels >>= 1,
                        b']' if levels & 1 == 0 => levels >>= 1,
                        space => rest = past_one_space(space, rest)?,
                    }
                };
            }
            if names {
                rest = token(rest, b'"')?;
                rest = self.string(rest)?;
                rest = token(rest, b':')?;
            }
        }
    }
}

/// The last bytes of a body, and spaces behind them.
#[inline(never)]
fn last_window(rest: &[u8]) -> [u8; WIDTH] {
    let mut window = [b' '; WIDTH];
    if let Some(front) = window.get_mut(..rest.len()) {
        front.copy_from_slice(rest);
    }
    window
}

/// One level more; `None`: there is no bit left for it.
#[inline(always)]
fn deeper(levels: u64, object: u64) -> Option<u64> {
    (levels >> 63 == 0).then_some(levels << 1 | object)
}

/// What follows a token that must come next, white space before it or not.
#[inline(always)]
fn token(rest: &[u8], token: u8) -> Option<&[u8]> {
    match rest.split_first()? {
        (first, behind) if *first == token => Some(behind),
        _ => later_token(rest, token),
    }
}

#[cold]
#[inline(never)]
fn later_token(rest: &[u8], token: u8) -> Option<&[u8]> {
    let (first, behind) = past_spaces(rest).split_first()?;
    (*first == token).then_some(behind)
}

/// What follows a list or an object that is empty; `None`: it is not.
#[inline(always)]
fn closed(rest: &[u8], close: u8) -> Option<&[u8]> {
    match rest.first()? {
        b'"' | b'{' => None,
        _ => later_token(rest, close),
    }
}

#[inline(always)]
fn past_space(rest: &[u8]) -> &[u8] {
    match rest.first() {
        Some(b' ' | b'\t' | b'\r' | b'\n') => past_spaces(rest),
        _ => rest,
    }
}

#[cold]
#[inline(never)]
fn past_spaces(mut rest: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\r' | b'\n', behind @ ..] = rest {
        rest = behind;
    }
    rest
}

/// The same behind a first byte that must be white space.
#[cold]
#[inline(never)]
fn past_one_space(byte: u8, rest: &[u8]) -> Option<&[u8]> {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n').then(|| past_spaces(rest))
}

/// What follows an escape, of which the first byte has gone by; `None` too when that was no backslash.
#[inline(always)]
fn escaped(first: u8, rest: &[u8]) -> Option<&[u8]> {
    let (kind, behind) = rest.split_first()?;
    if first != b'\\' {
        return None;
    }
    match kind {
        b'"' | b'n' => Some(behind),
        kind => rarely_escaped(*kind, behind),
    }
}

#[inline(never)]
fn rarely_escaped(kind: u8, rest: &[u8]) -> Option<&[u8]> {
    match kind {
        b'\\' | b'/' | b'b' | b'f' | b'r' | b't' => Some(rest),
        // Half a surrogate pair is as good as a whole one where nobody makes text of it.
        b'u' => {
            let (digits, behind) = rest.split_first_chunk::<4>()?;
            digits.iter().all(u8::is_ascii_hexdigit).then_some(behind)
        }
        _ => None,
    }
}

/// What follows a word or a number.
#[inline(never)]
fn scalar(first: u8, rest: &[u8]) -> Option<&[u8]> {
    match first {
        b't' => rest.strip_prefix(b"rue"),
        b'f' => rest.strip_prefix(b"alse"),
        b'n' => rest.strip_prefix(b"ull"),
        b'-' => {
            let (digit, behind) = rest.split_first()?;
            number(*digit, behind)
        }
        digit => number(digit, rest),
    }
}

fn number(first: u8, mut rest: &[u8]) -> Option<&[u8]> {
    rest = match first {
        // A digit behind a leading zero is nothing that may follow a value.
        b'0' => rest,
        b'1'..=b'9' => past_digits(rest),
        _ => return None,
    };
    if let [b'.', fraction @ ..] = rest {
        rest = digits(fraction)?;
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        rest = match exponent {
            [b'+' | b'-', exponent @ ..] | exponent => digits(exponent)?,
        };
    }
    Some(rest)
}

/// What follows one digit or more.
fn digits(rest: &[u8]) -> Option<&[u8]> {
    match rest {
        [b'0'..=b'9', behind @ ..] => Some(past_digits(behind)),
        _ => None,
    }
}

fn past_digits(mut rest: &[u8]) -> &[u8] {
    while let [b'0'..=b'9', behind @ ..] = rest {
        rest = behind;
    }
    rest
}
