//! Bytes of a socket, with a limit for each wait, and the framing of bodies.

use std::io::{self, Read};
use std::net::TcpStream;

use super::Head;
use crate::wait::Limit;

/// A head or line longer than this is an error, not a reason to go on reading.
const LONGEST_LINE: usize = 1024 * 1024;

/// How the end of a body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// So many bytes are left.
    Length(u64),
    /// Chunks; the inner number is what is left of the present one.
    Chunked(u64),
    /// Until the connection closes.
    UntilClose,
}

impl Framing {
    /// By RFC 9112 6.3, for an answer to a request of method `asked`.
    pub(super) fn of(head: &Head, asked: &str) -> io::Result<Self> {
        if asked == "HEAD" || head.status < 200 || matches!(head.status, 204 | 304) {
            return Ok(Self::Length(0));
        }
        if head.lists("transfer-encoding", "chunked") {
            return Ok(Self::Chunked(0));
        }
        match head.header("content-length") {
            Some(text) => match text.parse() {
                Ok(length) => Ok(Self::Length(length)),
                Err(_) => Err(broken(format!("Content-Length is no number: {text:?}"))),
            },
            None => Ok(Self::UntilClose),
        }
    }
}

pub(super) fn broken(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

pub(super) fn cut_off(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, format!("the connection closed within {what}"))
}

/// A socket and what was read from it but not used yet.
#[derive(Debug)]
pub(super) struct Buffered {
    pub(super) socket: TcpStream,
    unused: Vec<u8>,
}

impl Buffered {
    pub(super) fn new(socket: TcpStream) -> Self {
        Self { socket, unused: Vec::new() }
    }

    /// Reads once more. False: the peer has closed its side.
    fn fill(&mut self, what: &str, limit: Limit) -> io::Result<bool> {
        let mut piece = [0; 16 * 1024];
        self.socket.set_read_timeout(Some(limit.left_for(what)?))?;
        loop {
            match self.socket.read(&mut piece) {
                Ok(count) => {
                    self.unused.extend(piece.iter().take(count));
                    return Ok(count > 0);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, format!("gave up waiting for {what}")));
                }
                Err(e) => return Err(io::Error::new(e.kind(), format!("waiting for {what}: {e}"))),
            }
        }
    }

    /// Whatever comes next, at most `most` bytes; empty at the end of the connection.
    pub(super) fn some(&mut self, most: usize, what: &str, limit: Limit) -> io::Result<Vec<u8>> {
        if self.unused.is_empty() {
            self.fill(what, limit)?;
        }
        let rest = self.unused.split_off(most.min(self.unused.len()));
        Ok(std::mem::replace(&mut self.unused, rest))
    }

    /// Everything up to and without `end`.
    pub(super) fn until(&mut self, end: &[u8], what: &str, limit: Limit) -> io::Result<Vec<u8>> {
        let mut seen = 0;
        loop {
            let from = seen.min(self.unused.len());
            if let Some(at) = self.unused.get(from..).unwrap_or_default().windows(end.len()).position(|w| w == end) {
                let mut found = self.unused.drain(..from + at + end.len()).collect::<Vec<_>>();
                found.truncate(from + at);
                return Ok(found);
            }
            if self.unused.len() > LONGEST_LINE {
                return Err(broken(format!("{what} is longer than {LONGEST_LINE} bytes")));
            }
            seen = self.unused.len().saturating_sub(end.len() - 1);
            if !self.fill(what, limit)? {
                return Err(cut_off(what));
            }
        }
    }

    /// The next piece of a body, as it arrives; `None` at its proper end.
    pub(super) fn piece(&mut self, framing: &mut Framing, limit: Limit) -> io::Result<Option<Vec<u8>>> {
        const WHAT: &str = "the body";
        match framing {
            Framing::Length(0) => Ok(None),
            Framing::Length(left) => self.counted(left, limit).map(Some),
            Framing::UntilClose => {
                let piece = self.some(usize::MAX, WHAT, limit)?;
                Ok((!piece.is_empty()).then_some(piece))
            }
            Framing::Chunked(left) => {
                if *left == 0 {
                    let line = self.until(b"\r\n", "the size of a chunk", limit)?;
                    let size = String::from_utf8_lossy(&line);
                    let digits = size.split(';').next().unwrap_or_default().trim();
                    *left = u64::from_str_radix(digits, 16)
                        .map_err(|_| broken(format!("the size of a chunk is no hexadecimal number: {size:?}")))?;
                    if *left == 0 {
                        while !self.until(b"\r\n", "the end of the last chunk", limit)?.is_empty() {}
                        *framing = Framing::Length(0);
                        return Ok(None);
                    }
                }
                let piece = self.counted(left, limit)?;
                if *left == 0 && !self.until(b"\r\n", "the end of a chunk", limit)?.is_empty() {
                    return Err(broken("a chunk is longer than its size said".to_owned()));
                }
                Ok(Some(piece))
            }
        }
    }

    fn counted(&mut self, left: &mut u64, limit: Limit) -> io::Result<Vec<u8>> {
        let piece = self.some(usize::try_from(*left).unwrap_or(usize::MAX), "the body", limit)?;
        if piece.is_empty() {
            return Err(cut_off(&format!("the body, {left} bytes early")));
        }
        *left -= piece.len() as u64;
        Ok(piece)
    }
}
