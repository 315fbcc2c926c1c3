//! A request as it will be written.

use std::io;
use std::time::Duration;

use super::{Answer, Connection};
use crate::wait::PATIENCE;

/// A request with a whole body. `Host`, `Content-Length` and `Connection` are written by [`Request::bytes`] unless
/// they were set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    /// Any method; `path` is written as it is.
    #[must_use]
    pub fn new(method: &str, path: &str) -> Self {
        Self { method: method.to_owned(), path: path.to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    /// GET without a body.
    #[must_use]
    pub fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    /// POST of a JSON text, sent as it is.
    #[must_use]
    pub fn post_json(path: &str, json: &str) -> Self {
        Self::new("POST", path).header("Content-Type", "application/json").body(json)
    }

    /// Adds a header; a name may be added twice.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// `Authorization: Bearer …`.
    #[must_use]
    pub fn bearer(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    /// The body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name))
    }

    /// What goes on the wire to `host`. A body given together with `Transfer-Encoding` is written as it is.
    #[must_use]
    pub fn bytes(&self, host: &str) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        let mut add = |name: &str, value: &str| {
            text.push_str(name);
            text.push_str(": ");
            text.push_str(value);
            text.push_str("\r\n");
        };
        if !self.has("host") {
            add("Host", host);
        }
        for (name, value) in &self.headers {
            add(name, value);
        }
        let wants_length = !self.body.is_empty() || matches!(self.method.as_str(), "POST" | "PUT" | "PATCH");
        if wants_length && !self.has("content-length") && !self.has("transfer-encoding") {
            add("Content-Length", &self.body.len().to_string());
        }
        text.push_str("\r\n");
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// Sends it to `address` (`host:port`) on a connection of its own and reads the whole answer, within
    /// [`PATIENCE`].
    ///
    /// # Errors
    /// When nobody answers in time, or the answer is broken or cut off.
    pub fn send(&self, address: &str) -> io::Result<Answer> {
        self.send_within(address, PATIENCE)
    }

    /// As [`Request::send`] with a limit of one's own for connecting and for the whole answer.
    ///
    /// # Errors
    /// As [`Request::send`].
    pub fn send_within(&self, address: &str, allowed: Duration) -> io::Result<Answer> {
        let mut connection = Connection::open(address, allowed)?;
        connection.send(self)?;
        connection.answer()
    }

    /// Sends it to `address` and returns the connection, for an answer to be read piece by piece.
    ///
    /// # Errors
    /// When nobody listens.
    pub fn open(&self, address: &str) -> io::Result<Connection> {
        let mut connection = Connection::open(address, PATIENCE)?;
        connection.send(self)?;
        Ok(connection)
    }
}
