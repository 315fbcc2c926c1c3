//! `demo`: everything on loopback, nothing to install (data-plane 1).

mod script;
mod switches;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use appproxy_core::config;
use appproxy_core::exchange::token_hash;
use appproxy_core::secret::Secret;
use appproxy_fixtures::coordinator::{Faults, Settings};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use crate::shutdown::Signals;
use crate::stage::{StageBus, StageCoordinator, StageReplica, ask_json};
use crate::start::Running;
use crate::{Failed, logs, runtime};
use script::Script;
use switches::Switches;

const AUTHORITY: &str = "demo";
const SECRET: &str = "demo-secret";
const KEY: &str = "sk-demo";
const MODEL: &str = "demo-chat";
const ALIAS: &str = "demo";
/// One endpoint for each replica.
const ENDPOINTS: [&str; 2] = ["11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"];
/// Time for the worker to become ready; it takes a fraction of a second.
const READY_WITHIN: Duration = Duration::from_secs(15);

/// Runs the demonstration with the worker at `port`, until a signal ends it.
///
/// # Errors
/// When a part of it cannot be started; a port that is taken above all.
pub fn main(port: u16) -> Result<(), Failed> {
    logs::start("warn,access=info", false).map_err(Failed::run)?;
    runtime()?.block_on(async {
        let mut signals = Signals::listen().map_err(|error| Failed::run(format!("signals: {error}")))?;
        let demo = tokio::select! {
            demo = Demo::start(port) => demo?,
            _ = signals.next_of_all() => return Ok(()),
        };
        println!("{}", demo.script);
        let signal = signals.next_of_all().await;
        println!("\n{signal}: leaving the coordinator and ending everything. Once more to cut it short.");
        tokio::select! {
            () = demo.running.stop() => Ok(()),
            _ = signals.again() => Err(Failed::run("cut short".to_owned())),
        }
    })
}

/// Everything that runs; ended in the order of its fields.
struct Demo {
    running: Running,
    script: Script,
    _switches: Switches,
    _coordinator: StageCoordinator,
    _bus: Option<StageBus>,
}

impl Demo {
    async fn start(port: u16) -> Result<Self, Failed> {
        let failed = |what: &str, error: std::io::Error| Failed::run(format!("{what}: {error}"));
        let bus = StageBus::start().await.map_err(|error| failed("redis-server", error))?;
        let bus_url = bus.as_ref().map(StageBus::url);
        let mut settings = Settings::new(SECRET);
        if bus.is_none() {
            // Nobody could ever ack: no change is to wait for it.
            settings.ack_wait_ms = 0;
        }
        let coordinator = StageCoordinator::start(settings, 1, bus_url.as_deref())
            .await
            .map_err(|error| failed("development coordinator", error))?;
        let mut replicas = Vec::new();
        for name in ["replica-1", "replica-2"] {
            replicas.push(StageReplica::start(name, &[]).await.map_err(|error| failed(name, error))?);
        }
        furnish(&coordinator, &replicas).await?;
        let replica_addresses = replicas.iter().map(StageReplica::address).collect();
        let switches =
            Switches::start(Arc::new(Mutex::new(replicas))).await.map_err(|error| failed("switches", error))?;

        let port = if port == 0 { free_port().await.map_err(|error| failed("a free port", error))? } else { port };
        let text = configuration(port, &coordinator, bus_url.as_deref());
        let loaded = config::load(&text, &|_| None).map_err(|problems| Failed::config(problems.to_string()))?;
        let running = Running::start(loaded.config).await.map_err(|failed| Failed {
            message: format!("{failed}; choose another port with --port N, or 0 for a free one"),
            ..failed
        })?;
        let began = tokio::time::Instant::now();
        while !running.is_ready() {
            if began.elapsed() > READY_WITHIN {
                return Err(Failed::run("the worker did not become ready; its log lines above say why".to_owned()));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let script = Script {
            worker: running.data().first().map(ToString::to_string).unwrap_or_default(),
            admin: running.admin().to_string(),
            coordinator: coordinator.address(),
            replicas: replica_addresses,
            switches: switches.address(),
            bus: bus.as_ref().map(StageBus::port),
        };
        Ok(Self { running, script, _switches: switches, _coordinator: coordinator, _bus: bus })
    }
}

/// The coordinator is told the port, so it cannot be left to the listener.
async fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?.local_addr()?.port())
}

/// Circuits, a publication and a key, through the coordinator's own API.
async fn furnish(coordinator: &StageCoordinator, replicas: &[StageReplica]) -> Result<(), Failed> {
    let base = format!("http://{}", coordinator.address());
    for (endpoint, replica) in ENDPOINTS.iter().zip(replicas) {
        let route = json!({"kernel_host": "127.0.0.1", "kernel_port": replica.address().port()});
        let circuit = json!({
            "authority": AUTHORITY, "endpoint_id": endpoint, "runtime_variant": "vllm", "routes": [route],
            "announce": false, "wait": false,
        });
        made(ask_json("POST", &format!("{base}/dev/circuits"), SECRET, &circuit).await)?;
    }
    let mappings: Vec<_> = ENDPOINTS.iter().map(|id| json!({"endpoint_id": id, "ratio": 1.0})).collect();
    let publication = json!({"aliases": [ALIAS], "mappings": mappings, "control_mode": "manual"});
    made(ask_json("PUT", &format!("{base}/v2/routers/{AUTHORITY}/models/{MODEL}"), SECRET, &publication).await)?;
    // The worker is not there yet, so it cannot ack this key's event; were it announced all the same, the worker's first
    // ack of the key would count for this event, and a strict revocation would stay unconfirmed.
    coordinator.set_faults(Faults { bus_down: true, ..Faults::default() });
    let key = json!({"token_hash": hash_hex(), "display_hint": "sk-d...", "allowed_models": []});
    made(ask_json("PUT", &format!("{base}/v2/routers/{AUTHORITY}/api-keys/demo-key"), SECRET, &key).await)?;
    coordinator.set_faults(Faults::default());
    Ok(())
}

fn made(answer: Result<(u16, serde_json::Value), String>) -> Result<(), Failed> {
    match answer {
        Ok((200..=299, _)) => Ok(()),
        Ok((status, body)) => Err(Failed::run(format!("the development coordinator answered {status}: {body}"))),
        Err(error) => Err(Failed::run(format!("the development coordinator: {error}"))),
    }
}

fn hash_hex() -> String {
    token_hash(&Secret::new(KEY)).0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn configuration(port: u16, coordinator: &StageCoordinator, bus: Option<&str>) -> String {
    let events = match bus {
        Some(url) => format!("  redis_url: \"{url}\"\n  reconcile_interval: \"5s\"\n"),
        None => "  events_enabled: false\n  reconcile_interval: \"1s\"\n".to_owned(),
    };
    format!(
        "server:\n  bind_address: \"127.0.0.1:{port}\"\n  drain_notice: \"0s\"\n  shutdown_timeout: \"2s\"\n\
         admin:\n  bind_address: \"127.0.0.1:0\"\n\
         appproxy_router:\n  enabled: true\n  coordinator_url: \"http://{}\"\n  api_secret: \"{SECRET}\"\n  \
         authority: \"{AUTHORITY}\"\n  hostname: \"127.0.0.1\"\n{events}",
        coordinator.address()
    )
}
