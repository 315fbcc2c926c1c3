//! Finds the `model` part of a `multipart/form-data` body (data-plane 3, audio and image paths).
//!
//! Read strictly (line ends are CRLF, the closing delimiter is there), because a body that two readers cut up differently
//! could pass the gate under one model and be served under another.

use core::ops::Range;
use std::borrow::Cow;

use super::denial::{Code, Denial};
use super::peek::{Peek, Spelling, invalid_model};
use crate::defects::{Defect, has};
use crate::limits::{MULTIPART_BOUNDARY_BYTES, MULTIPART_PARTS};

/// The boundary when `content_type` is `multipart/form-data`; `None` for every other type.
///
/// # Errors
/// 400 `invalid_request` when the type is right and its boundary cannot be read.
pub fn boundary(content_type: &[u8]) -> Result<Option<String>, Denial> {
    let mut parts = content_type.split(|byte| *byte == b';');
    if !parts.next().is_some_and(|kind| kind.trim_ascii().eq_ignore_ascii_case(b"multipart/form-data")) {
        return Ok(None);
    }
    let text = core::str::from_utf8(content_type).map_err(|_| bad("its content-type is not ASCII"))?;
    let found = parameter(text, "boundary").filter(|boundary| {
        (1..=MULTIPART_BOUNDARY_BYTES).contains(&boundary.len())
            && boundary.bytes().all(|byte| (b' '..=b'~').contains(&byte))
    });
    found.map(Some).ok_or_else(|| bad("its content-type has no usable boundary"))
}

/// Looks for the one `model` part.
///
/// # Errors
/// 400 `missing_model`, `invalid_model`, or `invalid_request` for a body that is cut off or has two such parts.
pub fn peek<'a>(body: &'a [u8], boundary: &str) -> Result<Peek<'a>, Denial> {
    let peek = peek_or_fill(body, boundary)?;
    if peek.spelling == Spelling::Part {
        return Err(Denial::new(Code::MissingModel, "The form has no `model` part. Name the model to use."));
    }
    if peek.model.is_empty() {
        return Err(invalid_model());
    }
    Ok(peek)
}

/// The same where every name will do: a missing part or an empty one is an empty name, to be filled in at its place.
///
/// # Errors
/// 400 `invalid_model` (a `model` that is no text), or `invalid_request` for a body that is cut off or has two such parts.
pub fn peek_or_fill<'a>(body: &'a [u8], boundary: &str) -> Result<Peek<'a>, Denial> {
    let mut found: Option<Range<usize>> = None;
    for part in Parts::of(body, boundary)? {
        let part = part?;
        if !part.is_model {
            continue;
        }
        if part.is_file {
            return Err(invalid_model());
        }
        if found.is_some() && has(Defect::SecondModelPartIgnored) {
            continue;
        }
        if found.replace(part.content).is_some() {
            return Err(bad("it has two `model` parts"));
        }
    }
    let Some(span) = found else {
        // Before the first delimiter, which has been found to be there.
        let opening = format!("--{boundary}").into_bytes();
        let start = if body.starts_with(&opening) {
            0
        } else {
            let delimiter = [b"\r\n", opening.as_slice()].concat();
            find(body, 0, &delimiter).ok_or_else(|| bad("its boundary does not appear in it"))? + 2
        };
        return Ok(Peek { model: Cow::Borrowed(""), span: start..start, spelling: Spelling::Part, stream: false });
    };
    let model = body.get(span.clone()).and_then(|bytes| core::str::from_utf8(bytes).ok()).ok_or_else(invalid_model)?;
    Ok(Peek { model: Cow::Borrowed(model), span, spelling: Spelling::Plain, stream: false })
}

/// A part that names the model.
pub(super) fn model_part(boundary: &str, name: &str) -> String {
    format!("--{boundary}\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n{name}\r\n")
}

fn bad(problem: &str) -> Denial {
    Denial::new(Code::InvalidRequest, format!("The multipart body cannot be read: {problem}."))
}

struct Part {
    content: Range<usize>,
    is_model: bool,
    is_file: bool,
}

