use core::pin::pin;
use core::task::Waker;

use super::*;
use crate::exchange::testing::{World, chat, request};

/// What a replica gets to read, frame by frame, and what was announced before each.
fn read(payload: Payload) -> (Vec<Bytes>, Vec<u64>) {
    let mut body = pin!(Outgoing::from(payload));
    let (mut frames, mut announced) = (Vec::new(), Vec::new());
    loop {
        let hint = body.size_hint();
        assert_eq!(Some(hint.lower()), hint.upper(), "the length is known exactly");
        announced.push(hint.lower());
        let ended = body.is_end_stream();
        match body.as_mut().poll_frame(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(Ok(frame))) => {
                assert!(!ended, "it said that it had ended");
                frames.push(frame.into_data().expect("there are no trailers"));
            }
            Poll::Ready(None) => {
                assert!(ended, "a library that knows the end need not ask for it");
                return (frames, announced);
            }
            other => panic!("a body that is here makes nobody wait: {other:?}"),
        }
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
    let (frames, announced) = read(world.begin(admitted).unwrap().1.into_body());
    assert_eq!((frames.len(), announced), (1, vec![body.len() as u64, 0]));
    assert_eq!((frames[0].as_ptr(), frames[0].len()), (body.as_ptr(), body.len()));
}

#[test]
fn a_renamed_body_comes_in_pieces_that_add_up_to_its_length() {
    // An alias of a static backend is rewritten to the name that it has there.
    let (frames, announced) = read(sent("/v1/chat/completions", r#"{"n":1,"model":"g","messages":[]}"#));
    assert_eq!(frames.concat(), br#"{"n":1,"model":"gpt","messages":[]}"#);
    assert_eq!(frames.len(), 3);
    assert_eq!(announced, [35, 20, 15, 0]);
}

#[test]
fn without_a_byte_there_is_no_frame() {
    let mut world = World::new();
    let parts = request("POST", "/v1beta/models/gemini:generateContent", &["authorization: Bearer root"]);
    let admitted = world.admit(parts, "").unwrap();
    let (frames, announced) = read(world.begin(admitted).unwrap().1.into_body());
    assert_eq!((frames.len(), announced), (0, vec![0]));
}
