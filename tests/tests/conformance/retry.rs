//! Who is asked next, and what the client gets when nobody answers (data-plane 3.4, 3.6).

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use appproxy_fixtures::replica::{Behaviour, Failing};
use appproxy_tests::http::Request;
use appproxy_tests::plain::{NO_PROBES, NO_QUARANTINE, Plain};
use appproxy_tests::scratch::Scratch;
use appproxy_tests::shell::Shell;
use appproxy_tests::world::{chat, streamed_chat};
use serde_json::Value;

fn failing(status: u16) -> Behaviour {
    let failing = Failing { status, body: None, content_type: None, retry_after: None };
    Behaviour { fail: Some(failing), ..Behaviour::default() }
}

fn alone(more: &str) -> String {
    [NO_PROBES, NO_QUARANTINE, more].concat()
}

/// Answers the first request of every connection, and closes it when the second one has come: the most awkward moment.
fn closes_on_the_second(listener: &TcpListener) {
    while let Ok((stream, _)) = listener.accept() {
        thread::spawn(move || serve_one(stream));
    }
}

fn serve_one(mut stream: TcpStream) {
    let mut byte = [0];
    for answered in [false, true] {
        let mut seen = Vec::new();
        // Both requests are the same small chat, whose last field is the model.
        while !seen.ends_with(b"\"m\"}") {
            if !matches!(stream.read(&mut byte), Ok(1)) {
                return;
            }
            seen.extend(byte);
        }
        if answered {
            return;
        }
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}");
    }
}

pub(crate) fn r1_a_stale_pooled_connection_is_invisible_to_the_caller(shell: Shell) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || closes_on_the_second(&listener));
    let backend = format!("  - {{name: b, url: \"http://127.0.0.1:{port}\", models: [m]}}\n");
    let plain = Plain::start_with(shell, &[("other", "n")], &backend, &alone("request: {max_retries: 0}\n"));
    // Every second request meets a connection that is closed on it, and goes out again: on a kept connection, and on new
    // ones.
    for _ in 0..6 {
        let answer = chat("m").send(plain.data()).unwrap();
        assert_eq!(answer.status(), 200, "{}", answer.text());
    }
    assert_eq!(plain.metric("appproxy_retries_total"), 0.0, "nobody was asked twice");
    // A replica that is started again between two requests has dropped all its connections.
    let (mut plain, ask) = (plain, |plain: &Plain| plain.served_by("n"));
    for _ in 0..3 {
        assert_eq!(ask(&plain), "other");
        plain.kill(0);
        plain.revive(0);
    }
    assert_eq!(ask(&plain), "other");
}

/// Answers every request of every connection with `answer`.
fn always_answers(listener: &TcpListener, answer: &'static str) {
    while let Ok((mut stream, _)) = listener.accept() {
        thread::spawn(move || {
            let (mut seen, mut byte) = (Vec::new(), [0]);
            while matches!(stream.read(&mut byte), Ok(1)) {
                seen.extend(byte);
                if seen.ends_with(b"\"m\"}") && stream.write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        });
    }
}

pub(crate) fn s7_an_answer_that_may_end_at_two_places_is_none(shell: Shell) {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{} ",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n{}",
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || always_answers(&listener, answer));
        let backend = format!("  - {{name: b, url: \"http://127.0.0.1:{port}\", models: [m]}}\n");
        let plain = Plain::start_with(shell, &[("other", "n")], &backend, &alone("request: {max_retries: 0}\n"));
        let refused = chat("m").send(plain.data()).unwrap();
        assert_eq!(refused.status(), 502, "{answer}: {}", refused.text());
        // Nothing of it is left on a connection that somebody else's request goes over.
        assert_eq!(chat("m").send(plain.data()).unwrap().status(), 502);
        assert_eq!(plain.served_by("n"), "other");
    }
}

