use super::*;
use proptest::prelude::*;

fn head(text: &str) -> Result<Option<(Response<()>, Framed)>, Malformed> {
    HeadReader::default().take(&mut BytesMut::from(text), &Method::POST)
}

fn framed(lines: &str) -> Result<Framed, Malformed> {
    head(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n")).map(|read| read.expect("a whole head").1)
}

/// The whole body of an answer that comes in `pieces`, and whether it is complete at the end of the connection.
fn body(pieces: &[&[u8]]) -> Result<(Vec<u8>, bool, BytesMut), Malformed> {
    let (mut bytes, mut reader, mut read, mut body) = (BytesMut::new(), HeadReader::default(), None, Vec::new());
    for piece in pieces {
        bytes.extend_from_slice(piece);
        if read.is_none() {
            read = reader.take(&mut bytes, &Method::POST)?.map(|(_, framed)| framed);
        }
        if let Some(framed) = &mut read {
            while let Some(piece) = framed.take(&mut bytes)? {
                assert!(!piece.is_empty());
                body.extend_from_slice(&piece);
            }
        }
    }
    let whole = read.is_some_and(|mut framed| framed.ended());
    Ok((body, whole, bytes))
}

#[test]
fn a_head_is_written_as_it_goes_on_the_line() {
    let request = Request::post("/v1/chat?x=1").header("host", "r").header("content-length", "2").body(()).unwrap();
    let mut bytes = b"before ".to_vec();
    write_head(&request, false, &mut bytes);
    assert_eq!(bytes, b"before POST /v1/chat?x=1 HTTP/1.1\r\nhost: r\r\ncontent-length: 2\r\n\r\n");
    let request = Request::put("/").header("host", "r").body(()).unwrap();
    let mut bytes = Vec::new();
    write_head(&request, true, &mut bytes);
    assert_eq!(bytes, b"PUT / HTTP/1.1\r\nhost: r\r\ntransfer-encoding: chunked\r\n\r\n");
    assert_eq!([chunk_line(255), CHUNK_END, LAST_CHUNK].concat(), b"ff\r\n\r\n0\r\n\r\n");
}

#[test]
fn s7_what_two_readers_could_end_at_different_places_is_refused() {
    for lines in [
        "content-length: 5\r\ntransfer-encoding: chunked\r\n",
        "content-length: 5\r\ncontent-length: 6\r\n",
        "content-length: 5, 6\r\n",
        "content-length: +5\r\n",
        "content-length: -1\r\n",
        "content-length: \r\n",
        "content-length: 99999999999999999999\r\n",
        "transfer-encoding: gzip\r\n",
        "transfer-encoding: gzip, chunked\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: identity\r\n",
        "transfer-encoding : chunked\r\n",
        "no colon\r\n",
        " folded\r\n",
    ] {
        assert!(framed(lines).is_err(), "{lines}");
    }
    assert!(head("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
    for text in ["HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n", "hello\r\n\r\n", "HTTP/1.1 099 OK\r\n\r\n"] {
        assert!(head(text).is_err(), "{text}");
    }
}

#[test]
fn a_body_ends_where_its_head_says() {
    assert_eq!(framed("content-length: 5\r\n").unwrap().left(), Some(5));
    assert_eq!(framed("content-length: 5\r\nContent-Length: 5\r\n").unwrap().left(), Some(5));
    assert_eq!(framed("").unwrap().left(), None);
    for status in [204, 304] {
        let (_, framed) = head(&format!("HTTP/1.1 {status} X\r\ncontent-length: 5\r\n\r\n")).unwrap().unwrap();
        assert!(framed.is_over());
    }
    let mut bytes = BytesMut::from("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
    assert!(HeadReader::default().take(&mut bytes, &Method::HEAD).unwrap().unwrap().1.is_over());
    let chunks = b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\ntrailer: 1\r\n\r\nmore";
    assert_eq!(body(&[chunks]).unwrap(), (b"abc".to_vec(), true, BytesMut::from("more")));
    let (read, whole, _) = body(&[b"HTTP/1.1 200 OK\r\n\r\nall", b" of it"]).unwrap();
    assert_eq!((read.as_slice(), whole), (&b"all of it"[..], true));
    let (read, whole, _) = body(&[b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nall"]).unwrap();
    assert_eq!((read.as_slice(), whole), (&b"all"[..], false));
    assert!(body(&[b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz"]).is_err());
}

#[test]
fn a_connection_is_kept_when_both_say_so() {
    for (text, kept) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: x, Close\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\ncontent-length: 0\r\nconnection: keep-alive\r\n\r\n", true),
    ] {
        assert_eq!(head(text).unwrap().unwrap().1.keeps(), kept, "{text}");
    }
}

#[test]
fn interim_answers_are_passed_over_and_a_switch_is_not() {
    let text = "\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 201 Made\n\n";
    assert_eq!(head(text).unwrap().unwrap().0.status(), StatusCode::CREATED);
    let mut bytes = BytesMut::from("HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\nfirst");
    let (head, framed) = HeadReader::default().take(&mut bytes, &Method::GET).unwrap().unwrap();
    assert_eq!((head.status().as_u16(), framed.is_over(), &bytes[..]), (101, true, &b"first"[..]));
}

#[test]
fn what_is_something_else_is_refused_before_it_ends() {
    for text in ["SSH-2.0-OpenSSH_9.6\r\n", "HTTP/2", "<", "http/1.1 200"] {
        assert!(head(text).is_err(), "{text}");
    }
    for text in ["", "H", "HTTP/1", "HTTP/1.1 200 OK\r\na: b"] {
        assert!(head(text).unwrap().is_none(), "{text}");
    }
}

#[test]
fn nothing_goes_on_without_end() {
    let interim = |count: usize| format!("{}HTTP/1.1 204 X\r\n\r\n", "HTTP/1.1 102 P\r\n\r\n".repeat(count));
    assert!(head(&interim(limits::INTERIM_ANSWERS)).unwrap().is_some());
    assert!(head(&interim(limits::INTERIM_ANSWERS + 1)).is_err());
    let start = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let extended = |length: usize| format!("{start}1;{}\r\na\r\n0\r\n\r\n", "x".repeat(length));
    assert_eq!(body(&[extended(limits::BETWEEN_CHUNKS_BYTES - 10).as_bytes()]).unwrap().0, b"a");
    assert!(body(&[extended(limits::BETWEEN_CHUNKS_BYTES).as_bytes()]).is_err());
    assert!(body(&[format!("{start}0\r\n{}", "a: b\r\n".repeat(3_000)).as_bytes()]).is_err());
    // Each chunk has its own.
    let many = format!("{start}{}0\r\n\r\n", "1;xxxxxxxx\r\na\r\n".repeat(3_000));
    assert_eq!(body(&[many.as_bytes()]).unwrap().0.len(), 3_000);
}

#[test]
fn a_head_has_bounds() {
    let lines = |count: usize| "a: b\r\n".repeat(count);
    assert!(framed(&lines(limits::REPLY_HEAD_LINES)).is_ok());
    assert!(framed(&lines(limits::REPLY_HEAD_LINES + 1)).is_err());
    let mut bytes = BytesMut::from("HTTP/1.1 200 OK\r\na: ");
    bytes.resize(limits::REPLY_HEAD_BYTES, b'b');
    let mut reader = HeadReader::default();
    assert!(reader.take(&mut bytes, &Method::GET).unwrap().is_none());
    bytes.extend_from_slice(b"b");
    assert!(reader.take(&mut bytes, &Method::GET).is_err());
}

proptest! {
    /// How the bytes of an answer are cut on their way changes nothing of what is read.
    #[test]
    fn cuts_change_nothing(
        kind in 0_usize..4,
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        extra in prop::collection::vec(any::<u8>(), 0..4),
    ) {
        let whole = chunks.concat();
        let mut bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nx: y\r\n".to_vec();
        match kind {
            0 => bytes.extend(format!("content-length: {}\r\n\r\n", whole.len()).bytes()),
            1 | 2 => bytes.extend(b"transfer-encoding: chunked\r\n\r\n"),
            _ => bytes.extend(b"\r\n"),
        }
        if kind == 1 || kind == 2 {
            for chunk in &chunks {
                bytes.extend_from_slice(&chunk_line(chunk.len()));
                bytes.extend_from_slice(chunk);
                bytes.extend_from_slice(&CHUNK_END);
            }
            bytes.extend_from_slice(&LAST_CHUNK);
        } else {
            bytes.extend_from_slice(&whole);
        }
        let after = if kind == 3 { Vec::new() } else { extra };
        bytes.extend_from_slice(&after);
        let mut places: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        let pieces: Vec<_> = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        let (read, complete, left) = body(&pieces).unwrap();
        prop_assert_eq!(read, whole);
        prop_assert!(complete);
        prop_assert_eq!(&left[..], &after[..]);
    }

    #[test]
    fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), chunked: bool) {
        let _ = body(&[&bytes]);
        let head: &[u8] = if chunked { b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" } else { b"HTTP/1.1 200 " };
        let _ = body(&[head, &bytes]);
    }
}
