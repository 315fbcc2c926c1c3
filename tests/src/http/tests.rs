//! The client against peers that write bytes by hand.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::*;
use crate::wait::PATIENCE;

/// Reads one request up to the end of its head (and `body` bytes more), then plays `script` on the socket.
fn peer(body: usize, script: impl FnOnce(&mut TcpStream) + Send + 'static) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let played = thread::spawn(move || {
        let mut socket = listener.accept().unwrap().0;
        let mut read = Vec::new();
        let mut byte = [0];
        while !read.ends_with(b"\r\n\r\n") {
            socket.read_exact(&mut byte).unwrap();
            read.push(byte[0]);
        }
        let mut rest = vec![0; body];
        socket.read_exact(&mut rest).unwrap();
        read.extend(rest);
        script(&mut socket);
        String::from_utf8(read).unwrap()
    });
    (address, played)
}

fn says(text: &'static str) -> (String, JoinHandle<String>) {
    peer(0, move |socket| socket.write_all(text.as_bytes()).unwrap())
}

#[test]
fn a_request_is_written_as_it_was_made_and_the_answer_read_by_its_length() {
    let (address, played) = peer(2, |socket| {
        socket.write_all(b"HTTP/1.1 200 Fine\r\nX-One: 1\r\nx-one: 2\r\nContent-Length: 4\r\n\r\nbodyMORE").unwrap();
    });
    let request = Request::post_json("/v1/x?q=1", "{}").bearer("sk-1");
    let answer = request.send(&address).unwrap();
    assert_eq!(
        played.join().unwrap(),
        format!(
            "POST /v1/x?q=1 HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Authorization: Bearer sk-1\r\nContent-Length: 2\r\n\r\n{{}}"
        )
    );
    assert_eq!((answer.status(), answer.head.reason.as_str(), answer.text().as_str()), (200, "Fine", "body"));
    assert_eq!(answer.head.headers("X-ONE").collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(answer.head.headers[1], ("x-one".to_owned(), "2".to_owned()));
}

#[test]
fn chunks_are_unwrapped_and_their_trailers_passed_over() {
    let (address, _played) = says(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n\
         5\r\nhello\r\n1;ext=1\r\n \r\nA\r\n0123456789\r\n0\r\nX-Trailer: 1\r\n\r\n",
    );
    assert_eq!(Request::get("/").send(&address).unwrap().text(), "hello 0123456789");
}

#[test]
fn a_body_without_a_length_ends_with_the_connection() {
    let (address, _played) = says("HTTP/1.0 200 OK\r\n\r\nall of it");
    assert_eq!(Request::get("/").send(&address).unwrap().text(), "all of it");
}

#[test]
fn answers_without_a_body_end_with_their_head() {
    for head in ["HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"] {
        let (address, _played) = says(head);
        assert_eq!(Request::get("/").send(&address).unwrap().body, b"");
    }
    let (address, _played) = says("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(Request::new("HEAD", "/").send(&address).unwrap().body, b"");
}

#[test]
fn interim_answers_are_passed_over_or_shown() {
    const TEXT: &str = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(Request::get("/").send(&says(TEXT).0).unwrap().status(), 200);
    let mut connection = Request::get("/").open(&says(TEXT).0).unwrap();
    assert_eq!(connection.interim_or_head().unwrap().status, 100);
    assert_eq!(connection.interim_or_head().unwrap().status, 200);
}

#[test]
fn a_cut_body_is_an_error_and_no_short_answer() {
    for text in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfour",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfour",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n0\r\n",
        "HTTP/1.1 200 OK\r\nContent-Le",
    ] {
        let (address, _played) = says(text);
        let refused = Request::get("/").send(&address).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::UnexpectedEof, "{text:?}: {refused}");
    }
}

#[test]
fn what_is_no_http_is_named() {
    for (text, part) in [
        ("SSH-2.0-x\r\n\r\n", "SSH-2.0-x"),
        ("HTTP/1.1 200 OK\r\nnothing\r\n\r\n", "nothing"),
        ("HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", "many"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "zz"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nlong\r\n", "longer than its size"),
    ] {
        let (address, _played) = says(text);
        let refused = Request::get("/").send(&address).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidData, "{text:?}: {refused}");
        assert!(refused.to_string().contains(part), "{text:?}: {refused}");
    }
}

#[test]
fn events_are_seen_while_the_answer_still_runs() {
    let (next, wanted) = std::sync::mpsc::channel::<()>();
    let (address, played) = peer(0, move |socket| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n";
        socket.write_all(head.as_bytes()).unwrap();
        // One event in two chunks; the next only once the first was seen.
        socket.write_all(b"d\r\n: ping\n\ndata:\r\n4\r\n one\r\n2\r\n\n\n\r\n").unwrap();
        wanted.recv().unwrap();
        socket.write_all(b"23\r\nevent: end\r\ndata: two\r\ndata: 2\r\n\r\nx\r\n0\r\n\r\n").unwrap();
    });
    let mut connection = Request::get("/").open(&address).unwrap();
    assert_eq!(connection.head().unwrap().status, 200);
    assert_eq!(connection.event().unwrap(), Some(ServerSentEvent { event: None, data: "one".to_owned() }));

    connection.set_allowed(Duration::from_millis(20));
    assert_eq!(connection.event().unwrap_err().kind(), ErrorKind::TimedOut);
    connection.set_allowed(PATIENCE);

    next.send(()).unwrap();
    let end = ServerSentEvent { event: Some("end".to_owned()), data: "two\n2".to_owned() };
    assert_eq!(connection.event().unwrap(), Some(end));
    assert_eq!(connection.event().unwrap(), None);
    assert_eq!(connection.rest().unwrap(), b"x");
    played.join().unwrap();
}

#[test]
fn one_connection_carries_several_requests_and_any_bytes() {
    let (address, played) = peer(3, |socket| {
        socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 201 OK\r\nContent-").unwrap();
        socket.write_all(b"Length: 1\r\n\r\nb!!").unwrap();
    });
    let mut connection = Connection::open(&address, PATIENCE).unwrap();
    connection.send_raw(b"GET / HTTP/1.1\r\n").unwrap();
    connection.send_raw(b"\r\nraw").unwrap();
    connection.close_writing().unwrap();
    assert_eq!(connection.answer().unwrap().text(), "a");
    let second = connection.answer().unwrap();
    assert_eq!((second.status(), second.text().as_str()), (201, "b"));
    assert_eq!(connection.raw_to_end().unwrap(), b"!!");
    assert_eq!(connection.raw().unwrap(), b"");
    assert!(played.join().unwrap().ends_with("\r\n\r\nraw"));
}

#[test]
fn nobody_there_is_an_error_which_names_the_address() {
    let port = crate::wait::free_port().unwrap();
    let refused = Request::get("/").send(&format!("127.0.0.1:{port}")).unwrap_err();
    assert!(refused.to_string().contains(&port.to_string()), "{refused}");
}