pub(crate) fn r2_a_callers_mistakes_never_count_against_a_replica(shell: Shell) {
    let more = [NO_PROBES, "passive: {failures: 2, ejection: 300s}\n"].concat();
    let own = "  - {name: own, url: \"http://127.0.0.1:9\", models: [own], api_key: sk-ours}\n";
    let plain = Plain::start_with(shell, &[("one", "m"), ("two", "m")], own, &more);
    for status in [400, 404, 413, 422, 401] {
        plain.replicas.iter().for_each(|replica| replica.behave(failing(status)));
        for _ in 0..10 {
            let answer = plain.ask("m");
            assert_eq!(answer.status(), status);
            assert!(answer.text().contains("failing on purpose"), "unchanged: {}", answer.text());
        }
        plain.replicas.iter().for_each(|replica| replica.behave(Behaviour::default()));
        for _ in 0..2 {
            assert_eq!(plain.ask("m").status(), 200, "a good one after ten of {status}");
        }
    }
    let limited = Failing { status: 429, body: None, content_type: None, retry_after: Some(7) };
    let limited = Behaviour { fail: Some(limited), ..Behaviour::default() };
    plain.replicas.iter().for_each(|replica| replica.behave(limited.clone()));
    for _ in 0..10 {
        let answer = plain.ask("m");
        assert_eq!((answer.status(), answer.head.header("retry-after")), (429, Some("7")));
    }
    assert_eq!(plain.metric("appproxy_ejections_total"), 0.0);
    assert_eq!(plain.metric("appproxy_retries_total"), 0.0);
    assert_eq!(plain.metric("appproxy_fallbacks_total"), 0.0);
}

pub(crate) fn r2_a_refusal_of_our_own_credential_is_502_and_an_alarm(shell: Shell) {
    let mut replica = Plain::start(shell, &[("r", "m")], &alone(""));
    let address = replica.replicas[0].address();
    let own = format!("  - {{name: own, url: \"http://{address}\", models: [own], api_key: sk-ours}}\n");
    let plain = Plain::start_with(shell, &[], &own, &alone(""));
    for status in [401, 403] {
        replica.replicas[0].behave(failing(status));
        let answer = plain.ask("own");
        assert_eq!(answer.status(), 502, "{}", answer.text());
        assert!(!answer.text().contains("sk-ours") && !answer.text().contains("127.0.0.1"), "{}", answer.text());
    }
    assert_eq!(plain.metric("appproxy_credentials_refused_total"), 2.0);
    // Without a credential of ours it is the replica's word.
    replica.replicas[0].behave(failing(401));
    assert_eq!(replica.ask("m").status(), 401);
    assert!(replica.worker().program().is_running());
}

pub(crate) fn r3_a_stand_in_is_treated_like_a_direct_call_and_named(shell: Shell) {
    let chain = "fallback: {fallback_chains: {m: [gone, n, k]}}\n";
    let mut plain = Plain::start(shell, &[("asked", "m"), ("other", "n"), ("last", "k")], &alone(chain));
    let direct = plain.ask("m");
    assert!(direct.text().contains("asked") && direct.head.header("x-appproxy-fallback").is_none());
    plain.kill(0);
    // The one that is not there is passed over. The next knows no other name: the one in the body was exchanged.
    let answer = plain.ask("m");
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert!(answer.text().contains("\"served_by\":\"other\""), "{}", answer.text());
    assert_eq!(answer.head.header("x-appproxy-fallback"), Some("n"));
    assert_eq!(answer.head.header("x-appproxy-model"), Some("m"));
    assert_eq!(plain.metric("appproxy_fallbacks_total"), 1.0);
    // It fails as well: the next, and nobody twice.
    plain.replicas[1].behave(failing(503));
    let before = plain.replicas[1].requests();
    let answer = plain.ask("m");
    assert_eq!(answer.head.header("x-appproxy-fallback"), Some("k"), "{}", answer.text());
    assert_eq!(plain.replicas[1].requests(), before + 1);

    // Circles are refused when they are read.
    let scratch = Scratch::new("circle").unwrap();
    for chains in ["{a: [b], b: [a]}", "{a: [a]}"] {
        let text = format!(
            "fallback: {{fallback_chains: {chains}}}\nbackends: [{{name: x, url: \"http://h\", models: [a, b]}}]\n"
        );
        let file = scratch.write("circle.yaml", &text).unwrap();
        let checked = shell.command(["check", "--config"]).unwrap().arg(file).output().unwrap();
        assert_eq!(checked.status.code(), Some(2), "{chains}");
        assert!(String::from_utf8_lossy(&checked.stderr).contains("fallback_chains"), "{chains}");
    }
}

