//! What a replica says: heads, lengths, chunks.

use appproxy_core::exchange::http1::{Framed, HeadReader, Malformed};
use appproxy_core::limits;
use bytes::BytesMut;
use http::{Method, StatusCode};

/// An answer as it was read: status, body, whether it is whole at the end of the connection, what follows it.
type Reply = (Option<StatusCode>, Vec<u8>, bool, Vec<u8>);

/// The bytes of a replica, behind one that says in what pieces they come and one for the method.
pub fn replica_answer(bytes: &[u8]) {
    let [piece, method, said @ ..] = bytes else { return };
    let method = if method % 2 == 0 { Method::POST } else { Method::HEAD };
    let whole = reply(core::iter::once(said), &method);
    let cut = reply(said.chunks(usize::from(piece % 61) + 1), &method);
    match (whole, cut) {
        (Ok(whole), Ok(cut)) => {
            assert_eq!(whole, cut, "pieces do not matter");
            let (status, body, complete, rest) = whole;
            assert!(body.len() + rest.len() <= said.len(), "nothing is made up");
            assert!(status.is_some() || (body.is_empty() && !complete), "no body without a head");
            assert!(method != Method::HEAD || body.is_empty(), "an answer to HEAD has no body");
            assert!(
                status.is_none_or(|status| !status.is_informational() || status == StatusCode::SWITCHING_PROTOCOLS)
            );
        }
        (Err(_), Err(_)) => {}
        (whole, cut) => panic!("pieces matter: {whole:?}, {cut:?}"),
    }
}

/// Whether the corpus file holds a whole answer.
pub fn answered(bytes: &[u8]) -> bool {
    bytes.get(2..).is_some_and(|said| reply(core::iter::once(said), &Method::POST).is_ok_and(|(.., whole, _)| whole))
}

fn reply<'a>(pieces: impl Iterator<Item = &'a [u8]>, method: &Method) -> Result<Reply, Malformed> {
    let (mut bytes, mut reader, mut body) = (BytesMut::new(), HeadReader::default(), Vec::new());
    let mut read: Option<(StatusCode, Framed)> = None;
    for piece in pieces {
        bytes.extend_from_slice(piece);
        if read.is_none() {
            read = reader.take(&mut bytes, method)?.map(|(head, framed)| {
                assert!(head.headers().len() <= limits::REPLY_HEAD_LINES);
                (head.status(), framed)
            });
        }
        if let Some((_, framed)) = &mut read {
            while let Some(piece) = framed.take(&mut bytes)? {
                assert!(!piece.is_empty(), "an empty piece would be waited for without end");
                body.extend_from_slice(&piece);
            }
        }
    }
    let status = read.as_ref().map(|(status, _)| *status);
    let whole = read.is_some_and(|(_, mut framed)| framed.ended());
    Ok((status, body, whole, bytes.to_vec()))
}
