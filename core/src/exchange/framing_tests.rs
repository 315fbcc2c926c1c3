use super::*;
use proptest::prelude::*;

/// What becomes of `input`, given in pieces of `size` bytes: how many bytes pass, and the refusal if there is one.
fn judged(input: &[u8], size: usize) -> (usize, Option<(u16, String)>) {
    let mut framing = Framing::new(2048);
    let mut passed = 0;
    for piece in input.chunks(size) {
        match framing.see(piece) {
            Ok(()) => passed += piece.len(),
            Err(fault) => {
                let head = fault.head.map(|head| (head.denial.status.as_u16(), head.denial.message.into_owned()));
                return (passed + fault.passes, Some(head.unwrap_or_default()));
            }
        }
    }
    (passed, None)
}

fn status(head: &str) -> Option<u16> {
    let whole = judged(head.as_bytes(), usize::MAX).1;
    let bytewise = judged(head.as_bytes(), 1).1;
    assert_eq!(whole, bytewise, "{head:?}: the same however it comes");
    whole.map(|(status, _)| status)
}

#[test]
fn what_two_readers_may_read_differently_is_refused() {
    let head = |lines: &str| format!("POST /v1/messages HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
    let cases = [
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", Some(400)),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", Some(400)),
        ("transfer-encoding: chunked\r\ncontent-length: 0\r\n", Some(400)),
        ("Transfer-Encoding: gzip, chunked\r\n", Some(501)),
        ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", Some(501)),
        ("Transfer-Encoding: chunked, gzip\r\n", Some(400)),
        ("Transfer-Encoding: gzip\r\n", Some(400)),
        ("Transfer-Encoding: chunked, chunked\r\n", Some(400)),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Some(400)),
        ("Transfer-Encoding: xchunked\r\n", Some(400)),
        ("Transfer-Encoding: x, chunked\r\n", Some(400)),
        ("Transfer-Encoding: ,chunked\r\n", Some(400)),
        ("Transfer-Encoding: \"chunked\"\r\n", Some(400)),
        ("Transfer-Encoding: chunked;q=1\r\n", Some(400)),
        ("Transfer-Encoding:\r\n", Some(400)),
        ("Transfer-Encoding:\u{b}chunked\r\n", Some(400)),
        ("Transfer-Encoding : chunked\r\n", Some(400)),
        (" Transfer-Encoding: chunked\r\n", Some(400)),
        ("X: y\r\n Transfer-Encoding: chunked\r\n", Some(400)),
        ("X: y\nTransfer-Encoding: chunked\r\n", Some(400)),
        ("X: y\rTransfer-Encoding: chunked\r\n", Some(400)),
        ("X: y\0z\r\n", Some(400)),
        ("Content-Length: +5\r\n", Some(400)),
        ("Content-Length: -0\r\n", Some(400)),
        ("Content-Length: 5, 5\r\n", Some(400)),
        ("Content-Length: 0x5\r\n", Some(400)),
        ("Content-Length: 5 5\r\n", Some(400)),
        ("Content-Length:\r\n", Some(400)),
        ("Content-Length: 99999999999999999999\r\n", Some(400)),
        ("Content-Length: 5\r\nContent-Length: 6\r\n", Some(400)),
        (": 5\r\n", Some(400)),
        ("Content Length: 5\r\n", Some(400)),
        // And what is right passes.
        ("Content-Length: 0\r\nContent-Length: 0\r\n", None),
        ("Content-Length: \t 0 \t\r\n", None),
        ("Transfer-Encoding: Chunked \r\n", None),
        ("X-Content-Length: 5, 5\r\nContent-Lengthy: no\r\nTransfer-Encodin: y\r\n", None),
        ("X-Title: caf\u{e9}\r\nEmpty:\r\n", None),
    ];
    for (lines, expected) in cases {
        assert_eq!(status(&head(lines)), expected, "{lines:?}");
    }
    assert_eq!(status("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), Some(400));
    for line in
        ["POST /", "POST / HTTP/1.2", "POST / HTTP/2.0", " POST / HTTP/1.1", "POST  / HTTP/1.1", "POST / x HTTP/1.1"]
    {
        assert_eq!(status(&format!("{line}\r\nHost: a\r\n\r\n")), Some(400), "{line:?}");
    }
    assert_eq!(status("POST / HTTP/1.1\nHost: a\r\n\r\n"), Some(400));
}

#[test]
fn bounds_of_a_head_hold_at_and_past_them() {
    let lines = |count: usize| format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(count));
    assert_eq!(status(&lines(limits::HEAD_LINES)), None);
    assert_eq!(status(&lines(limits::HEAD_LINES + 1)), Some(431));
    let long = |value: usize| format!("GET / HTTP/1.1\r\na: {}\r\n\r\n", "x".repeat(value));
    let fits = 2048 - long(0).len();
    assert_eq!(status(&long(fits)), None);
    assert_eq!(status(&long(fits + 2)), Some(431));
    assert_eq!(status(&"\r\n".repeat(1025)), Some(431), "empty lines are no way round it");
    // A bound is each head's own.
    assert_eq!(status(&long(fits).repeat(3)), None);
}

