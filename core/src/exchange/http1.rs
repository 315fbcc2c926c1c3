//! HTTP/1.1 as it is spoken with a replica: a request's head into bytes, an answer's head and pieces of its body out of
//! them (RFC 9112). Bytes in, bytes out; who reads and writes them, and for how long, is the shell's.

use core::fmt;

use bytes::{Buf, Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::{Method, Request, Response, StatusCode, Version};

use super::chunked::Chunked;
use crate::defects::{Defect, has};
use crate::limits;

/// What a replica sent that is no answer, and what an answer would have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(&'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the answer is no HTTP/1.1: {}", self.0)
    }
}

impl core::error::Error for Malformed {}

/// Writes a request's head behind what is in `to`. `chunked`: its body has no stated length and goes in chunks. The URI
/// is in the form that goes on the line; `Host` is among the headers.
pub fn write_head<B>(request: &Request<B>, chunked: bool, to: &mut Vec<u8>) {
    to.extend_from_slice(request.method().as_str().as_bytes());
    to.push(b' ');
    to.extend_from_slice(request.uri().path_and_query().map_or("/", |target| target.as_str()).as_bytes());
    to.extend_from_slice(b" HTTP/1.1\r\n");
    for (name, value) in request.headers() {
        line(name, value, to);
    }
    if chunked {
        line(&TRANSFER_ENCODING, &HeaderValue::from_static("chunked"), to);
    }
    to.extend_from_slice(b"\r\n");
}

#[inline]
pub(super) fn line(name: &HeaderName, value: &HeaderValue, to: &mut Vec<u8>) {
    to.extend_from_slice(name.as_str().as_bytes());
    to.extend_from_slice(b": ");
    to.extend_from_slice(value.as_bytes());
    to.extend_from_slice(b"\r\n");
}

/// The line before a chunk of so many bytes. What follows a chunk is [`CHUNK_END`].
#[must_use]
pub fn chunk_line(bytes: usize) -> Bytes {
    format!("{bytes:x}\r\n").into()
}

/// What follows a chunk.
pub const CHUNK_END: Bytes = Bytes::from_static(b"\r\n");
/// What follows the last chunk.
pub const LAST_CHUNK: Bytes = Bytes::from_static(b"0\r\n\r\n");

/// Reads the head of one answer.
#[derive(Debug, Default)]
pub struct HeadReader {
    /// Bytes in which no end was found.
    searched: usize,
    interim: usize,
}

impl HeadReader {
    /// Takes the head out of `bytes` once all of it is there; interim answers (100 to 199 but 101) before it are passed
    /// over. `method`: of the request.
    ///
    /// # Errors
    /// [`Malformed`]: no head, or one whose end or whose body's end two readers could see at different places: both
    /// `Content-Length` and `Transfer-Encoding`, lengths that differ, codings that are not `chunked` (RFC 9112, 6.3).
    pub fn take(&mut self, bytes: &mut BytesMut, method: &Method) -> Result<Option<(Response<()>, Framed)>, Malformed> {
        loop {
            if self.searched == 0 {
                let lead = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
                bytes.advance(lead);
            }
            let Some(end) = end_of_head(bytes, self.searched) else {
                // An end may begin in the last bytes.
                self.searched = bytes.len().saturating_sub(2);
                return match bytes.len() > limits::REPLY_HEAD_BYTES {
                    true => Err(Malformed("its head is too long")),
                    // What is something else may never have an end.
                    false if !bytes.iter().zip(b"HTTP/1.").all(|(found, wanted)| found == wanted) => {
                        Err(Malformed("it does not begin with HTTP/1"))
                    }
                    false => Ok(None),
                };
            };
            self.searched = 0;
            let head = parse(bytes.split_to(end).freeze())?;
            let status = head.status();
            if status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS {
                self.interim += 1;
                if self.interim > limits::INTERIM_ANSWERS {
                    return Err(Malformed("interim answers without end"));
                }
                continue;
            }
            let framed = Framed::of(&head, method)?;
            return Ok(Some((head, framed)));
        }
    }
}

/// Where the empty line ends.
fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += bytes.get(at..)?.iter().position(|byte| *byte == b'\n')? + 1;
        match bytes.get(at..)? {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
}

fn parse(head: Bytes) -> Result<Response<()>, Malformed> {
    let mut lines = [const { core::mem::MaybeUninit::uninit() }; limits::REPLY_HEAD_LINES];
    let mut read = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut read, &head, &mut lines);
    match parsed {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Err(Malformed("its head has no end")),
        Err(httparse::Error::TooManyHeaders) => return Err(Malformed("its head has too many lines")),
        Err(httparse::Error::Version) => return Err(Malformed("its version is neither HTTP/1.1 nor HTTP/1.0")),
        Err(httparse::Error::Status) => return Err(Malformed("its status line is broken")),
        Err(_) => return Err(Malformed("a header line is broken")),
    }
    let mut headers = HeaderMap::with_capacity(read.headers.len());
    for line in read.headers.iter() {
        let name = HeaderName::from_bytes(line.name.as_bytes());
        let value = HeaderValue::from_maybe_shared(head.slice_ref(line.value));
        let (Ok(name), Ok(value)) = (name, value) else { return Err(Malformed("a header line is broken")) };
        if headers.try_append(name, value).is_err() {
            return Err(Malformed("its head has too many lines"));
        }
    }
    let mut response = Response::new(());
    *response.status_mut() = read
        .code
        .and_then(|code| StatusCode::from_u16(code).ok())
        .ok_or(Malformed("its status is no number from 100 to 999"))?;
    *response.version_mut() = if read.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    *response.headers_mut() = headers;
    Ok(response)
}

