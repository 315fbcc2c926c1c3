//! Where one request ends and the next begins, judged over the bytes of a connection before an HTTP library reads them:
//! such a library settles silently what two readers may understand differently (data-plane 9; trap S7).
//!
//! Bodies are counted, not looked at. What a library refuses by itself is refused here first, so that every refusal has
//! a shape, a log line and a count.

use http::{HeaderMap, Method, StatusCode, Uri};

use super::answer::Answer;
use super::chunked::Chunked;
use super::denial::{Code, Denial};
use super::length_lines::{Framed, LengthLines, Line};
use crate::defects::{Defect, has};
use crate::limits;
use crate::seed::Draws;
use crate::time::Moment;

/// The framing of one connection's requests. Holds no more than a few hundred bytes, whatever comes.
#[derive(Debug)]
pub struct Framing {
    max_head: u64,
    state: State,
    /// Bytes of the head so far.
    head: u64,
    headers: usize,
    lead: Lead,
    lines: LengthLines,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No byte of a head yet.
    Between,
    Method,
    Target,
    /// So many bytes of the version have come.
    Version(usize),
    /// At the first byte of a header line.
    LineStart,
    Name,
    Value,
    /// After the CR of a header line, or of the request line.
    LineEnd,
    /// After the CR of the empty line.
    HeadEnd,
    /// So many bytes of body are left.
    Length(u64),
    Chunked(Chunked),
    /// What comes is no HTTP any more, or was refused.
    Off,
}

/// What may not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// How many of the bytes given last belong to what was good.
    pub passes: usize,
    /// The head at fault; `None`: a chunk of a body, of which the library tells itself.
    pub head: Option<BadHead>,
}

/// A head that is refused, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadHead {
    method: Method,
    uri: Uri,
    denial: Denial,
}

impl BadHead {
    /// The refusal, in the shape of the path.
    #[must_use]
    pub fn answer(&self, now: Moment, draws: &mut Draws) -> Box<Answer> {
        Answer::early(&self.method, &self.uri, &HeaderMap::new(), &self.denial, now, draws)
    }
}

const REQUEST_LINE: &str = "The request line is malformed. Send method, target and HTTP version.";
const VERSIONS: [&[u8]; 2] = [b"HTTP/1.1", b"HTTP/1.0"];

impl Framing {
    /// A connection that begins. `max_head`: bytes of one head at most (`server.max_header_size`).
    #[must_use]
    pub fn new(max_head: u64) -> Self {
        let (lead, lines) = (Lead::default(), LengthLines::default());
        Self { max_head, state: State::Between, head: 0, headers: 0, lead, lines }
    }

    /// Whether a head has begun and is not whole.
    #[must_use]
    pub const fn in_head(&self) -> bool {
        !matches!(self.state, State::Between | State::Length(_) | State::Chunked(_) | State::Off)
    }

    /// Whether a body has begun and is not whole.
    #[must_use]
    pub const fn in_body(&self) -> bool {
        matches!(self.state, State::Length(_) | State::Chunked(_))
    }

    /// The connection has become something else: nothing is judged any more.
    pub const fn upgraded(&mut self) {
        self.state = State::Off;
    }

