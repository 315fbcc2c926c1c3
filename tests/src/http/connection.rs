//! One connection to a server: write, read, and look at every step.

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::wire::{Buffered, Framing, broken};
use super::{Answer, Head, Request, ServerSentEvent};
use crate::wait::Limit;

/// A connection. Each call that reads waits at most as long as was given when it was opened (or last set), then
/// fails with `TimedOut`; after that it can still be read on.
#[derive(Debug)]
pub struct Connection {
    wire: Buffered,
    host: String,
    allowed: Duration,
    asked: String,
    framing: Framing,
    events: Vec<u8>,
}

impl Connection {
    /// Connects to `address` (`host:port`).
    ///
    /// # Errors
    /// When the address is none, or nobody listens there within `allowed`.
    pub fn open(address: &str, allowed: Duration) -> io::Result<Self> {
        let mut last = io::Error::new(io::ErrorKind::InvalidInput, format!("{address:?} names no address"));
        for candidate in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&candidate, allowed) {
                Ok(socket) => {
                    socket.set_nodelay(true)?;
                    socket.set_write_timeout(Some(allowed))?;
                    return Ok(Self {
                        wire: Buffered::new(socket),
                        host: address.to_owned(),
                        allowed,
                        asked: String::new(),
                        framing: Framing::Length(0),
                        events: Vec::new(),
                    });
                }
                Err(e) => last = io::Error::new(e.kind(), format!("cannot connect to {candidate}: {e}")),
            }
        }
        Err(last)
    }

    /// Changes how long each of the next calls waits.
    pub fn set_allowed(&mut self, allowed: Duration) {
        self.allowed = allowed;
    }

    /// Writes a request.
    ///
    /// # Errors
    /// When the peer does not take it.
    pub fn send(&mut self, request: &Request) -> io::Result<()> {
        request.method().clone_into(&mut self.asked);
        let bytes = request.bytes(&self.host);
        self.send_raw(&bytes)
    }

    /// Writes any bytes: half a request, a broken one, two at once.
    ///
    /// # Errors
    /// When the peer does not take them.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.wire.socket.write_all(bytes)
    }

    /// Closes the writing side only: the peer sees the end of input and may still answer.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn close_writing(&mut self) -> io::Result<()> {
        self.wire.socket.shutdown(Shutdown::Write)
    }

    /// Reads a status line and headers; interim answers (100 to 199, but for 101) are passed over.
    ///
    /// # Errors
    /// When it does not come in time, is cut off or is no HTTP.
    pub fn head(&mut self) -> io::Result<Head> {
        let limit = Limit::after(self.allowed);
        loop {
            let head = self.any_head(limit)?;
            if !(100..200).contains(&head.status) || head.status == 101 {
                return Ok(head);
            }
        }
    }

    /// As [`Connection::head`], not passing over interim answers.
    ///
    /// # Errors
    /// As [`Connection::head`].
    pub fn interim_or_head(&mut self) -> io::Result<Head> {
        self.any_head(Limit::after(self.allowed))
    }

    fn any_head(&mut self, limit: Limit) -> io::Result<Head> {
        let raw = self.wire.until(b"\r\n\r\n", "the head of an answer", limit)?;
        let head = parse_head(&String::from_utf8_lossy(&raw))?;
        self.framing = Framing::of(&head, &self.asked)?;
        self.events.clear();
        Ok(head)
    }

    /// The next piece of the body as soon as some of it arrives, without chunk framing; `None` at its proper end.
    ///
    /// # Errors
    /// `TimedOut` when nothing comes, `UnexpectedEof` when the body is cut off.
    pub fn piece(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.wire.piece(&mut self.framing, Limit::after(self.allowed))
    }

    /// The rest of the body, within one limit for all of it.
    ///
    /// # Errors
    /// As [`Connection::piece`].
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        let limit = Limit::after(self.allowed);
        let mut body = std::mem::take(&mut self.events);
        while let Some(piece) = self.wire.piece(&mut self.framing, limit)? {
            body.extend(piece);
        }
        Ok(body)
    }

    /// The whole of the next answer.
    ///
    /// # Errors
    /// As [`Connection::head`] and [`Connection::rest`].
    pub fn answer(&mut self) -> io::Result<Answer> {
        let head = self.head()?;
        Ok(Answer { head, body: self.rest()? })
    }

    /// The next event of a `text/event-stream` body; `None` at its proper end. Comments are passed over. An event
    /// without its closing empty line is none, as the standard has it: the bytes are then left to
    /// [`Connection::rest`].
    ///
    /// # Errors
    /// As [`Connection::piece`].
    pub fn event(&mut self) -> io::Result<Option<ServerSentEvent>> {
        let limit = Limit::after(self.allowed);
        loop {
            if let Some(block) = take_block(&mut self.events) {
                match ServerSentEvent::parse(&String::from_utf8_lossy(&block)) {
                    Some(event) => return Ok(Some(event)),
                    None => continue,
                }
            }
            match self.wire.piece(&mut self.framing, limit)? {
                Some(piece) => self.events.extend(piece),
                None => return Ok(None),
            }
        }
    }

    /// Whatever bytes come next, framing and all; empty when the peer has closed.
    ///
    /// # Errors
    /// `TimedOut` when nothing comes.
    pub fn raw(&mut self) -> io::Result<Vec<u8>> {
        self.wire.some(usize::MAX, "any bytes", Limit::after(self.allowed))
    }

    /// All bytes until the peer closes.
    ///
    /// # Errors
    /// `TimedOut` when it does not close.
    pub fn raw_to_end(&mut self) -> io::Result<Vec<u8>> {
        let limit = Limit::after(self.allowed);
        let mut all = Vec::new();
        loop {
            let piece = self.wire.some(usize::MAX, "the connection to close", limit)?;
            if piece.is_empty() {
                return Ok(all);
            }
            all.extend(piece);
        }
    }
}

fn parse_head(text: &str) -> io::Result<Head> {
    let (first, lines) = text.split_once("\r\n").unwrap_or((text, ""));
    let mut words = first.splitn(3, ' ');
    let version = words.next().unwrap_or_default();
    let status = words.next().and_then(|word| word.parse().ok());
    let (true, Some(status)) = (matches!(version, "HTTP/1.1" | "HTTP/1.0"), status) else {
        return Err(broken(format!("this is no status line: {first:?}")));
    };
    let mut headers = Vec::new();
    for line in lines.split("\r\n").filter(|line| !line.is_empty()) {
        match line.split_once(':') {
            Some((name, value)) => headers.push((name.to_owned(), value.trim().to_owned())),
            None => return Err(broken(format!("this is no header: {line:?}"))),
        }
    }
    Ok(Head { status, reason: words.next().unwrap_or_default().to_owned(), headers })
}

/// Takes the first block that an empty line ends, whichever way its lines end.
fn take_block(events: &mut Vec<u8>) -> Option<Vec<u8>> {
    let ends = [&b"\n\n"[..], b"\r\n\r\n", b"\r\r"];
    let first = |end: &&[u8]| events.windows(end.len()).position(|w| w == *end).map(|at| (at, end.len()));
    let (at, length) = ends.iter().filter_map(first).min()?;
    let mut block: Vec<u8> = events.drain(..at + length).collect();
    block.truncate(at);
    Some(block)
}
