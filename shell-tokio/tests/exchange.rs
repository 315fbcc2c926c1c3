//! One worker in this process, a plain router over mock replicas, on real sockets.
#![cfg(feature = "appproxy-common")]
#![allow(missing_docs)]

use std::time::Duration;

use appproxy_fixtures::replica::Behaviour;
use appproxy_fixtures::stage::StageReplica;
use appproxy_shell_tokio::{BoundAddress, Running};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(10);
const CHAT: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
const STREAM: &str = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;

async fn worker(replicas: &[&StageReplica]) -> Running {
    let mut text = "server:\n  bind_address: \"127.0.0.1:0\"\n  drain_notice: \"0s\"\n  shutdown_timeout: \"200ms\"\n\
                    admin:\n  bind_address: \"127.0.0.1:0\"\npassive: {failures: 1000}\nbackends:\n"
        .to_owned();
    for (number, replica) in replicas.iter().enumerate() {
        text += &format!("  - {{name: b{number}, url: \"http://{}\", models: [m]}}\n", replica.address());
    }
    let loaded = appproxy_core::config::load(&text, &|_| None).expect("configuration");
    Running::start(loaded.config).await.expect("start")
}

async fn connect(address: &BoundAddress) -> TcpStream {
    let BoundAddress::Tcp(address) = address else { panic!("a TCP listener") };
    TcpStream::connect(address).await.expect("connect")
}

async fn send(running: &Running, body: &str) -> TcpStream {
    let mut stream = connect(&running.data()[0]).await;
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: w\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.expect("send");
    stream
}

/// Everything up to the end of the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is an end as well.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("an end");
    String::from_utf8(bytes).expect("text")
}

async fn metric(running: &Running, start: &str) -> String {
    let mut stream = connect(running.admin()).await;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: w\r\nconnection: close\r\n\r\n").await.expect("send");
    let text = rest(stream).await;
    text.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_stream_that_breaks_says_so_and_never_looks_complete() {
    let replica = StageReplica::start("r", &["m"]).expect("replica");
    let running = worker(&[&replica]).await;
    let whole = rest(send(&running, STREAM).await).await;
    assert!(whole.contains("data: [DONE]") && whole.ends_with("\r\n0\r\n\r\n"), "{whole}");

    replica.behave(Behaviour { die_after_chunks: Some(2), ..Behaviour::default() });
    let broken = rest(send(&running, STREAM).await).await;
    assert!(broken.contains(r#""code":"upstream_error""#), "{broken}");
    assert!(!broken.contains("[DONE]") && !broken.ends_with("0\r\n\r\n"), "{broken}");

    replica.behave(Behaviour { half_body: true, ..Behaviour::default() });
    let short = rest(send(&running, CHAT).await).await;
    let (head, body) = short.split_once("\r\n\r\n").expect("a head");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
    assert!(body.len() < length.parse().expect("number"), "{short}");
    let cut = metric(&running, "appproxy_responses_cut_total").await;
    assert_eq!(cut, "appproxy_responses_cut_total{by=\"upstream_broke\"} 2");
}

#[tokio::test]
async fn a_dead_replica_costs_no_request_and_none_at_all_is_502() {
    let mut first = StageReplica::start("one", &["m"]).expect("replica");
    let mut second = StageReplica::start("two", &["m"]).expect("replica");
    let running = worker(&[&first, &second]).await;
    first.kill();
    for _ in 0..4 {
        let answer = rest(send(&running, CHAT).await).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("from two"), "{answer}");
    }
    second.kill();
    let answer = rest(send(&running, CHAT).await).await;
    assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("upstream_error"), "{answer}");
    first.revive().expect("the same port");
    let answer = rest(send(&running, CHAT).await).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("from one"), "{answer}");
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_place() {
    let replica = StageReplica::start("r", &["m"]).expect("replica");
    replica.behave(Behaviour { chunk_delay_ms: 60_000, ..Behaviour::default() });
    let running = worker(&[&replica]).await;
    let mut stream = send(&running, STREAM).await;
    let mut head = [0; 16];
    stream.read_exact(&mut head).await.expect("a head");
    assert_eq!(metric(&running, "appproxy_requests_in_flight").await, "appproxy_requests_in_flight 1");
    drop(stream);
    let freed = async {
        while metric(&running, "appproxy_requests_in_flight").await != "appproxy_requests_in_flight 0" {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, freed).await.expect("the place is freed");
    let cut = metric(&running, "appproxy_responses_cut_total").await;
    assert_eq!(cut, "appproxy_responses_cut_total{by=\"client_gone\"} 1");
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_announced_or_not() {
    let text = "server: {bind_address: \"127.0.0.1:0\", max_body_size: 64}\nadmin: {bind_address: \"127.0.0.1:0\"}\n";
    let loaded = appproxy_core::config::load(text, &|_| None).expect("configuration");
    let running = Running::start(loaded.config).await.expect("start");
    let answer = rest(send(&running, &" ".repeat(65)).await).await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("body_too_large"), "{answer}");
    let mut stream = connect(&running.data()[0]).await;
    let head =
        "POST /v1/chat/completions HTTP/1.1\r\nhost: w\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(format!("{head}41\r\n{}\r\n0\r\n\r\n", " ".repeat(65)).as_bytes()).await.expect("send");
    let answer = rest(stream).await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("body_too_large"), "{answer}");
    let answer = rest(send(&running, &" ".repeat(64)).await).await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}

#[tokio::test]
async fn a_node_that_stops_cuts_what_runs_too_long_and_says_so() {
    let replica = StageReplica::start("r", &["m"]).expect("replica");
    replica.behave(Behaviour { chunk_delay_ms: 60_000, ..Behaviour::default() });
    let running = worker(&[&replica]).await;
    let mut streaming = send(&running, STREAM).await;
    let mut head = [0; 16];
    streaming.read_exact(&mut head).await.expect("a head");
    replica.behave(Behaviour { head_delay_ms: 60_000, ..Behaviour::default() });
    let waiting = send(&running, CHAT).await;
    let both_run = async {
        while metric(&running, "appproxy_requests_in_flight").await != "appproxy_requests_in_flight 2" {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, both_run).await.expect("both requests run");
    timeout(PATIENCE, running.stop()).await.expect("an end");
    let streamed = rest(streaming).await;
    assert!(streamed.contains("This server is stopping") && !streamed.ends_with("0\r\n\r\n"), "{streamed}");
    let refused = rest(waiting).await;
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("retry-after"), "{refused}");
}
