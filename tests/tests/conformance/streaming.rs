//! Answers pass through as they come, end as they end, and break visibly when they break.

use std::time::Duration;

use appproxy_fixtures::replica::Behaviour;
use appproxy_tests::http::{Connection, Request};
use appproxy_tests::puppet::{Puppet, Visit};
use appproxy_tests::shell::Shell;
use appproxy_tests::wait;
use appproxy_tests::world::{World, chat, streamed_chat};

/// Long enough for a loaded machine, short enough to tell "at once" from "at the next time-out".
const AT_ONCE: Duration = Duration::from_secs(3);

fn streaming(world: &World, puppet: &Puppet) -> (Connection, Visit) {
    let mut client = streamed_chat("puppet").bearer("sk-all").open(world.data()).expect("the worker listens");
    let mut visit = puppet.visit();
    visit.begin_events();
    assert_eq!(client.head().expect("the head comes before any event").status, 200);
    (client, visit)
}

pub(crate) fn each_piece_arrives_before_the_next_is_sent_and_no_byte_is_changed(shell: Shell) {
    let (world, puppet) = shell.setup().start_with_puppet();
    // The head arrives before any event.
    let (mut client, mut visit) = streaming(&world, &puppet);
    let emoji = "\u{1f980}".as_bytes();
    let pieces: [&[u8]; 9] = [
        b": working\n\n",
        b"data: {\"t\":\"\xe4",
        b"\xbd\xa0\"}\n\n",
        &emoji[..1],
        &emoji[1..3],
        &emoji[3..],
        b"\r\n\r\n\x00\xff\xfe",
        b"data: [DONE]\n\n",
        &[b'x'; 70_000],
    ];
    for piece in pieces {
        visit.chunk(piece);
        // The next is sent only once this one was seen: nothing is held back, nothing is made whole.
        let mut seen = Vec::new();
        while seen.len() < piece.len() {
            seen.extend(client.piece().unwrap().expect("more to come"));
        }
        assert_eq!(seen, piece);
    }
    visit.say("0\r\n\r\n");
    assert_eq!(client.piece().unwrap(), None, "the end of the stream is its end");

    // S8: sizes near buffer limits, chunk extensions and trailers; then the connection to the replica is used again.
    client.send(&streamed_chat("puppet").bearer("sk-all")).unwrap();
    visit.next_request().unwrap();
    visit.begin_events();
    let mut sent = Vec::new();
    for (number, size) in [4087_usize, 1, 4096, 8183, 65_536].into_iter().enumerate() {
        let bytes: Vec<u8> = (0..size).map(|at| u8::try_from((at * 7 + number) % 251).unwrap()).collect();
        visit.say(format!("{size:x};ext=1\r\n"));
        visit.say(&bytes);
        visit.say("\r\n");
        sent.extend(bytes);
    }
    visit.say("0\r\nX-Trailer: t\r\n\r\n");
    let answer = client.answer().unwrap();
    assert_eq!(answer.status(), 200);
    assert!(answer.body == sent, "{} bytes came of {}", answer.body.len(), sent.len());
}

pub(crate) fn a_client_that_leaves_takes_its_request_with_it(shell: Shell) {
    let (world, puppet) = shell.setup().start_with_puppet();
    // In the middle of a stream.
    let (mut client, mut visit) = streaming(&world, &puppet);
    visit.chunk("data: 1\n\n");
    assert!(client.event().unwrap().is_some());
    assert_eq!(world.metric("appproxy_requests_in_flight"), 1.0);
    drop(client);
    visit.wait_closed(AT_ONCE);
    // Before the answer's head, streaming or not.
    for request in [streamed_chat("puppet"), chat("puppet")] {
        let client = request.bearer("sk-all").open(world.data()).unwrap();
        let mut visit = puppet.visit();
        drop(client);
        visit.wait_closed(AT_ONCE);
    }
    wait::until("no request in flight", AT_ONCE, || world.metric("appproxy_requests_in_flight") == 0.0);
    assert!(!puppet.was_visited(), "nobody tries again for a client that is gone");
    assert_eq!(world.metric("appproxy_retries_total"), 0.0);
    // It is not held against the replica.
    let client = chat("puppet").bearer("sk-all").open(world.data()).unwrap();
    puppet.visit().answer("{}");
    assert_eq!({ client }.answer().unwrap().status(), 200);
}

