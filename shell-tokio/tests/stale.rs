//! Pooled connections that prove closed (known trap R1), and waiting for a bounded replica, on real sockets.
#![allow(missing_docs)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use appproxy_shell_tokio::{BoundAddress, Running};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(10);
const CHAT: &str = r#"{"model":"m","messages":[]}"#;

/// Answers the first request of every connection after `pause`, and closes it when the second has come.
async fn replica(pause: Duration) -> (std::net::SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let (address, requests) = (listener.local_addr().expect("address"), Arc::new(AtomicUsize::new(0)));
    let counter = requests.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, pause, counter.clone()));
        }
    });
    (address, requests)
}

async fn serve(mut stream: TcpStream, pause: Duration, requests: Arc<AtomicUsize>) {
    let mut answered = false;
    let mut seen = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(len) = stream.read(&mut piece).await {
        seen.extend_from_slice(&piece[..len]);
        if len == 0 || !seen.ends_with(CHAT.as_bytes()) {
            if len == 0 {
                return;
            }
            continue;
        }
        requests.fetch_add(1, Ordering::SeqCst);
        if answered {
            return;
        }
        tokio::time::sleep(pause).await;
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
        stream.write_all(answer.as_bytes()).await.expect("answer");
        answered = true;
        seen.clear();
    }
}

async fn worker(replica: std::net::SocketAddr, more: &str) -> Running {
    let text = format!(
        "server:\n  bind_address: \"127.0.0.1:0\"\n  drain_notice: \"0s\"\n  shutdown_timeout: \"200ms\"\n\
         admin:\n  bind_address: \"127.0.0.1:0\"\nhealth_checks: {{enabled: false}}\n\
         backends: [{{name: b, url: \"http://{replica}\", models: [m]}}]\n{more}"
    );
    let loaded = appproxy_core::config::load(&text, &|_| None).expect("configuration");
    Running::start(loaded.config).await.expect("start")
}

async fn ask(running: &Running) -> String {
    let BoundAddress::Tcp(address) = &running.data()[0] else { panic!("a TCP listener") };
    let mut stream = TcpStream::connect(address).await.expect("connect");
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: w\r\nconnection: close\r\ncontent-length";
    stream.write_all(format!("{head}: {}\r\n\r\n{CHAT}", CHAT.len()).as_bytes()).await.expect("send");
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("an end").expect("text");
    answer
}

#[tokio::test]
async fn r1_a_stale_pooled_connection_is_invisible_to_the_caller() {
    let (address, requests) = replica(Duration::ZERO).await;
    let running = worker(address, "request: {max_retries: 0}").await;
    for _ in 0..4 {
        let answer = ask(&running).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    // Each second request met a connection that was closed on it, and went out again.
    assert!(requests.load(Ordering::SeqCst) > 4);
    running.stop().await;
}

#[tokio::test]
async fn r5_who_finds_the_replica_full_waits_for_it() {
    let (address, _) = replica(Duration::from_millis(100)).await;
    let running = worker(address, "routing: {max_in_flight: 1, queue_timeout: 5s}").await;
    let began = std::time::Instant::now();
    let all = tokio::join!(ask(&running), ask(&running), ask(&running));
    for answer in [all.0, all.1, all.2] {
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert!(began.elapsed() >= Duration::from_millis(300));
    running.stop().await;
    let (address, _) = replica(Duration::from_secs(2)).await;
    let running = worker(address, "routing: {max_in_flight: 1, queue_timeout: 50ms}").await;
    let (first, second) = tokio::join!(ask(&running), ask(&running));
    let refused = [&first, &second].into_iter().filter(|answer| answer.starts_with("HTTP/1.1 503")).count();
    assert_eq!(refused, 1, "{first} {second}");
    running.stop().await;
}
