//! Where requests end on a connection: length lines and chunks.

use appproxy_core::exchange::Framing;
use appproxy_core::seed::{Draws, Seed};
use appproxy_core::time::Moment;

const MAX_HEAD: u64 = 2048;

/// The bytes of a connection, behind one that says in what pieces they come.
pub fn request_framing(bytes: &[u8]) {
    let Some((&piece, stream)) = bytes.split_first() else { return };
    let mut whole = Framing::new(MAX_HEAD);
    let verdict = whole.see(stream);
    if let Err(fault) = &verdict {
        assert!(fault.passes <= stream.len());
        if let Some(head) = &fault.head {
            let answer = head.answer(Moment::START, &mut Draws::new(Seed::from_number(1)));
            assert!([400, 431, 501].contains(&answer.status.as_u16()), "{}", answer.status);
        }
        assert!(!whole.in_head() && !whole.in_body() && whole.see(b"anything").is_ok(), "nothing more is judged");
    }
    let mut cut = Framing::new(MAX_HEAD);
    let refused = stream.chunks(usize::from(piece % 61) + 1).any(|part| cut.see(part).is_err());
    assert_eq!(refused, verdict.is_err(), "pieces do not matter");

    // Byte by byte it shows where requests end; a reader of whole heads must find the same places.
    let (mut single, mut ends, mut read) = (Framing::new(MAX_HEAD), Vec::new(), stream.len());
    let mut between = true;
    for (at, byte) in stream.iter().enumerate() {
        if single.see(core::slice::from_ref(byte)).is_err() {
            read = at;
            break;
        }
        let now_between = !single.in_head() && !single.in_body();
        if now_between && !between {
            ends.push(at + 1);
        }
        between = now_between;
    }
    assert_eq!(ends, ends_of(&stream[..read]), "two readers see other requests");
}

/// How many whole requests the stream holds.
pub fn requests(bytes: &[u8]) -> usize {
    bytes.split_first().map_or(0, |(_, stream)| ends_of(stream).len())
}

/// Where each whole request ends, in a stream in which nothing was refused.
fn ends_of(stream: &[u8]) -> Vec<usize> {
    let (mut ends, mut at) = (Vec::new(), 0);
    loop {
        at += stream[at..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let Some(head) = find(&stream[at..], b"\r\n\r\n") else { return ends };
        let lines = String::from_utf8_lossy(&stream[at..at + head]).into_owned();
        at += head + 4;
        let (mut lengths, mut coded) = (Vec::new(), false);
        for line in lines.split("\r\n").skip(1) {
            let (name, value) = line.split_once(':').expect("a header line has a colon");
            assert!(!name.is_empty() && !name.contains([' ', '\t']), "let through: {line:?}");
            match name.to_ascii_lowercase().as_str() {
                "content-length" => lengths.push(value.trim_matches([' ', '\t']).parse::<u64>().expect("a length")),
                "transfer-encoding" => {
                    assert!(
                        value.trim_matches([' ', '\t', ',']).eq_ignore_ascii_case("chunked"),
                        "let through: {line:?}"
                    );
                    assert!(!coded, "let through: coded twice");
                    coded = true;
                }
                _ => {}
            }
        }
        assert!(lengths.windows(2).all(|pair| pair[0] == pair[1]), "let through with two lengths");
        assert!(lengths.is_empty() || !coded, "let through with a length and a coding");
        let body =
            if coded { chunks(&stream[at..]) } else { lengths.first().map_or(Some(0), |n| usize::try_from(*n).ok()) };
        match body.and_then(|body| at.checked_add(body)).filter(|end| *end <= stream.len()) {
            Some(end) => at = end,
            None => return ends,
        }
        ends.push(at);
    }
}

/// How long a chunked body is; `None`: it is not whole.
fn chunks(body: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let line = find(body.get(at..)?, b"\r\n")?;
        let digits = body[at..at + line].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        assert!(digits > 0, "let through: a chunk without a size");
        let size =
            u64::from_str_radix(core::str::from_utf8(&body[at..at + digits]).expect("digits"), 16).expect("a size");
        at += line + 2;
        if size == 0 {
            break;
        }
        let end = at.checked_add(usize::try_from(size).ok()?)?;
        let mark = body.get(end..end.checked_add(2)?)?;
        assert_eq!(mark, b"\r\n", "let through: a chunk that is longer than it says");
        at = end + 2;
    }
    loop {
        let line = find(body.get(at..)?, b"\r\n")?;
        at += line + 2;
        if line == 0 {
            return Some(at);
        }
    }
}

fn find(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).position(|window| window == mark)
}
