//! The end of a worker: what runs ends well, the coordinator is told, and the exit code says how it went.

use std::time::Duration;

use appproxy_tests::http::{Connection, Request};
use appproxy_tests::puppet::Visit;
use appproxy_tests::setup::Setup;
use appproxy_tests::shell::Shell;
use appproxy_tests::wait::{self, PATIENCE};
use appproxy_tests::world::{World, chat, endpoint, streamed_chat};
use serde_json::json;

/// A world with one stream running.
fn streaming(setup: Setup) -> (World, Connection, Visit) {
    let (world, puppet) = setup.start_with_puppet();
    let mut client = streamed_chat("puppet").bearer("sk-all").open(world.data()).expect("the worker listens");
    let mut visit = puppet.visit();
    visit.begin_events();
    visit.chunk("data: 1\n\n");
    assert_eq!(client.head().expect("a head").status, 200);
    assert!(client.event().expect("a stream").is_some());
    (world, client, visit)
}

fn nodes(world: &World) -> usize {
    world.state()["nodes"].as_array().map_or(0, Vec::len)
}

fn ready(address: &str) -> Option<u16> {
    Request::get("/readyz").send(address).ok().map(|answer| answer.status())
}

pub(crate) fn h4_a_stream_ends_well_after_sigterm_and_the_coordinator_is_told_last(shell: Shell) {
    let (mut world, mut client, mut visit) = streaming(shell.setup().server("drain_notice: \"2s\""));
    // An idle connection is kept alive meanwhile.
    let mut idle = Connection::open(world.data(), PATIENCE).unwrap();
    idle.send(&Request::get("/livez")).unwrap();
    assert_eq!(idle.answer().unwrap().status(), 200);
    let data = world.data().to_owned();
    world.program().signal("TERM").unwrap();
    // First not ready, while requests are still taken.
    wait::until("/readyz to say 503", PATIENCE, || ready(&data) == Some(503));
    assert_eq!(world.chat("sk-all", "chat").status(), 200);
    assert!(world.page("/health")["reasons"].to_string().contains("shutting down"), "{}", world.page("/health"));
    visit.chunk("data: 2\n\n");
    assert_eq!(client.event().unwrap().unwrap().data, "2");
    // Then the listeners close; the stream goes on, and the node is still there.
    wait::until("the listener to close", PATIENCE, || ready(&data).is_none());
    visit.chunk("data: 3\n\n");
    assert_eq!(client.event().unwrap().unwrap().data, "3");
    assert_eq!(nodes(&world), 1);
    // Events still count, though nothing is promised any more.
    visit.chunk("data: [DONE]\n\n");
    visit.say("0\r\n\r\n");
    assert_eq!(client.event().unwrap().unwrap().data, "[DONE]");
    assert_eq!(client.event().unwrap(), None, "the stream ends as it should");
    assert_eq!(world.program().wait_exit(PATIENCE).code(), Some(0));
    assert_eq!(nodes(&world), 0, "the coordinator was told");
    assert_eq!(idle.raw().unwrap(), b"");
}

pub(crate) fn a_busy_connection_is_told_of_the_end_before_it_comes(shell: Shell) {
    let mut world = shell.setup().server("drain_notice: \"2s\"").start();
    let data = world.data().to_owned();
    let asks = [
        chat("chat").bearer("sk-all"),
        streamed_chat("chat").bearer("sk-all"),
        // What we answer ourselves, and what we refuse.
        Request::get("/livez"),
        chat("chat"),
    ];
    let mut busy: Vec<_> = asks.iter().map(|ask| (Connection::open(&data, PATIENCE).unwrap(), ask)).collect();
    for (connection, ask) in &mut busy {
        connection.send(ask).unwrap();
        assert_eq!(connection.answer().unwrap().head.header("connection"), None);
    }
    world.program().signal("TERM").unwrap();
    wait::until("/readyz to say 503", PATIENCE, || ready(&data) == Some(503));
    for (mut connection, ask) in busy {
        connection.send(ask).unwrap();
        let answer = connection.answer().unwrap();
        assert_eq!(answer.head.header("connection"), Some("close"), "{answer:?}");
        assert_eq!(connection.raw().unwrap(), b"", "it closes at once");
    }
    // Who comes anew is still served.
    assert_eq!(world.chat("sk-all", "chat").status(), 200);
    assert_eq!(world.program().wait_exit(PATIENCE).code(), Some(0));
}

pub(crate) fn a_second_signal_ends_it_at_once_with_1(shell: Shell) {
    for (first, second) in [("TERM", "TERM"), ("INT", "TERM")] {
        let (mut world, _client, _visit) = streaming(shell.setup());
        world.program().signal(first).unwrap();
        let line = world.worker().log().wait_for("stopping", PATIENCE);
        assert!(line.contains(first), "{line}");
        assert!(world.program().is_running());
        // What comes within a moment of the first is still the first (a process group delivers twice): again, then.
        wait::until("the program to end", Duration::from_secs(5), || {
            let _ = world.program().signal(second);
            !world.program().is_running()
        });
        assert_eq!(world.program().wait_exit(PATIENCE).code(), Some(1));
    }
}

