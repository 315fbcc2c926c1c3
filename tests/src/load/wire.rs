//! As much HTTP as both ends of the load need: where a head ends, and how long what follows is.

/// Where `wanted` first is.
pub(super) fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// How many bytes the head takes, its empty line included; `None` while it is not whole.
pub(super) fn head_end(bytes: &[u8]) -> Option<usize> {
    find(bytes, b"\r\n\r\n").map(|at| at + 4)
}

/// The length that a head tells.
pub(super) fn content_length(head: &[u8]) -> Option<usize> {
    let text = core::str::from_utf8(head).ok()?;
    text.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    })
}

/// How often `wanted` is there.
pub(super) fn count(bytes: &[u8], wanted: &[u8]) -> usize {
    bytes.windows(wanted.len()).filter(|window| *window == wanted).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nabc";
        assert_eq!(head_end(answer), Some(answer.len() - 3));
        assert_eq!(head_end(b"HTTP/1.1 200 OK\r\n"), None);
        assert_eq!(content_length(answer), Some(12));
        assert_eq!(content_length(b"HTTP/1.1 200 OK\r\n\r\n"), None);
        assert_eq!(count(b"data: a\n\ndata: b\n\n", b"data: "), 2);
    }
}