#[test]
fn a_refusal_knows_whose_shape_it_has_and_no_more() {
    let mut framing = Framing::new(65536);
    let fault = framing.see(b"POST /v1/messages?key=sk-secret HTTP/1.1\r\nContent-Length: x\r\n\r\n").unwrap_err();
    let answer = fault.head.unwrap().answer(Moment::START, &mut Draws::new(crate::seed::Seed([7; 32])));
    assert_eq!((answer.status.as_u16(), answer.outcome.trail.path()), (400, "/v1/messages"));
    let body = core::str::from_utf8(&answer.body).unwrap();
    assert!(body.contains("\"type\":\"error\"") && !body.contains("secret"), "{body}");
    // Of a long target only the lead is kept.
    let head =
        format!("POST /v1/messages/{} HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n", "x".repeat(limits::LEAD_BYTES));
    let fault = Framing::new(65536).see(head.as_bytes()).unwrap_err();
    let answer = fault.head.unwrap().answer(Moment::START, &mut Draws::new(crate::seed::Seed([7; 32])));
    assert_eq!(answer.outcome.trail.path().len() + "POST ".len(), limits::LEAD_BYTES);
}

#[test]
fn the_good_requests_before_a_bad_one_pass() {
    let good = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
    let bad = "GET /b HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let both = format!("{good}{bad}");
    for size in [1, 7, both.len()] {
        let (passed, refusal) = judged(both.as_bytes(), size);
        assert_eq!(refusal.map(|(status, _)| status), Some(400));
        assert!(passed >= good.len() && passed < both.len(), "{passed}");
    }
    assert_eq!(judged(both.as_bytes(), both.len()).0, good.len());
}

#[test]
fn a_connection_that_became_something_else_is_not_judged() {
    let mut framing = Framing::new(2048);
    framing.see(b"GET /ws HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n").unwrap();
    framing.upgraded();
    assert_eq!(framing.see(b"\x81\x05hello\0\r"), Ok(()));
    assert!(!framing.in_head());
}

/// One request, as bytes, with a body that looks like a bad head.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let body = proptest::collection::vec(
        prop_oneof![
            Just(&b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n"[..]),
            Just(&b"0\r\n\r\n"[..]),
            Just(&b"\0\r\n"[..])
        ],
        0..4,
    );
    (body, any::<bool>(), 1_usize..60).prop_map(|(body, chunked, size)| {
        let body = body.concat();
        let mut request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n".to_vec();
        if chunked {
            request.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            for chunk in body.chunks(size) {
                request.extend_from_slice(format!("{:X} ;ext=\"v\"\r\n", chunk.len()).as_bytes());
                request.extend_from_slice(chunk);
                request.extend_from_slice(b"\r\n");
            }
            request.extend_from_slice(b"0\r\nX-Trailer: t\r\n\r\n");
        } else {
            request.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
            request.extend_from_slice(&body);
        }
        request
    })
}

proptest! {
    /// Whatever the bodies hold and however the bytes come, good requests pass whole and the bad one behind them does not.
    #[test]
    fn bodies_are_never_taken_for_heads(requests in proptest::collection::vec(request(), 1..5), size in 1_usize..200) {
        let mut all = requests.concat();
        prop_assert_eq!(judged(&all, size), (all.len(), None));
        let good = all.len();
        all.extend_from_slice(b"GET / HTTP/1.1\r\nHost : a\r\n\r\n");
        let (passed, refusal) = judged(&all, size);
        prop_assert_eq!(refusal.map(|(status, _)| status), Some(400));
        prop_assert!(passed >= good);
        prop_assert_eq!(judged(&all, usize::MAX).0, good);
    }

    /// Nothing from outside breaks it, and what passes never depends on how the bytes were cut.
    #[test]
    fn any_bytes_are_judged_the_same_in_any_pieces(bytes in proptest::collection::vec(any::<u8>(), 0..300), size in 1_usize..50) {
        prop_assert_eq!(judged(&bytes, size).1, judged(&bytes, usize::MAX).1);
    }
}
