//! Who is asked no more, and who is asked again: by probes and by live traffic (data-plane 4).

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use appproxy_fixtures::replica::Behaviour;
use appproxy_tests::plain::{NO_PROBES, NO_QUARANTINE, Plain};
use appproxy_tests::shell::Shell;
use appproxy_tests::wait::{self, PATIENCE};
use appproxy_tests::world::chat;

const READY: &str = "appproxy_backends{health=\"ready\"}";
const DOWN: &str = "appproxy_backends{health=\"down\"}";

/// What the next probes are answered with; afterwards the last one, for ever.
type Series = Arc<Mutex<VecDeque<u16>>>;

/// Answers probes by the series, and requests with 200.
fn serve(mut stream: TcpStream, series: &Series) {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"\r\n\r\n") {
        if !matches!(stream.read(&mut byte), Ok(1)) {
            return;
        }
        seen.extend(byte);
    }
    let mut status = 200;
    if seen.starts_with(b"GET ") {
        let mut series = series.lock().expect("a lock");
        status = series.front().copied().unwrap_or(200);
        if series.len() > 1 {
            series.pop_front();
        }
    }
    let body = r#"{"object":"list","data":[{"id":"m"}]}"#;
    let _ = write!(
        stream,
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    // The rest of a request's body is taken, so that closing resets nothing.
    let _ = stream.set_read_timeout(Some(std::time::Duration::from_millis(100)));
    while matches!(stream.read(&mut [0; 1024]), Ok(1..)) {}
}

pub(crate) fn h1_health_changes_only_after_several_results_agree(shell: Shell) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let series: Series = Arc::new(Mutex::new(VecDeque::from([200])));
    let served = series.clone();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let series = served.clone();
            thread::spawn(move || serve(stream, &series));
        }
    });
    let more = "health_checks: {interval: 100ms, timeout: 1s, unhealthy_threshold: 3, healthy_threshold: 2}\n";
    let backend = format!("  - {{name: b, url: \"http://127.0.0.1:{port}\", models: [m]}}\n");
    let plain = Plain::start_with(shell, &[], &backend, &[more, NO_QUARANTINE].concat());
    plain.wait_metric(READY, 1.0, PATIENCE);
    let play = |results: &[u16]| {
        series.lock().unwrap().extend(results);
        wait::until("the series to be played", PATIENCE, || series.lock().unwrap().len() == 1);
    };
    // Bad and good in turn changes nothing.
    play(&[500, 200, 500, 500, 200, 500, 200, 500, 500]);
    assert_eq!((plain.metric(DOWN), plain.ask("m").status()), (0.0, 200));
    // The third in a row takes it out, the second good one brings it back.
    play(&[200, 500, 500, 500, 500]);
    plain.wait_metric(DOWN, 1.0, PATIENCE);
    assert_eq!(plain.ask("m").status(), 503);
    play(&[200, 500, 200, 200]);
    plain.wait_metric(READY, 1.0, PATIENCE);
    assert_eq!(plain.ask("m").status(), 200);
}

pub(crate) fn h2_a_replica_that_recovers_is_used_again_without_outside_help(shell: Shell) {
    let more = "health_checks: {interval: 100ms, timeout: 1s, unhealthy_threshold: 2, healthy_threshold: 2}\n";
    let mut plain = Plain::start(shell, &[("only", "m"), ("one", "n"), ("two", "n")], &[more, NO_QUARANTINE].concat());
    plain.wait_metric(READY, 3.0, PATIENCE);
    // Also when it is the only one.
    for index in [0, 1] {
        plain.kill(index);
        plain.wait_metric(DOWN, 1.0, PATIENCE);
        if index == 0 {
            let answer = plain.ask("m");
            assert_eq!(
                (answer.status(), answer.head.header("retry-after").is_some()),
                (503, true),
                "{}",
                answer.text()
            );
        } else {
            let before = plain.metric("appproxy_retries_total");
            (0..4).for_each(|_| assert_eq!(plain.served_by("n"), "two"));
            assert_eq!(plain.metric("appproxy_retries_total"), before, "it was not even tried");
        }
        plain.revive(index);
        plain.wait_metric(READY, 3.0, PATIENCE);
    }
    assert_eq!(plain.served_by("m"), "only");
    wait::until("both to serve again", PATIENCE, || plain.served_by("n") == "one");
}

pub(crate) fn a_replica_that_loads_its_model_is_left_alone_until_it_has(shell: Shell) {
    let often = "health_checks: {interval: 100ms, timeout: 1s, warmup_check_interval: 100ms, healthy_threshold: 2}\n";
    let plain = Plain::start(shell, &[("one", "m"), ("two", "m")], often);
    plain.replicas[0].behave(Behaviour { warming_up: true, ..Behaviour::default() });
    plain.wait_metric("appproxy_backends{health=\"warming_up\"}", 1.0, PATIENCE);
    (0..4).for_each(|_| assert_eq!(plain.served_by("m"), "two"));
    assert_eq!(plain.replicas[0].requests(), 0);
    plain.replicas[0].behave(Behaviour::default());
    plain.wait_metric(READY, 2.0, PATIENCE);
    wait::until("both to serve", PATIENCE, || plain.served_by("m") == "one");
}

pub(crate) fn a_replica_that_fails_live_traffic_is_put_into_quarantine(shell: Shell) {
    let more = [NO_PROBES, "passive: {failures: 3, ejection: 300s}\n"].concat();
    let mut plain = Plain::start(shell, &[("one", "m"), ("two", "m"), ("three", "n"), ("four", "n")], &more);
    // One that breaks off in the middle, and one whose failures a retry hides.
    plain.replicas[0].behave(Behaviour { half_body: true, ..Behaviour::default() });
    for _ in 0..6 {
        let _ = chat("m").send(plain.data());
    }
    plain.wait_metric("appproxy_ejections_total", 1.0, PATIENCE);
    (0..4).for_each(|_| assert_eq!(plain.served_by("m"), "two"));
    assert_eq!(plain.replicas[0].requests(), 3);
    plain.kill(2);
    (0..6).for_each(|_| assert_eq!(plain.served_by("n"), "four"));
    plain.wait_metric("appproxy_ejections_total", 2.0, PATIENCE);
    // Never the last one.
    plain.replicas[1].behave(Behaviour { half_body: true, ..Behaviour::default() });
    for _ in 0..6 {
        let _ = chat("m").send(plain.data());
    }
    plain.replicas[1].behave(Behaviour::default());
    assert_eq!(plain.served_by("m"), "two");
    assert_eq!(plain.metric("appproxy_ejections_total"), 2.0);
}

pub(crate) fn a_dead_replica_that_one_model_needs_is_passed_over_by_the_others(shell: Shell) {
    let more = [NO_PROBES, "passive: {failures: 3, ejection: 300s}\n"].concat();
    let dead = "  - {name: dead, url: \"http://127.0.0.1:1\", models: [shared, alone]}\n";
    let plain = Plain::start_with(shell, &[("well", "shared")], dead, &more);
    // Far more than the retry budget would bear, were half of them to meet the dead one first.
    (0..60).for_each(|_| assert_eq!(plain.served_by("shared"), "well"));
    assert_eq!(plain.metric("appproxy_ejections_total"), 1.0);
    assert_eq!(plain.metric("appproxy_retries_total"), 3.0);
    // The only replica of a model is asked whatever became of it.
    let answer = plain.ask("alone");
    assert_eq!((answer.status(), answer.head.header("x-appproxy-backend")), (502, Some("dead")));
}