/// How an answer's body is framed, and how much of it has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framed {
    body: Ends,
    keeps: bool,
    /// Bytes of no piece since the last one.
    between: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// After so many bytes.
    After(u64),
    Chunks(Chunked),
    /// With the connection.
    WithConnection,
}

impl Framed {
    /// RFC 9112, 6.3.
    fn of(head: &Response<()>, method: &Method) -> Result<Self, Malformed> {
        let (status, headers, version) = (head.status(), head.headers(), head.version());
        let bodiless = *method == Method::HEAD
            || status.is_informational()
            || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let length = stated_length(headers)?;
        let codings = headers.contains_key(TRANSFER_ENCODING);
        let body = match (bodiless, codings, length) {
            (true, ..) => Ends::After(0),
            (_, true, Some(_)) if !has(Defect::TwoEndsTaken) => {
                return Err(Malformed("it states both a length and a transfer coding"));
            }
            (_, true, _) if version == Version::HTTP_10 => {
                return Err(Malformed("HTTP/1.0 has no transfer codings"));
            }
            (_, true, _) => {
                let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
                match (codings.next(), codings.next()) {
                    (Some(coding), None) if coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") => {
                        Ends::Chunks(Chunked::default())
                    }
                    _ => return Err(Malformed("its transfer coding is not `chunked`")),
                }
            }
            (_, false, Some(length)) => Ends::After(length),
            (_, false, None) => Ends::WithConnection,
        };
        let said = |what: &str| connection_says(headers, what);
        let keeps = match version {
            Version::HTTP_10 => said("keep-alive"),
            _ => !said("close"),
        };
        let keeps = keeps && body != Ends::WithConnection && status != StatusCode::SWITCHING_PROTOCOLS;
        Ok(Self { body, keeps, between: 0 })
    }

    /// Whether all of the body has been read.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.body, Ends::After(0))
    }

    /// Whether the connection may serve again.
    #[must_use]
    pub const fn keeps(&self) -> bool {
        self.keeps
    }

    /// Bytes that are left, when they are known.
    #[must_use]
    pub const fn left(&self) -> Option<u64> {
        match self.body {
            Ends::After(left) => Some(left),
            _ => None,
        }
    }

    /// Takes the next piece of the body out of `bytes`, none copied; `None` needs more bytes, unless it is over.
    ///
    /// # Errors
    /// [`Malformed`]: chunks that are none.
    pub fn take(&mut self, bytes: &mut BytesMut) -> Result<Option<Bytes>, Malformed> {
        let Self { body, between, .. } = self;
        match body {
            Ends::WithConnection if bytes.is_empty() => Ok(None),
            Ends::WithConnection => Ok(Some(bytes.split().freeze())),
            Ends::After(left) => {
                let most = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= most as u64;
                Ok((most > 0).then(|| bytes.split_to(most).freeze()))
            }
            Ends::Chunks(chunked) => {
                while !bytes.is_empty() {
                    let data = chunked.in_data();
                    let Some((taken, over)) = chunked.see(bytes) else {
                        return Err(Malformed("a chunk of its body is broken"));
                    };
                    if data {
                        *between = 0;
                        return Ok(Some(bytes.split_to(taken).freeze()));
                    }
                    bytes.advance(taken);
                    if over {
                        *body = Ends::After(0);
                        return Ok(None);
                    }
                    *between += taken;
                    if *between > limits::BETWEEN_CHUNKS_BYTES {
                        return Err(Malformed("extensions or trailers without end"));
                    }
                }
                Ok(None)
            }
        }
    }

    /// The connection has ended. Whether the body is whole.
    pub const fn ended(&mut self) -> bool {
        if matches!(self.body, Ends::WithConnection) {
            self.body = Ends::After(0);
        }
        self.is_over()
    }
}

fn stated_length(headers: &HeaderMap) -> Result<Option<u64>, Malformed> {
    const WRONG: Malformed = Malformed("its length is not one number");
    let mut found = None;
    for value in headers.get_all(CONTENT_LENGTH) {
        for text in value.to_str().map_err(|_| WRONG)?.split(',') {
            let text = text.trim();
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let length: u64 = if digits { text.parse().map_err(|_| WRONG)? } else { return Err(WRONG) };
            if found.replace(length).is_some_and(|before| before != length) {
                return Err(WRONG);
            }
        }
    }
    Ok(found)
}

fn connection_says(headers: &HeaderMap, what: &str) -> bool {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|option| option.trim().eq_ignore_ascii_case(what))
}

#[cfg(test)]
#[path = "http1_tests.rs"]
mod tests;
