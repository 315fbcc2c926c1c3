//! The worker, its client, and what it says of itself.

use std::time::Duration;

use appproxy_fixtures::stage::StageReplica;
use appproxy_shell_tokio::{BoundAddress, Running};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const CHAT: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
pub(crate) const STREAM: &str = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
/// Nobody is asked how it is.
pub(crate) const NO_PROBES: &str = "health_checks: {enabled: false}\n";
/// Live traffic takes nobody out.
pub(crate) const NO_QUARANTINE: &str = "passive: {failures: 1000}\n";

/// Two replicas that serve `m`.
pub(crate) async fn two() -> (StageReplica, StageReplica) {
    let start = async |name| StageReplica::start(name, &["m"]).expect("replica");
    (start("one").await, start("two").await)
}

/// A worker over replicas, each with the model that it serves.
pub(crate) async fn worker(replicas: &[(&StageReplica, &str)], more: &str) -> Running {
    let entry = |(number, (replica, model)): (usize, &(&StageReplica, &str))| {
        format!("  - {{name: b{number}, url: \"http://{}\", models: [{model}]}}\n", replica.address())
    };
    worker_of(&replicas.iter().enumerate().map(entry).collect::<String>(), more).await
}

/// A worker over these entries of `backends`.
pub(crate) async fn worker_of(backends: &str, more: &str) -> Running {
    let text = format!(
        "server: {{bind_address: \"127.0.0.1:0\", drain_notice: 0s, shutdown_timeout: 200ms}}\n\
         admin: {{bind_address: \"127.0.0.1:0\"}}\n{more}backends:\n{backends}"
    );
    let loaded = appproxy_core::config::load(&text, &|_| None).expect("configuration");
    assert!(loaded.not_in_effect.is_empty(), "{:?}", loaded.not_in_effect);
    Running::start(loaded.config).await.expect("start")
}

/// The whole answer, up to the end of the connection.
async fn exchange(address: &BoundAddress, request: &[u8]) -> String {
    let BoundAddress::Tcp(address) = address else { panic!("a TCP listener") };
    let mut stream = TcpStream::connect(address).await.expect("connect");
    stream.write_all(request).await.expect("send");
    let mut bytes = Vec::new();
    // A reset is an end as well.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("an end");
    String::from_utf8(bytes).expect("text")
}

/// The answer to a chat completion.
pub(crate) async fn ask(running: &Running, body: &str) -> String {
    ask_with(running, "", body.as_bytes()).await
}

/// The same with further header lines, each with its end.
pub(crate) async fn ask_with(running: &Running, headers: &str, body: &[u8]) -> String {
    let mut request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: w\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(body);
    exchange(&running.data()[0], &request).await
}

/// The line of the metrics that begins so.
pub(crate) async fn metric(running: &Running, start: &str) -> String {
    let text = exchange(running.admin(), b"GET /metrics HTTP/1.1\r\nhost: w\r\nconnection: close\r\n\r\n").await;
    text.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned()
}

/// Waits until a line of the metrics is this one.
pub(crate) async fn until(running: &Running, line: &str) {
    let (start, _) = line.rsplit_once(' ').expect("a name and a value");
    let mut last = String::new();
    let came = async {
        while last != line {
            tokio::time::sleep(Duration::from_millis(10)).await;
            last = metric(running, start).await;
        }
    };
    assert!(timeout(PATIENCE, came).await.is_ok(), "{line}: still {last}");
}