pub(crate) fn r4_when_every_target_fails_the_client_gets_a_real_status(shell: Shell) {
    let replicas = [("unwell", "m"), ("dead", "m"), ("mute", "m"), ("stand-in", "n")];
    let chain = "fallback: {fallback_chains: {m: [n]}}\n";
    for (more, stands_in) in [("", false), (chain, true)] {
        let mut plain = Plain::start(shell, &replicas, &alone(more));
        plain.replicas[0].behave(failing(503));
        plain.kill(1);
        plain.replicas[2].behave(Behaviour { refuse: true, ..Behaviour::default() });
        plain.replicas[3].behave(failing(503));
        for _ in 0..3 {
            let answer = plain.send(&streamed_chat("m"));
            assert!(matches!(answer.status(), 502 | 503), "{} {}", answer.status(), answer.text());
            let body: Value = serde_json::from_slice(&answer.body).expect("no stream, but one JSON body");
            assert!(body["error"]["message"].is_string() && !answer.text().contains("127.0.0.1"), "{}", answer.text());
            assert!(answer.status() != 503 || answer.head.header("retry-after").is_some());
        }
        let asked = |at: usize| plain.replicas[at].requests();
        assert!((asked(0), asked(2)) >= (3, 3), "all of them were tried, each once: {} {}", asked(0), asked(2));
        assert_eq!(asked(3) > 0, stands_in, "the stand-in was asked when there is a chain, and only then");
        // On Anthropic's surface in its own words.
        let body = r#"{"model":"m","max_tokens":1,"stream":true,"messages":[]}"#;
        let answer = plain.send(&Request::post_json("/v1/messages", body));
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        assert!(answer.status() >= 502, "{}", answer.text());
        assert!(body["error"]["message"].is_string(), "{}", answer.text());
    }
}

pub(crate) fn after_the_first_byte_nothing_is_asked_again(shell: Shell) {
    let plain = Plain::start(shell, &[("one", "m"), ("two", "m")], &alone(""));
    plain.replicas[0].behave(Behaviour { die_after_chunks: Some(1), ..Behaviour::default() });
    let mut broken = 0;
    for _ in 0..4 {
        let mut client = streamed_chat("m").header("Connection", "close").open(plain.data()).unwrap();
        let text = String::from_utf8_lossy(&client.raw_to_end().unwrap()).into_owned();
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        broken += u64::from(!text.contains("[DONE]"));
    }
    assert!(broken > 0, "none met the one that dies");
    assert_eq!((plain.replicas[0].requests(), plain.replicas[1].requests()), (broken, 4 - broken));
}

pub(crate) fn a_body_too_large_to_be_kept_is_sent_once(shell: Shell) {
    let plain = Plain::start(shell, &[("one", "m"), ("two", "m")], &alone("request: {retry_buffer: 128}\n"));
    plain.replicas[0].behave(failing(503));
    let large = format!(r#"{{"model":"m","messages":[],"x":"{}"}}"#, "hi ".repeat(100));
    let mut refused = 0;
    for _ in 0..4 {
        let answer = plain.send(&Request::post_json("/v1/chat/completions", &large));
        refused += u64::from(answer.status() == 503);
    }
    assert!(refused > 0, "none met the one that fails");
    assert_eq!((plain.replicas[0].requests(), plain.replicas[1].requests()), (refused, 4 - refused));
    for _ in 0..2 {
        assert_eq!(plain.ask("m").status(), 200, "a small one is sent again");
    }
}
