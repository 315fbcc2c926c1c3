//! What a worker holds at most, how long it trusts what it has, and what slow or hasty peers meet.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use appproxy_tests::http::{Connection, Request};
use appproxy_tests::puppet::Puppet;
use appproxy_tests::shell::Shell;
use appproxy_tests::wait::{self, PATIENCE};
use appproxy_tests::world::{chat, streamed_chat};
use serde_json::json;

pub(crate) fn a_client_that_does_not_read_slows_the_replica_down(shell: Shell) {
    const MOST: usize = 256 * 1024 * 1024;
    let (world, puppet) = shell.setup().start_with_puppet();
    let mut client = streamed_chat("puppet").bearer("sk-all").open(world.data()).unwrap();
    let mut visit = puppet.visit();
    visit.begin_events();
    assert_eq!(client.head().unwrap().status, 200);
    // Nobody reads: what the sockets of the system hold is taken, and no more.
    let taken = visit.flood(MOST, Duration::from_secs(1));
    assert!(taken < MOST / 2, "{taken} bytes were taken for a client that reads nothing");
    // It reads again, and all of it comes.
    let mut seen = 0;
    while seen < taken - taken / 0x10000 * 16 {
        seen += client.piece().unwrap().expect("more to come").len();
    }
    drop(client);
}

pub(crate) fn bodies_in_memory_are_bounded_over_all_requests(shell: Shell) {
    let world = shell.setup().server("max_buffered: \"64KiB\"").server("max_body_size: \"64KiB\"").start();
    let begin = |length: usize| {
        let mut connection = Connection::open(world.data(), PATIENCE).unwrap();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sk-all\r\nContent-Length: {length}\r\n\r\n"
        );
        connection.send_raw(head.as_bytes()).unwrap();
        connection
    };
    let body = json!({"model": "chat", "messages": [], "x": "y".repeat(40_000)}).to_string();
    // Whichever of the two is read first has the room, and the other is refused: until it is the second one.
    let in_flight = |requests: f64| {
        wait::until("the requests in flight", PATIENCE, || world.metric("appproxy_requests_in_flight") == requests);
    };
    let mut first = wait::for_some("the room to be used by the first", PATIENCE, || {
        in_flight(0.0);
        let mut first = begin(body.len());
        first.send_raw(&body.as_bytes()[..39_000]).unwrap();
        in_flight(1.0);
        let mut second = begin(body.len());
        second.send_raw(body.as_bytes()).unwrap();
        let answer = second.answer().unwrap();
        if answer.status() == 200 {
            return None;
        }
        assert_eq!(answer.status(), 503, "{}", answer.text());
        assert!(answer.text().contains("overloaded") && answer.head.header("retry-after").is_some());
        Some(first)
    });
    assert_eq!(world.chat("sk-all", "chat").status(), 200, "small ones fit beside it");
    first.send_raw(&body.as_bytes()[39_000..]).unwrap();
    assert_eq!(first.answer().unwrap().status(), 200);
    // Its room is free again.
    let mut third = begin(body.len());
    third.send_raw(body.as_bytes()).unwrap();
    assert_eq!(third.answer().unwrap().status(), 200);
}

/// Most clients write their whole body before they read: the refusal must not be lost in a reset.
pub(crate) fn a_client_that_sends_all_of_a_body_far_too_large_gets_its_413(shell: Shell) {
    let world = shell.setup().server("max_body_size: \"64KiB\"").start();
    let body = json!({"model": "chat", "messages": [], "x": "y".repeat(8 * 1024 * 1024)}).to_string();
    let with_length = Request::post_json("/v1/chat/completions", &body).bearer("sk-all");
    let chunked = Request::post_json("/v1/chat/completions", &format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()))
        .bearer("sk-all")
        .header("Transfer-Encoding", "chunked");
    let refused = Request::post_json("/v1/chat/completions", &body).bearer("sk-none");
    for (request, status) in [(with_length, 413), (chunked, 413), (refused, 401)] {
        for _ in 0..5 {
            let answer = request.send(world.data());
            assert_eq!(answer.as_ref().map(|answer| answer.status()).ok(), Some(status), "{answer:?}");
        }
    }
}

pub(crate) fn connections_beyond_the_bound_wait_for_a_place_and_then_are_told(shell: Shell) {
    let world = shell.setup().server("max_connections: 2").start();
    let ask = |connection: &mut Connection| {
        connection.send(&Request::get("/livez")).unwrap();
        connection.answer().map(|answer| answer.status())
    };
    let mut first = Connection::open(world.data(), PATIENCE).unwrap();
    let mut second = Connection::open(world.data(), PATIENCE).unwrap();
    assert_eq!((ask(&mut first).unwrap(), ask(&mut second).unwrap()), (200, 200));
    let mut third = Connection::open(world.data(), PATIENCE).unwrap();
    assert_eq!(ask(&mut third).unwrap(), 503);
    let mut fourth = Connection::open(world.data(), PATIENCE).unwrap();
    drop(first);
    assert_eq!(ask(&mut fourth).unwrap(), 200, "a place came free in time");
}

