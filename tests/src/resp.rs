//! The little of Redis's protocol the tests need: commands, publishing and listening on a channel.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::wait::Limit;

/// One reply of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A status such as `OK`.
    Status(String),
    /// An integer.
    Number(i64),
    /// A string of bytes.
    Bytes(Vec<u8>),
    /// Nothing.
    Nil,
    /// A list of replies.
    List(Vec<Self>),
}

/// A connection to a Redis server.
#[derive(Debug)]
pub struct Client(BufReader<TcpStream>);

impl Client {
    /// Connects; each single read or write may take `allowed`.
    ///
    /// # Errors
    /// When nobody listens.
    pub fn open(address: SocketAddr, allowed: Duration) -> io::Result<Self> {
        let socket = TcpStream::connect_timeout(&address, allowed)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(allowed))?;
        socket.set_write_timeout(Some(allowed))?;
        Ok(Self(BufReader::new(socket)))
    }

    /// Sends one command and reads its reply.
    ///
    /// # Errors
    /// When the connection fails, or the server refuses: its text is the message.
    pub fn command(&mut self, words: &[&[u8]]) -> io::Result<Reply> {
        self.send(words)?;
        self.reply()
    }

    fn send(&mut self, words: &[&[u8]]) -> io::Result<()> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend(format!("${}\r\n", word.len()).into_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        self.0.get_mut().write_all(&bytes)
    }

    fn reply(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let Some(line) = line.strip_suffix("\r\n") else {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "redis closed the connection"));
        };
        let (kind, text) = line.split_at_checked(1).unwrap_or(("", line));
        let number = || text.parse::<i64>().map_err(|_| unknown(line));
        match kind {
            "+" => Ok(Reply::Status(text.to_owned())),
            "-" => Err(io::Error::other(text.to_owned())),
            ":" => Ok(Reply::Number(number()?)),
            "$" | "*" => match (kind, usize::try_from(number()?)) {
                (_, Err(_)) => Ok(Reply::Nil),
                ("*", Ok(count)) => (0..count).map(|_| self.reply()).collect::<io::Result<_>>().map(Reply::List),
                (_, Ok(length)) => {
                    let mut bytes = vec![0; length + 2];
                    self.0.read_exact(&mut bytes)?;
                    bytes.truncate(length);
                    Ok(Reply::Bytes(bytes))
                }
            },
            _ => Err(unknown(line)),
        }
    }
}

fn unknown(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("this is no reply of redis: {line:?}"))
}

/// A connection which listens on one channel.
#[derive(Debug)]
pub struct Subscription(Client);

impl Subscription {
    pub(crate) fn start(mut client: Client, channel: &str) -> io::Result<Self> {
        client.command(&[b"SUBSCRIBE", channel.as_bytes()])?;
        Ok(Self(client))
    }

    /// The next message.
    ///
    /// # Errors
    /// `TimedOut` when none comes within `allowed`; others when the connection is gone. A message that was cut by the
    /// time limit leaves the subscription unusable.
    pub fn message(&mut self, allowed: Duration) -> io::Result<Vec<u8>> {
        let limit = Limit::after(allowed);
        loop {
            let left = limit.left_for("a message")?;
            self.0.0.get_ref().set_read_timeout(Some(left))?;
            let reply = self.0.reply().map_err(|e| match e.kind() {
                io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "gave up waiting for a message"),
                _ => e,
            })?;
            if let Reply::List(parts) = reply
                && let [Reply::Bytes(kind), _, Reply::Bytes(payload)] = parts.as_slice()
                && kind == b"message"
            {
                return Ok(payload.clone());
            }
        }
    }

    /// The first message `wanted` likes; the others are passed over.
    ///
    /// # Errors
    /// As [`Subscription::message`], with one limit for all.
    pub fn find(&mut self, allowed: Duration, wanted: impl Fn(&[u8]) -> bool) -> io::Result<Vec<u8>> {
        let limit = Limit::after(allowed);
        loop {
            let message = self.message(limit.left_for("the wanted message")?)?;
            if wanted(&message) {
                return Ok(message);
            }
        }
    }
}