/// The parts of a body, in order.
struct Parts<'a> {
    body: &'a [u8],
    /// `CRLF--boundary`.
    delimiter: Vec<u8>,
    /// Just behind the last delimiter; `None` once the closing one was seen.
    at: Option<usize>,
    seen: usize,
}

impl<'a> Parts<'a> {
    fn of(body: &'a [u8], boundary: &str) -> Result<Self, Denial> {
        let delimiter = format!("\r\n--{boundary}").into_bytes();
        // The first delimiter may open the body, without a line end before it.
        let opening = delimiter.get(2..).unwrap_or_default();
        let at = if body.starts_with(opening) {
            opening.len()
        } else {
            find(body, 0, &delimiter).ok_or_else(|| bad("its boundary does not appear in it"))? + delimiter.len()
        };
        Ok(Self { body, delimiter, at: Some(at), seen: 0 })
    }

    fn read(&mut self, at: usize) -> Result<Option<Part>, Denial> {
        let rest = self.body.get(at..).unwrap_or_default();
        if rest.starts_with(b"--") {
            return Ok(None);
        }
        let padding = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let head_at = at + padding;
        if !self.body.get(head_at..).unwrap_or_default().starts_with(b"\r\n") {
            return Err(bad("a boundary line does not end where it should"));
        }
        self.seen += 1;
        if self.seen > MULTIPART_PARTS {
            return Err(bad("it has too many parts"));
        }
        let blank = find(self.body, head_at, b"\r\n\r\n").ok_or_else(|| bad("a part's headers do not end"))?;
        let content_at = blank + 4;
        let end = find(self.body, head_at, &self.delimiter).ok_or_else(|| bad("it ends before its last part"))?;
        // The blank line's own line end may be the one before the delimiter: an empty part.
        if end + 2 < content_at {
            return Err(bad("a part's headers do not end"));
        }
        let head = self.body.get(head_at + 2..blank.max(head_at + 2)).unwrap_or_default();
        let (is_model, is_file) = disposition(head);
        self.at = Some(end + self.delimiter.len());
        Ok(Some(Part { content: content_at..end.max(content_at), is_model, is_file }))
    }
}

impl Iterator for Parts<'_> {
    type Item = Result<Part, Denial>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at.take()?;
        self.read(at).transpose()
    }
}

/// Whether a part's headers name it `model`, and whether they call it a file.
fn disposition(head: &[u8]) -> (bool, bool) {
    let text = String::from_utf8_lossy(head);
    let mut model = false;
    let mut file = false;
    for line in text.split("\r\n") {
        let Some((name, value)) = line.split_once(':') else { continue };
        if name.trim().eq_ignore_ascii_case("content-disposition") {
            model |= parameter(value, "name").is_some_and(|name| name == "model");
            file |= parameter(value, "filename").is_some() || parameter(value, "filename*").is_some();
        }
    }
    (model, file)
}

/// The value of `; wanted=value` or `; wanted="value"`, in any case of the name.
fn parameter(header: &str, wanted: &str) -> Option<String> {
    let mut rest = header.split_once(';')?.1;
    loop {
        let (name, after) = rest.split_once('=')?;
        let name = name.trim_matches([' ', '\t', ';']);
        let after = after.trim_start_matches([' ', '\t']);
        let (value, tail) = match after.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let end = after.find(';').unwrap_or(after.len());
                let (value, tail) = after.split_at(end);
                (value.trim_end_matches([' ', '\t']).to_owned(), tail)
            }
        };
        if name.eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = tail.split_once(';')?.1;
    }
}

/// Reads up to the closing quote; `None` when there is none.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, quoted.get(at + 1..)?)),
            '\\' => value.push(letters.next()?.1),
            _ => value.push(letter),
        }
    }
    None
}

/// Where `wanted` first stands at or after `from`.
fn find(body: &[u8], from: usize, wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut at = from;
    loop {
        let rest = body.get(at..)?;
        at += rest.iter().position(|byte| *byte == first)?;
        if body.get(at..)?.starts_with(wanted) {
            return Some(at);
        }
        at += 1;
    }
}

#[cfg(test)]
#[path = "multipart_tests.rs"]
mod tests;