pub(crate) fn h4_past_the_shutdown_timeout_streams_are_cut_and_say_so(shell: Shell) {
    let (mut world, mut client, mut visit) = streaming(shell.setup().server("shutdown_timeout: \"500ms\""));
    let data = world.data().to_owned();
    // An answer that is no stream cannot say it, but must not look whole.
    let (mut whole, puppet) = (Connection::open(&data, PATIENCE).unwrap(), appproxy_tests::puppet::Puppet::start());
    world.circuit(8, &[puppet.port()]);
    world.publish("whole", &[], &[(8, 1.0)]);
    whole.send(&chat("whole").bearer("sk-all")).unwrap();
    let mut other = puppet.visit();
    other.say("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{\"half\":");
    assert_eq!(whole.head().unwrap().status, 200);

    world.program().signal("TERM").unwrap();
    let last = client.event().unwrap().unwrap();
    assert!(last.data.contains("overloaded") && last.data.contains("stopping"), "{}", last.data);
    let cut = client.event().unwrap_err();
    assert_ne!(cut.kind(), std::io::ErrorKind::TimedOut, "{cut}");
    assert_eq!(whole.rest().unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    assert_eq!(world.program().wait_exit(PATIENCE).code(), Some(0));
    assert_eq!(nodes(&world), 0, "the coordinator was told");
    visit.wait_closed(PATIENCE);
}

pub(crate) fn h4_a_stream_ends_well_though_its_replica_was_taken_away(shell: Shell) {
    let (world, mut client, mut visit) = streaming(shell.setup());
    // First no route to it is left, then its circuit goes, then its publication.
    world.set_routes(9, &[]);
    world.wait_chat("sk-all", "puppet", 503, PATIENCE);
    visit.chunk("data: 2\n\n");
    assert_eq!(client.event().unwrap().unwrap().data, "2");
    world.done("DELETE", &format!("/dev/circuits/{}", endpoint(9)), &serde_json::Value::Null);
    assert_eq!(world.unpublish("puppet"), "acked");
    world.wait_chat("sk-all", "puppet", 404, PATIENCE);
    assert_eq!(world.metric("appproxy_requests_in_flight"), 1.0);
    visit.chunk("data: [DONE]\n\n");
    visit.say("0\r\n\r\n");
    assert_eq!(client.event().unwrap().unwrap().data, "[DONE]");
    assert_eq!(client.event().unwrap(), None, "the stream ends as it should");
    wait::until("nothing to be in flight", PATIENCE, || world.metric("appproxy_requests_in_flight") == 0.0);
    // What it did is counted, and no series is kept for what is gone.
    let text = world.metrics();
    assert!(text.contains("model=\"removed\",backend=\"removed\",status=\"200\""), "{text}");
}

pub(crate) fn a_coordinator_that_is_gone_does_not_hold_a_worker_up(shell: Shell) {
    let mut world = shell.setup().start();
    world.kill_coordinator();
    let status = world.worker().terminate(Duration::from_secs(15));
    assert_eq!(status.code(), Some(0));
}

pub(crate) fn one_node_leaves_and_the_other_serves_on(shell: Shell) {
    let world = shell.setup().start();
    let (mut second, data, _admin) = world.another_worker();
    second.wait_ready(&data[0], PATIENCE);
    wait::until("two nodes", PATIENCE, || nodes(&world) == 2);
    let ask = |address: &str, model: &str| chat(model).bearer("sk-all").send(address).unwrap().status();
    assert_eq!(world.publish("both", &[], &[(1, 1.0)]), "acked");
    // The first ack answers, of whichever node.
    wait::until("both nodes to serve it", PATIENCE, || {
        ask(world.data(), "both") == 200 && ask(&data[0], "both") == 200
    });
    let digest = |address: &str| {
        let page = Request::get("/status").send(address).unwrap();
        serde_json::from_slice::<serde_json::Value>(&page.body).unwrap()["desired_state_digest"].clone()
    };
    assert_eq!(digest(world.data()), digest(&data[0]));
    world.key("gone", "sk-gone", json!({}));
    let answer = world.revoke("gone", true);
    assert_eq!(answer["confirmed"].as_array().map(Vec::len), Some(2), "{answer}");

    assert_eq!(second.terminate(PATIENCE).code(), Some(0));
    assert_eq!(nodes(&world), 1);
    assert_eq!(ask(world.data(), "both"), 200);
    assert_eq!(world.revoke("all", true)["unconfirmed"], json!([]));
    assert_eq!(ask(world.data(), "both"), 401);
}
