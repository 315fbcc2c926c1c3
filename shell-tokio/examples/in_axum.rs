//! The worker inside somebody else's axum application: its own pages beside the OpenAI-compatible paths.
//!
//! `cargo run -p appproxy-shell-tokio --example in_axum` starts the application with the surroundings of the demo, asks it
//! for a page and for a chat, and ends.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use appproxy_core::config;
use appproxy_fixtures::Request;
use appproxy_fixtures::stage::{Demo, Mode, Prepared, ask};
use appproxy_shell_tokio::Running;
use axum::Router;
use axum::routing::get;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

/// Starts the application, asks it twice, and ends it.
///
/// # Errors
/// What could not be started, or was not answered.
#[tokio::main]
pub async fn main() -> Result<(), Box<dyn Error>> {
    let Prepared { demo, configuration, .. } = spawn_blocking(|| Demo::prepare(0, Mode::Router)).await??;
    // The worker keeps listeners of its own, for its pages and probes; this one is on a free port.
    let running = Running::start(config::load(&configuration, &|_| None)?.config).await?;

    // The application: whatever it does not answer itself is the worker's.
    let application = Router::new().route("/about", get(|| async { "ours" })).fallback_service(running.router());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?.to_string();
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(async move {
        // With the clients' addresses: keys may be bound to them.
        let service = application.into_make_service_with_connect_info::<SocketAddr>();
        axum::serve(listener, service).with_graceful_shutdown(async { drop(stopped.await) }).await
    });

    while !running.is_ready() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (page, chat) = spawn_blocking(move || -> std::io::Result<_> {
        let body = json!({"model": "demo-chat", "messages": [{"role": "user", "content": "Hello"}]});
        let chat = Request::post("/v1/chat/completions", &body).with_header("authorization", "Bearer sk-demo");
        Ok((ask(&address, Request::get("/about"))?, ask(&address, chat)?))
    })
    .await??;
    println!("{} {}", page.status, String::from_utf8_lossy(&page.body));
    println!("{} {}", chat.status, chat.value());

    // First the worker: not ready, drained, deregistered. Then the application.
    running.stop().await;
    drop(stop);
    served.await??;
    spawn_blocking(move || drop(demo)).await?;
    if page.body != b"ours" || chat.value().get("choices").is_none() {
        return Err(format!("answered {} and {}", page.status, chat.status).into());
    }
    Ok(())
}