    /// Looks at the next bytes of the connection.
    ///
    /// # Errors
    /// What must go no further; nothing that follows is judged.
    pub fn see(&mut self, bytes: &[u8]) -> Result<(), Box<Fault>> {
        if has(Defect::HeadsUnjudged) {
            return Ok(());
        }
        let mut at = 0;
        // Where the head began, in these bytes.
        let mut began = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let before = self.state;
            let taken = match self.step(rest) {
                Ok(taken) => taken,
                Err(Wrong::Head(denial)) => {
                    self.state = State::Off;
                    let passes = if before == State::Between { at } else { began };
                    return Err(Box::new(Fault { passes, head: Some(self.lead.head(denial)) }));
                }
                Err(Wrong::Body) => {
                    self.state = State::Off;
                    return Err(Box::new(Fault { passes: bytes.len(), head: None }));
                }
            };
            if before == State::Between {
                began = at;
            }
            at += taken;
        }
        Ok(())
    }

    /// Takes in some of `rest`; how many. None only when the state changes.
    fn step(&mut self, rest: &[u8]) -> Result<usize, Wrong> {
        let (taken, next) = match self.state {
            State::Off => (rest.len(), State::Off),
            State::Length(left) => {
                let taken = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                (taken, after_body(left.saturating_sub(taken as u64)))
            }
            State::Chunked(mut chunked) => match chunked.see(rest) {
                None => return Err(Wrong::Body),
                Some((taken, true)) => (taken, State::Between),
                Some((taken, false)) => (taken, State::Chunked(chunked)),
            },
            _ => self.step_in_head(rest)?,
        };
        self.state = next;
        Ok(taken)
    }

    fn step_in_head(&mut self, rest: &[u8]) -> Result<(usize, State), Wrong> {
        let Some(&byte) = rest.first() else { return Ok((0, self.state)) };
        let (taken, next) = match self.state {
            // Empty lines before a request are passed over (RFC 9112, 2.2).
            State::Between if matches!(byte, b'\r' | b'\n') => (1, State::Between),
            State::Between => {
                // What stands in the lead beyond its length is never read.
                self.lead.len = 0;
                (self.lines, self.headers) = (LengthLines::default(), 0);
                self.method(rest)?
            }
            State::Method => self.method(rest)?,
            State::Target => {
                let run = run_of(rest, |byte| byte > b' ' && byte != 0x7f);
                self.lead.see(rest.get(..run).unwrap_or_default());
                match rest.get(run) {
                    None => (run, State::Target),
                    Some(b' ') if self.lead.has_target() => (run + 1, State::Version(0)),
                    Some(_) => return Err(bad(REQUEST_LINE)),
                }
            }
            State::Version(place) => {
                let fits = VERSIONS.iter().any(|version| version.get(place) == Some(&byte));
                match (fits, place) {
                    (true, 7) => {
                        self.lines.old_version = byte == b'0';
                        (1, State::Version(8))
                    }
                    (true, _) => (1, State::Version(place + 1)),
                    (false, 8) if byte == b'\r' => (1, State::LineEnd),
                    _ => return Err(bad("The request line is malformed, or its HTTP version is not 1.1 or 1.0.")),
                }
            }
            State::LineStart => match byte {
                b'\r' => (1, State::HeadEnd),
                b' ' | b'\t' => return Err(bad("A header line is folded. Send each header on one line.")),
                _ => {
                    self.headers += 1;
                    if self.headers > limits::HEAD_LINES {
                        return Err(too_large(format!(
                            "The request has more than {} header lines.",
                            limits::HEAD_LINES
                        )));
                    }
                    self.lines.begin();
                    (0, State::Name)
                }
            },
            State::Name => {
                let run = run_of(rest, is_token);
                self.lines.name(rest.get(..run).unwrap_or_default());
                match rest.get(run) {
                    None => (run, State::Name),
                    Some(b':') if self.lines.named() => (run + 1, State::Value),
                    Some(_) => {
                        return Err(bad(
                            "A header name is malformed. Send `name: value`, with no space before the colon.",
                        ));
                    }
                }
            }
            State::Value => {
                let run = run_of(rest, |byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f));
                self.lines.value(rest.get(..run).unwrap_or_default());
                match rest.get(run) {
                    None => (run, State::Value),
                    Some(b'\r') => {
                        self.lines.end().map_err(wrong_line)?;
                        (run + 1, State::LineEnd)
                    }
                    Some(_) => {
                        return Err(bad(
                            "A header value holds a control character, or a line does not end with CR LF.",
                        ));
                    }
                }
            }
            State::LineEnd if byte == b'\n' => (1, State::LineStart),
            State::HeadEnd if byte == b'\n' => return Ok((1, self.body()?)),
            _ => return Err(bad("A line of the request's head does not end with CR LF.")),
        };
        self.count(taken)?;
        Ok((taken, next))
    }

    fn count(&mut self, taken: usize) -> Result<(), Wrong> {
        self.head = self.head.saturating_add(taken as u64);
        if self.head > self.max_head {
            return Err(too_large(format!("The request's head is larger than {} bytes.", self.max_head)));
        }
        Ok(())
    }

    fn method(&mut self, rest: &[u8]) -> Result<(usize, State), Wrong> {
        let run = run_of(rest, is_token);
        let (taken, next) = match rest.get(run) {
            None => (run, State::Method),
            Some(b' ') if run > 0 || self.state == State::Method => (run + 1, State::Target),
            Some(_) => return Err(bad(REQUEST_LINE)),
        };
        self.lead.see(rest.get(..taken).unwrap_or_default());
        Ok((taken, next))
    }

    fn body(&mut self) -> Result<State, Wrong> {
        self.head = 0;
        match self.lines.framed() {
            Ok(Framed::Length(length)) => Ok(after_body(length)),
            Ok(Framed::Chunked) => Ok(State::Chunked(Chunked::default())),
            Err(line) => Err(wrong_line(line)),
        }
    }
}