pub(crate) fn heads_beyond_the_bound_are_refused_and_large_bodies_are_asked_for(shell: Shell) {
    let (world, puppet) = shell.setup().server("max_header_size: \"8KiB\"").start_with_puppet();
    let fits = chat("chat").bearer("sk-all").header("X-Long", &"x".repeat(7_000));
    assert_eq!(world.send(&fits).status(), 200);
    let beyond = Request::get("/livez").header("X-Long", &"x".repeat(9_000)).send(world.data());
    assert!(beyond.as_ref().map_or(true, |answer| answer.status() == 431), "{beyond:?}");
    // In words too when it comes in pieces, too long by its last byte (the empty line's own end is not counted).
    let lead = "GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: ";
    let head = format!("{lead}{}\r\n\r\n", "x".repeat(8 * 1024 + 2 - lead.len() - 4));
    let mut client = Connection::open(world.data(), PATIENCE).unwrap();
    for piece in head.as_bytes().chunks(1024) {
        client.send_raw(piece).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let answer = client.answer().unwrap();
    assert_eq!(answer.status(), 431);
    assert!(answer.text().contains("larger than 8192 bytes"), "{}", answer.text());

    let body = json!({"model": "puppet", "messages": []}).to_string();
    let mut client = Connection::open(world.data(), PATIENCE).unwrap();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sk-all\r\nExpect: 100-continue\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    client.send_raw(head.as_bytes()).unwrap();
    assert_eq!(client.interim_or_head().unwrap().status, 100);
    client.send_raw(body.as_bytes()).unwrap();
    let visit = puppet.visit();
    assert_eq!((visit.body(), visit.header("expect")), (body.as_bytes(), None));
    visit.answer("{}");
    assert_eq!(client.answer().unwrap().status(), 200);
    // Refused by its key: nobody asks for the body.
    let mut client = Connection::open(world.data(), PATIENCE).unwrap();
    client.send_raw(head.replace("sk-all", "sk-none").as_bytes()).unwrap();
    assert_eq!(client.interim_or_head().unwrap().status, 401);
}

pub(crate) fn a_key_ends_to_the_second(shell: Shell) {
    let world = shell.setup().start();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let end = now().as_secs() + 3;
    let text = jiff::Timestamp::from_second(end.try_into().unwrap()).unwrap().to_string();
    assert_eq!(world.key("short", "sk-short", json!({"expires_at": text})), "acked");
    let (mut last_good, mut asked) = (Duration::ZERO, 0);
    let first_bad = wait::for_some("the end of the key", PATIENCE, || {
        let before = now();
        let answer = world.chat("sk-short", "chat");
        asked += 1;
        if answer.status() == 200 {
            last_good = before;
            return None;
        }
        assert!(answer.text().contains("expired_api_key"), "{}", answer.text());
        Some(now())
    });
    assert!(asked > 1, "it was good at first");
    let end = Duration::from_secs(end);
    assert!(last_good < end && first_bad >= end, "good at {last_good:?}, refused at {first_bad:?}, its end is {end:?}");
}

pub(crate) fn k1_trust_in_old_state_can_be_bounded(shell: Shell) {
    let setup = shell.setup().reconcile("200ms").router("max_staleness: \"1s\"").router("max_key_staleness: \"2s\"");
    let mut world = setup.start();
    assert_eq!(world.chat("sk-all", "chat").status(), 200);
    world.kill_coordinator();
    let ready = || world.send(&Request::get("/readyz")).status();
    wait::until("/readyz to say 503", PATIENCE, || ready() == 503);
    world.wait_chat("sk-all", "chat", 503, PATIENCE);
    let answer = world.chat("sk-all", "chat");
    assert!(answer.text().contains("not_ready") && answer.head.header("retry-after").is_some(), "{}", answer.text());
    assert_eq!(world.send(&chat("chat")).status(), 401);
    world.revive_coordinator();
    world.wait_chat("sk-all", "chat", 200, PATIENCE);
    let data = world.data().to_owned();
    world.worker().wait_ready(&data, PATIENCE);
}

pub(crate) fn r5_one_stuck_replica_harms_only_itself(shell: Shell) {
    let (world, stuck) = shell.setup().start_with_puppet();
    let waiting: Vec<Connection> =
        (0..100).map(|_| chat("puppet").bearer("sk-all").open(world.data()).unwrap()).collect();
    for _ in 0..20 {
        assert_eq!(world.chat("sk-all", "chat").status(), 200);
    }
    wait::until("all of them to be in flight", PATIENCE, || world.metric("appproxy_requests_in_flight") == 100.0);
    assert_eq!(world.chat("sk-all", "chat").status(), 200);
    drop(waiting);
    wait::until("none to be in flight", PATIENCE, || world.metric("appproxy_requests_in_flight") == 0.0);
    drop::<Puppet>(stuck);
}

pub(crate) fn a_hangup_is_no_end_and_pages_answer_browsers(shell: Shell) {
    let mut world = shell.setup().bind("[::1]:0").server("cors: {allowed_origins: [\"https://app.test\"]}").start();
    world.program().signal("HUP").unwrap();
    world.worker().log().wait_for("SIGHUP", PATIENCE);
    assert_eq!(world.chat("sk-all", "chat").status(), 200);
    let v6 = world.all_data().iter().find(|address| address.starts_with("[::1]")).cloned().unwrap();
    assert_eq!(chat("chat").bearer("sk-all").send(&v6).unwrap().status(), 200);
    let preflight = Request::new("OPTIONS", "/v1/chat/completions")
        .header("Origin", "https://app.test")
        .header("Access-Control-Request-Method", "POST");
    let answer = world.send(&preflight);
    assert_eq!((answer.status(), answer.head.header("access-control-allow-origin")), (204, Some("https://app.test")));
    let other = world.send(&preflight_of("https://evil.test"));
    assert_eq!(other.head.header("access-control-allow-origin"), None);
}

fn preflight_of(origin: &str) -> Request {
    Request::new("OPTIONS", "/v1/chat/completions")
        .header("Origin", origin)
        .header("Access-Control-Request-Method", "POST")
}
