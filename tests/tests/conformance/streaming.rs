//! Answers pass through as they come, end as they end, and break visibly when they break.

use std::time::Duration;

use appproxy_fixtures::replica::Behaviour;
use appproxy_tests::http::{Connection, Request};
use appproxy_tests::puppet::{Puppet, Visit};
use appproxy_tests::shell::Shell;
use appproxy_tests::wait::{self, PATIENCE};
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

/// Sends each piece only once the one before was seen by the client.
#[track_caller]
fn one_by_one(client: &mut Connection, visit: &mut Visit, pieces: &[&[u8]]) {
    for piece in pieces {
        visit.chunk(piece);
        let mut seen = Vec::new();
        while seen.len() < piece.len() {
            seen.extend(client.piece().expect("it comes before the next is sent").expect("more to come"));
        }
        assert_eq!(seen, *piece);
    }
}

pub(crate) fn s1_characters_split_across_reads_survive(shell: Shell) {
    let (world, puppet) = shell.setup().start_with_puppet();
    let (mut client, mut visit) = streaming(&world, &puppet);
    let emoji = "\u{1f980}".as_bytes();
    let pieces: [&[u8]; 7] = [
        b"data: {\"t\":\"\xe4",
        b"\xbd\xa0\"}\n\n",
        &emoji[..1],
        &emoji[1..2],
        &emoji[2..3],
        &emoji[3..],
        b"\r\n\r\n\x00\xff\xfe",
    ];
    one_by_one(&mut client, &mut visit, &pieces);
    visit.say("0\r\n\r\n");
    assert_eq!(client.piece().unwrap(), None, "the end of the stream is its end");
}

pub(crate) fn s2_every_event_is_passed_on_at_once(shell: Shell) {
    let (world, puppet) = shell.setup().start_with_puppet();
    let request = streamed_chat("puppet").bearer("sk-all").header("Accept-Encoding", "gzip, br");
    let mut client = request.open(world.data()).unwrap();
    let mut visit = puppet.visit();
    visit.begin_events();
    // The head arrives before any event, and promises nothing that would collect them.
    let head = client.head().unwrap();
    assert_eq!((head.status, head.header("content-encoding"), head.header("content-length")), (200, None, None));
    for number in 0..10 {
        one_by_one(
            &mut client,
            &mut visit,
            &[format!("data: {{\"number\":{number},\"t\":\"forty bytes\"}}\n\n").as_bytes()],
        );
    }
    one_by_one(&mut client, &mut visit, &[&[b'x'; 70_000], b"data: [DONE]\n\n"]);
    visit.say("0\r\n\r\n");
    assert_eq!(client.piece().unwrap(), None);
}