const fn after_body(left: u64) -> State {
    if left == 0 { State::Between } else { State::Length(left) }
}

fn run_of(bytes: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|byte| !belongs(*byte)).unwrap_or(bytes.len())
}

const fn is_token(byte: u8) -> bool {
    TOKEN[byte as usize]
}

/// Each byte of a name is looked up, not compared.
const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while byte < u8::MAX {
        table[byte as usize] = belongs_in_token(byte);
        byte += 1;
    }
    table
};

/// RFC 9110, 5.6.2.
const fn belongs_in_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
        )
}

enum Wrong {
    Head(Denial),
    Body,
}

fn bad(problem: &'static str) -> Wrong {
    Wrong::Head(Denial::new(Code::InvalidRequest, problem))
}

fn too_large(problem: String) -> Wrong {
    let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    Wrong::Head(Denial::with_status(Code::InvalidRequest, status, format!("{problem} Send fewer or shorter headers.")))
}

fn wrong_line(line: Line) -> Wrong {
    Wrong::Head(match line {
        Line::Both => Denial::new(
            Code::InvalidRequest,
            "The request has both Content-Length and Transfer-Encoding. Send one of them.",
        ),
        Line::Length => Denial::new(
            Code::InvalidRequest,
            "Content-Length is no whole number, or two of its lines differ. Send one.",
        ),
        Line::Coding => Denial::new(
            Code::InvalidRequest,
            "Transfer-Encoding is not understood, or does not end with one `chunked`. Send `chunked`, or Content-Length.",
        ),
        Line::OldVersion => Denial::new(
            Code::InvalidRequest,
            "HTTP/1.0 has no Transfer-Encoding. Send Content-Length, or use HTTP/1.1.",
        ),
        Line::Packed => Denial::new(
            Code::NotSupported,
            "This server takes no transfer coding but `chunked`. Name a packed body's coding in Content-Encoding.",
        ),
    })
}

/// The beginning of a request line: enough to know whose shape a refusal has, and to log it.
#[derive(Debug, Clone, Copy)]
struct Lead {
    bytes: [u8; limits::LEAD_BYTES],
    len: usize,
}

impl Default for Lead {
    fn default() -> Self {
        Self { bytes: [0; limits::LEAD_BYTES], len: 0 }
    }
}

impl Lead {
    fn has_target(&self) -> bool {
        self.bytes.get(..self.len).is_some_and(|line| line.last() != Some(&b' '))
    }

    fn see(&mut self, run: &[u8]) {
        let room = self.bytes.get_mut(self.len..).unwrap_or_default();
        let fits = room.len().min(run.len());
        if let (Some(room), Some(run)) = (room.get_mut(..fits), run.get(..fits)) {
            room.copy_from_slice(run);
            self.len += fits;
        }
    }

    fn head(&self, denial: Denial) -> BadHead {
        let line = self.bytes.get(..self.len).unwrap_or_default();
        let mut parts = line.split(|byte| !(0x21..=0x7e).contains(byte));
        let method = parts.next().and_then(|method| Method::from_bytes(method).ok()).unwrap_or_default();
        let uri = parts.next().and_then(|target| Uri::try_from(target).ok()).unwrap_or_default();
        BadHead { method, uri, denial }
    }
}

#[cfg(test)]
#[path = "framing_tests.rs"]
mod tests;
