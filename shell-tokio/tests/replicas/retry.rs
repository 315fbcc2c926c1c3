//! Who is asked next (data-plane 3.4, 3.6), and bodies that come packed.

use std::io::Write;

use appproxy_fixtures::replica::{Behaviour, Failing};
use appproxy_fixtures::stage::StageReplica;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::stage::*;

fn unavailable() -> Behaviour {
    let failing = Failing { status: 503, body: None, content_type: None, retry_after: None };
    Behaviour { fail: Some(failing), ..Behaviour::default() }
}

fn alone(more: &str) -> String {
    [NO_PROBES, NO_QUARANTINE, more].concat()
}

#[tokio::test]
async fn after_a_503_and_after_no_connection_the_next_candidate_is_asked() {
    let (mut first, second) = two().await;
    let running = worker(&[(&first, "m"), (&second, "m")], &alone("")).await;
    first.behave(unavailable());
    for _ in 0..4 {
        let answer = ask(&running, CHAT).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("from two"), "{answer}");
    }
    let tried = first.requests();
    assert!(tried > 0 && second.requests() == 4);
    assert_eq!(metric(&running, "appproxy_retries_total").await, format!("appproxy_retries_total {tried}"));
    first.kill();
    for _ in 0..4 {
        let answer = ask(&running, CHAT).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("from two"), "{answer}");
    }
}

#[tokio::test]
async fn when_no_candidate_is_left_the_chain_stands_in_and_says_so() {
    let mut asked = StageReplica::start("asked", &["m"]).expect("replica");
    let other = StageReplica::start("other", &["n"]).expect("replica");
    let chain = "fallback: {fallback_chains: {m: [n]}}\n";
    let running = worker(&[(&asked, "m"), (&other, "n")], &alone(chain)).await;
    let answer = ask(&running, CHAT).await;
    assert!(answer.contains("from asked") && !answer.contains("x-appproxy-fallback"), "{answer}");
    asked.kill();
    let answer = ask(&running, CHAT).await;
    // It knows no other name: the one in the body was exchanged.
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("from other"), "{answer}");
    assert!(answer.contains("x-appproxy-fallback: n\r\n") && answer.contains("x-appproxy-model: m\r\n"), "{answer}");
    assert_eq!(metric(&running, "appproxy_fallbacks_total").await, "appproxy_fallbacks_total 1");
}

#[tokio::test]
async fn after_the_first_byte_nothing_is_asked_again() {
    let (first, second) = two().await;
    let running = worker(&[(&first, "m"), (&second, "m")], &alone("")).await;
    first.behave(Behaviour { die_after_chunks: Some(1), ..Behaviour::default() });
    let mut broken = 0;
    for _ in 0..4 {
        let answer = ask(&running, STREAM).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        broken += u64::from(!answer.contains("[DONE]"));
    }
    assert!(broken > 0);
    assert_eq!((first.requests(), second.requests()), (broken, 4 - broken));
}

#[tokio::test]
async fn a_body_too_large_to_be_kept_is_sent_once() {
    let (first, second) = two().await;
    let running = worker(&[(&first, "m"), (&second, "m")], &alone("request: {retry_buffer: 128}\n")).await;
    first.behave(unavailable());
    let large = CHAT.replace("hi", &"hi ".repeat(100));
    let mut refused = 0;
    for _ in 0..4 {
        let answer = ask(&running, &large).await;
        refused += u64::from(answer.starts_with("HTTP/1.1 503"));
    }
    assert!(refused > 0);
    assert_eq!((first.requests(), second.requests()), (refused, 4 - refused));
    for _ in 0..2 {
        let answer = ask(&running, CHAT).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert_eq!(second.requests(), 6 - refused, "a small one is sent again");
}

#[tokio::test]
async fn a_packed_body_reaches_the_replica_unpacked() {
    let replica = StageReplica::start("r", &["m"]).expect("replica");
    let running = worker(&[(&replica, "m")], &alone("")).await;
    let gzip = "content-encoding: gzip\r\n";
    let packed = |body: &[u8]| {
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        packer.write_all(body).expect("memory");
        packer.finish().expect("memory")
    };
    let answer = ask_with(&running, gzip, &packed(CHAT.as_bytes())).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("from r"), "{answer}");
    let answer = ask_with(&running, gzip, CHAT.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert_eq!(replica.requests(), 1);
    running.stop().await;
}

#[tokio::test]
async fn a_backend_that_refuses_our_credential_is_counted_and_never_a_401() {
    let replica = StageReplica::start("r", &["m"]).expect("replica");
    let own = format!("  - {{name: own, url: \"http://{}\", models: [own], api_key: sk-ours}}\n", replica.address());
    let running = worker_of(&own, &alone("")).await;
    let failing = Failing { status: 401, body: None, content_type: None, retry_after: None };
    replica.behave(Behaviour { fail: Some(failing), ..Behaviour::default() });
    let answer = ask(&running, r#"{"model":"own","messages":[]}"#).await;
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    assert_eq!(metric(&running, "appproxy_credentials_refused_total").await, "appproxy_credentials_refused_total 1");
}
