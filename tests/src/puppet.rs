//! A replica played by the test itself, byte by byte: it sees what really arrives and answers when the test says so.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::wait::{Limit, PATIENCE};

/// A listener on loopback whose connections the test answers by hand.
#[derive(Debug)]
pub struct Puppet(TcpListener);

impl Puppet {
    /// Listens on a free port.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        listener.set_nonblocking(true).expect("a listener that can be asked");
        Self(listener)
    }

    /// Its port.
    ///
    /// # Panics
    /// When the system does not tell.
    #[must_use]
    #[track_caller]
    pub fn port(&self) -> u16 {
        self.0.local_addr().expect("the puppet's address").port()
    }

    /// Waits for a connection and reads its first request.
    ///
    /// # Panics
    /// When none comes within [`PATIENCE`], or it is cut off.
    #[must_use]
    #[track_caller]
    pub fn visit(&self) -> Visit {
        let limit = Limit::after(PATIENCE);
        loop {
            match self.0.accept() {
                Ok((socket, _)) => {
                    socket.set_nonblocking(false).expect("a blocking socket");
                    socket.set_nodelay(true).expect("a socket without delay");
                    let mut visit = Visit { socket, head: Vec::new(), body: Vec::new() };
                    visit.next_request().expect("a whole request");
                    return visit;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock && limit.left().is_some() => {
                    thread::sleep(Duration::from_millis(1));
                }
                Err(e) => panic!("nobody visited the puppet: {e}"),
            }
        }
    }

    /// Whether a connection waits that nobody has taken: for requests that must not have come.
    #[must_use]
    pub fn was_visited(&self) -> bool {
        self.0.accept().is_ok()
    }
}

/// A request that arrived, with its connection.
#[derive(Debug)]
pub struct Visit {
    socket: TcpStream,
    head: Vec<u8>,
    body: Vec<u8>,
}

impl Visit {
    /// Reads the next request on this connection.
    ///
    /// # Errors
    /// When it does not come within [`PATIENCE`] or is cut off.
    pub fn next_request(&mut self) -> io::Result<()> {
        self.socket.set_read_timeout(Some(PATIENCE))?;
        self.head.clear();
        let mut byte = [0];
        while !self.head.ends_with(b"\r\n\r\n") {
            self.socket.read_exact(&mut byte)?;
            self.head.extend(byte);
        }
        let length = self.header("content-length").map_or(0, |text| text.parse().unwrap_or(0));
        self.body = vec![0; length];
        self.socket.read_exact(&mut self.body)
    }

    /// The head as it came, bytes that are no ASCII as Latin-1.
    #[must_use]
    pub fn head(&self) -> String {
        self.head.iter().map(|byte| char::from(*byte)).collect()
    }

    /// The request line.
    #[must_use]
    pub fn line(&self) -> String {
        self.head().lines().next().unwrap_or_default().to_owned()
    }

    /// All values of a header, in order.
    #[must_use]
    pub fn headers(&self, name: &str) -> Vec<String> {
        let head = self.head();
        let lines = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
        lines.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned()).collect()
    }

    /// The first value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        self.headers(name).into_iter().next()
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Writes bytes of an answer.
    ///
    /// # Panics
    /// When the peer does not take them.
    #[track_caller]
    pub fn say(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket.write_all(bytes.as_ref()).expect("the worker takes what the replica says");
    }

    /// Writes chunks of 64 KiB until the peer takes no more for `still`, or `most` bytes were taken; gives how many were.
    /// The last chunk may be written in part: nothing more can be said afterwards.
    ///
    /// # Panics
    /// When the peer closes.
    #[track_caller]
    pub fn flood(&mut self, most: usize, still: Duration) -> usize {
        self.socket.set_write_timeout(Some(still)).expect("a time limit");
        let mut chunk = b"10000\r\n".to_vec();
        chunk.extend([b'x'; 0x10000]);
        chunk.extend(b"\r\n");
        let mut taken = 0;
        while taken < most {
            match self.socket.write_all(&chunk) {
                Ok(()) => taken += chunk.len(),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                Err(e) => panic!("the worker closed after {taken} bytes: {e}"),
            }
        }
        taken
    }

    /// Writes one chunk of a chunked body.
    ///
    /// # Panics
    /// As [`Visit::say`].
    #[track_caller]
    pub fn chunk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        self.say(chunk);
    }

    /// Begins a streamed answer.
    ///
    /// # Panics
    /// As [`Visit::say`].
    #[track_caller]
    pub fn begin_events(&mut self) {
        self.say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
    }

    /// Answers with a small JSON body and closes.
    ///
    /// # Panics
    /// As [`Visit::say`].
    #[track_caller]
    pub fn answer(mut self, json: &str) {
        let length = json.len();
        self.say(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\
             Content-Length: {length}\r\n\r\n{json}"
        ));
    }

    /// Reads `count` bytes that are no request: what follows an upgrade.
    ///
    /// # Panics
    /// When they do not come within [`PATIENCE`].
    #[must_use]
    #[track_caller]
    pub fn hear(&mut self, count: usize) -> Vec<u8> {
        self.socket.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        let mut bytes = vec![0; count];
        self.socket.read_exact(&mut bytes).expect("the worker passes on what the client says");
        bytes
    }

    /// Waits until the peer has closed the connection.
    ///
    /// # Panics
    /// When it still is open after `allowed`, or sends something.
    #[track_caller]
    pub fn wait_closed(&mut self, allowed: Duration) {
        self.socket.set_read_timeout(Some(allowed)).expect("a time limit");
        match self.socket.read(&mut [0; 64]) {
            // A reset is an end as well.
            Ok(0) => {}
            Err(e) if e.kind() == ErrorKind::ConnectionReset => {}
            Ok(count) => panic!("{count} bytes came where the end was due"),
            Err(e) => panic!("the worker still holds the connection after {allowed:?}: {e}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Request;

    #[test]
    fn a_puppet_sees_the_request_and_answers_by_hand() {
        let puppet = Puppet::start();
        assert!(!puppet.was_visited());
        let address = format!("127.0.0.1:{}", puppet.port());
        let asked = thread::spawn(move || {
            Request::post_json("/v1/x", "{}").header("X-Two", "a").header("x-two", "b").send(&address).unwrap()
        });
        let visit = puppet.visit();
        assert_eq!((visit.line().as_str(), visit.body()), ("POST /v1/x HTTP/1.1", &b"{}"[..]));
        assert_eq!(visit.headers("x-two"), ["a", "b"]);
        visit.answer("[1]");
        assert_eq!(asked.join().unwrap().text(), "[1]");
    }

    #[test]
    #[should_panic(expected = "still holds the connection")]
    fn a_connection_that_stays_open_is_told() {
        let puppet = Puppet::start();
        let _open = Request::get("/").open(&format!("127.0.0.1:{}", puppet.port())).unwrap();
        puppet.visit().wait_closed(Duration::from_millis(10));
    }
}
