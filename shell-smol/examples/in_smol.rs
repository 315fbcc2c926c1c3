//! The worker inside a smol program, beside its own tasks.
//!
//! `cargo run -p appproxy-shell-smol --example in_smol` starts it with the surroundings of the demo, asks it for a chat,
//! and ends.

use std::error::Error;
use std::io;
use std::time::Duration;

use appproxy_core::config;
use appproxy_fixtures::Request;
use appproxy_fixtures::stage::{Demo, Mode, Prepared, ask};
use appproxy_shell_smol::Running;
use serde_json::json;
use smol::Timer;

/// Starts the worker, asks it, and ends it.
///
/// # Errors
/// What could not be started, or was not answered.
pub fn main() -> Result<(), Box<dyn Error>> {
    smol::block_on(async {
        let Prepared { demo, configuration, .. } = smol::unblock(|| Demo::prepare(0, Mode::Router)).await?;
        // The worker brings its executor and the threads that drive it: nothing of ours has to be handed to it, and what
        // we await of it can be awaited on any executor.
        let mut running = Running::start(config::load(&configuration, &|_| None)?.config).await?;

        // The program's own work, in the same process.
        let beside = smol::spawn(async {
            for second in 1.. {
                Timer::after(Duration::from_secs(1)).await;
                println!("still here after {second} s");
            }
        });

        while !running.is_ready() {
            Timer::after(Duration::from_millis(10)).await;
        }
        let address = running.data().first().map(ToString::to_string).unwrap_or_default();
        let chat = smol::unblock(move || -> io::Result<_> {
            let body = json!({"model": "demo-chat", "messages": [{"role": "user", "content": "Hello"}]});
            let chat = Request::post("/v1/chat/completions", &body).with_header("authorization", "Bearer sk-demo");
            ask(&address, chat)
        });
        // A control plane that ends by itself is a fault: whoever embeds the worker had better know.
        let broken = async { Err(io::Error::other(running.broken().await)) };
        let chat = smol::future::or(chat, broken).await?;
        println!("{} {}", chat.status, chat.value());

        // Not ready, drained, deregistered.
        running.stop().await;
        beside.cancel().await;
        smol::unblock(move || drop(demo)).await;
        chat.value().get("choices").map(|_| ()).ok_or_else(|| format!("answered {}", chat.status).into())
    })
}
