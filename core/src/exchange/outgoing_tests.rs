use super::*;
use crate::exchange::testing::{World, chat, request};

/// What a replica gets to read, frame by frame, and what was left before each.
fn read(payload: Payload) -> (Vec<Bytes>, Vec<usize>) {
    let mut body = Outgoing::from(payload);
    let (mut frames, mut left) = (Vec::new(), Vec::new());
    loop {
        left.push(body.remaining());
        let mut slices = [IoSlice::new(&[]); 3];
        let count = body.chunks_vectored(&mut slices);
        assert_eq!(slices[..count].iter().map(|slice| slice.len()).sum::<usize>(), body.remaining());
        if !body.has_remaining() {
            assert_eq!(body.chunk(), b"");
            return (frames, left);
        }
        frames.push(Bytes::from_owner(body.chunk().to_vec()));
        // Taken in two steps, as a full socket has it.
        let bytes = body.chunk().len();
        body.advance(bytes / 2);
        body.advance(bytes - bytes / 2);
    }
}

fn sent(path: &str, body: &str) -> Payload {
    let mut world = World::new();
    let admitted = world.admit(request("POST", path, &["authorization: Bearer root"]), body).unwrap();
    world.begin(admitted).unwrap().1.into_body()
}

#[test]
fn an_unchanged_body_is_one_frame_and_the_same_memory() {
    let mut world = World::new();
    let body = Bytes::from_static(br#"{"model":"m1","messages":[]}"#);
    let node = World::new();
    let gated = world.pass(chat("all")).unwrap();
    let admitted = gated.route(body.clone(), node.node()).unwrap();
    let payload = world.begin(admitted).unwrap().1.into_body();
    let outgoing = Outgoing::from(payload.clone());
    assert_eq!((outgoing.chunk().as_ptr(), outgoing.chunk().len()), (body.as_ptr(), body.len()));
    let (frames, left) = read(payload);
    assert_eq!((frames.len(), left), (1, vec![body.len(), 0]));
}

#[test]
fn a_renamed_body_comes_in_pieces_that_add_up_to_its_length() {
    // An alias of a static backend is rewritten to the name that it has there.
    let (frames, left) = read(sent("/v1/chat/completions", r#"{"n":1,"model":"g","messages":[]}"#));
    assert_eq!(frames.concat(), br#"{"n":1,"model":"gpt","messages":[]}"#);
    assert_eq!(frames.len(), 3);
    assert_eq!(left, [35, 20, 15, 0]);
}

#[test]
fn without_a_byte_there_is_no_frame() {
    let mut world = World::new();
    let parts = request("POST", "/v1beta/models/gemini:generateContent", &["authorization: Bearer root"]);
    let admitted = world.admit(parts, "").unwrap();
    let (frames, left) = read(world.begin(admitted).unwrap().1.into_body());
    assert_eq!((frames.len(), left), (0, vec![0]));
}