pub(crate) fn a_replica_that_dies_in_a_stream_ends_it_visibly(shell: Shell) {
    let (world, puppet) = shell.setup().start_with_puppet();
    // After a whole event, and after half of one: a blank line keeps the two apart.
    for (said, glue) in [("data: 1\n\n", ""), ("data: 1\n\ndata: {\"half", "\n\n")] {
        let (mut client, mut visit) = streaming(&world, &puppet);
        visit.chunk(said);
        drop(visit);
        let rest = client.raw_to_end().unwrap();
        let text = String::from_utf8_lossy(&rest);
        assert!(text.contains(said), "{text:?}");
        assert!(text.contains(&format!("{glue}data: {{\"error\":")) && text.contains("upstream_error"), "{text:?}");
        assert!(
            !text.contains("[DONE]") && !text.ends_with("0\r\n\r\n"),
            "a broken stream must not end well: {text:?}"
        );
    }
    // The same on Anthropic's surface, in its own words.
    let body = r#"{"model":"puppet","max_tokens":1,"stream":true,"messages":[]}"#;
    let mut client = Request::post_json("/v1/messages", body).header("x-api-key", "sk-all").open(world.data()).unwrap();
    let mut visit = puppet.visit();
    visit.begin_events();
    visit.chunk("event: message_start\ndata: {}\n\n");
    drop(visit);
    assert_eq!(client.head().unwrap().status, 200);
    assert_eq!(client.event().unwrap().unwrap().event.as_deref(), Some("message_start"));
    let last = client.event().unwrap().unwrap();
    assert_eq!(last.event.as_deref(), Some("error"));
    assert!(last.data.starts_with(r#"{"error":{"#) || last.data.contains(r#""type":"error""#), "{}", last.data);
    assert!(client.event().is_err(), "the connection breaks after it");
    assert!(world.metrics().contains("appproxy_responses_cut_total{by="), "{}", world.metrics());
}

pub(crate) fn half_a_body_is_never_a_whole_one(shell: Shell) {
    let (world, puppet) = shell.setup().start_with_puppet();
    // By length: the length is kept, and not filled.
    let mut client = chat("puppet").bearer("sk-all").open(world.data()).unwrap();
    let mut visit = puppet.visit();
    visit.say("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{\"half\":");
    drop(visit);
    let cut = client.answer().unwrap_err();
    assert_eq!(cut.kind(), std::io::ErrorKind::UnexpectedEof, "{cut}");
    // By chunks, no event stream: nothing is added, the end is missing.
    let mut client = chat("puppet").bearer("sk-all").open(world.data()).unwrap();
    let mut visit = puppet.visit();
    visit.say(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{\"half\":\r\n",
    );
    drop(visit);
    let text = String::from_utf8_lossy(&client.raw_to_end().unwrap()).into_owned();
    assert!(text.contains("{\"half\":") && !text.contains("error") && !text.ends_with("0\r\n\r\n"), "{text:?}");
    // Before the head: a real status. There is nobody else to ask, so it is asked twice more.
    let mut client = chat("puppet").bearer("sk-all").open(world.data()).unwrap();
    (0..3).for_each(|_| drop(puppet.visit()));
    let answer = client.answer().unwrap();
    assert_eq!(answer.status(), 502, "{}", answer.text());
    assert!(answer.text().contains("upstream_error"), "{}", answer.text());

    // The same of the mock replica's own switches.
    world.replicas[0].behave(Behaviour { half_body: true, ..Behaviour::default() });
    let cut = chat("chat").bearer("sk-all").send(world.data()).unwrap_err();
    assert_eq!(cut.kind(), std::io::ErrorKind::UnexpectedEof, "{cut}");
    world.replicas[0].behave(Behaviour { die_after_chunks: Some(2), ..Behaviour::default() });
    let mut client = streamed_chat("chat").bearer("sk-all").open(world.data()).unwrap();
    let text = String::from_utf8_lossy(&client.raw_to_end().unwrap()).into_owned();
    assert!(text.contains("upstream_error") && !text.contains("[DONE]"), "{text:?}");
}

pub(crate) fn a_silent_replica_meets_its_time_limits(shell: Shell) {
    let limits = "request:\n  first_byte_timeout: \"300ms\"\n  idle_timeout: \"300ms\"\n";
    let (world, puppet) = shell.setup().sections(limits).start_with_puppet();
    let mut client = chat("puppet").bearer("sk-all").open(world.data()).unwrap();
    let mut visit = puppet.visit();
    let answer = client.answer().unwrap();
    assert_eq!(answer.status(), 504, "{}", answer.text());
    assert!(answer.text().contains("upstream_timeout"), "{}", answer.text());
    visit.wait_closed(AT_ONCE);
    let (mut client, mut visit) = streaming(&world, &puppet);
    visit.chunk("data: 1\n\n");
    assert!(client.event().unwrap().is_some());
    assert!(client.event().unwrap().unwrap().data.contains("upstream_timeout"));
    assert!(client.event().is_err(), "the connection breaks after it");
    visit.wait_closed(AT_ONCE);
}