pub(crate) fn s5_comments_pass_as_comments_without_waiting_for_content(shell: Shell) {
    let limits = "request:\n  idle_timeout: \"2s\"\n";
    let (world, puppet) = shell.setup().sections(limits).start_with_puppet();
    let (mut client, mut visit) = streaming(&world, &puppet);
    one_by_one(&mut client, &mut visit, &[b": working\n\n", b":\n", b"\n", b": working\n\n"]);
    // Nothing of ours comes in between.
    client.set_allowed(Duration::from_secs(1));
    assert_eq!(client.piece().unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    client.set_allowed(wait::PATIENCE);
    one_by_one(&mut client, &mut visit, &[b"data: 1\n\n", b"data: [DONE]\n\n"]);
    visit.say("0\r\n\r\n");
    assert_eq!(client.piece().unwrap(), None);
}

pub(crate) fn s6_usage_comes_as_the_replica_sends_it_and_is_asked_for_by_the_client_alone(shell: Shell) {
    let (world, puppet) = shell.setup().start_with_puppet();
    let usage = r#""usage":{"prompt_tokens":1,"completion_tokens":2}"#;
    let lasts = [r#""choices": [],"#, r#""choices":[{"delta":{}}],"#, ""];
    let asked =
        ["", r#" , "stream_options": {"include_usage": true }"#, r#","stream_options":{"include_usage":false}"#];
    for (last, options) in lasts.into_iter().zip(asked) {
        let body = format!(r#"{{ "model":"puppet","stream" : true, "messages":[]{options}}}"#);
        let request = Request::post_json("/v1/chat/completions", &body).bearer("sk-all");
        let mut client = request.open(world.data()).unwrap();
        let mut visit = puppet.visit();
        assert_eq!(String::from_utf8_lossy(visit.body()), body, "nothing was asked for in the client's name");
        visit.begin_events();
        let said = format!(
            "data: {{\"choices\":[{{\"delta\":{{\"content\":\"a\"}}}}]}}\n\ndata: {{{last}{usage}}}\n\ndata: [DONE]\n\n"
        );
        visit.chunk(&said);
        visit.say("0\r\n\r\n");
        assert_eq!(client.answer().unwrap().text(), said);
    }
}

pub(crate) fn tokens_are_counted_as_answers_state_them(shell: Shell) {
    let (world, puppet) = shell.setup().start_with_puppet();
    let tokens = |kind: &str| {
        let of_kind = |line: &str| line.contains("model=\"puppet\"") && line.contains(&format!("kind=\"{kind}\""));
        let text = world.metrics();
        let lines = text.lines().filter(|line| line.starts_with("appproxy_tokens_total{") && of_kind(line));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
    };
    let whole = r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":20,"total_tokens":23}}"#;
    let mut client = chat("puppet").bearer("sk-all").open(world.data()).unwrap();
    puppet.visit().answer(whole);
    assert_eq!(client.answer().unwrap().text(), whole);
    let last = r#"{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":4000}}"#;
    let start = r#"{"type":"message_start","message":{"usage":{"input_tokens":50000,"output_tokens":1}}}"#;
    let delta = r#"{"type":"message_delta","delta":{},"usage":{"output_tokens":600000}}"#;
    for (path, events) in [("/v1/chat/completions", [last, "[DONE]"]), ("/v1/messages", [start, delta])] {
        let body = r#"{"model":"puppet","max_tokens":9,"stream":true,"messages":[]}"#;
        let mut client = Request::post_json(path, body).bearer("sk-all").open(world.data()).unwrap();
        let mut visit = puppet.visit();
        visit.begin_events();
        assert_eq!(client.head().unwrap().status, 200);
        for event in events {
            // Every piece passes before the next one comes, wherever it is cut.
            let (before, after) = event.split_at(event.len() / 2);
            visit.chunk(format!("data: {before}"));
            visit.chunk(format!("{after}\n\n"));
            assert_eq!(client.event().unwrap().unwrap().data, event);
        }
        visit.say("0\r\n\r\n");
        assert!(client.event().unwrap().is_none());
    }
    wait::until("what was stated to be counted", PATIENCE, || {
        (tokens("input"), tokens("output")) == (50_103.0, 604_020.0)
    });
}

pub(crate) fn s8_chunked_answers_arrive_whole_and_the_connection_is_used_again(shell: Shell) {
    let (world, puppet) = shell.setup().start_with_puppet();
    let mut client = Connection::open(world.data(), wait::PATIENCE).unwrap();
    client.send(&streamed_chat("puppet").bearer("sk-all")).unwrap();
    let mut visit = puppet.visit();
    for round in 0..3 {
        // The next request comes on the same connection: the end was recognised.
        if round > 0 {
            client.send(&streamed_chat("puppet").bearer("sk-all")).unwrap();
            visit.next_request().unwrap();
        }
        visit.begin_events();
        let mut sent = Vec::new();
        for (number, size) in [4087_usize, 1, 4096, 8183, 65_536, 8192, 1].into_iter().enumerate() {
            let bytes: Vec<u8> = (0..size).map(|at| u8::try_from((at * 7 + number + round) % 251).unwrap()).collect();
            visit.say(format!("{size:x};ext=1;q=\"a;b\"\r\n"));
            visit.say(&bytes);
            visit.say("\r\n");
            sent.extend(bytes);
        }
        visit.say("0\r\nX-Trailer: t\r\n\r\n");
        let answer = client.answer().unwrap();
        assert_eq!(answer.status(), 200);
        assert!(answer.body == sent, "{} bytes came of {}", answer.body.len(), sent.len());
    }
    assert!(!puppet.was_visited(), "one connection was enough");
}

pub(crate) fn s4_when_the_caller_leaves_the_work_stops(shell: Shell) {
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
    // While a retry waits to start: there is nobody else to ask, so it pauses first.
    let client = chat("puppet").bearer("sk-all").open(world.data()).unwrap();
    drop(puppet.visit());
    drop(client);
    wait::until("no request in flight", AT_ONCE, || world.metric("appproxy_requests_in_flight") == 0.0);
    // At most the retry that had already begun: nobody tries again and again for a client that is gone.
    let late = (0..3).filter(|_| puppet.was_visited()).count();
    assert!(late <= 1, "{late} visits for a client that is gone");
    // It is not held against the replica.
    let client = chat("puppet").bearer("sk-all").open(world.data()).unwrap();
    puppet.visit().answer("{}");
    assert_eq!({ client }.answer().unwrap().status(), 200);
}

pub(crate) fn s3_a_replica_that_dies_in_a_stream_ends_it_visibly(shell: Shell) {
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

pub(crate) fn s3_half_a_body_is_never_a_whole_one(shell: Shell) {
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
