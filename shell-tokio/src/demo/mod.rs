//! `demo`: everything on loopback, nothing to install (data-plane 1).

#[cfg(feature = "appproxy-legacy")]
mod legacy;
mod line;
#[cfg(feature = "appproxy-router")]
mod router;
mod switches;
mod table;

use core::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use appproxy_core::config;
use appproxy_fixtures::coordinator::Settings;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use crate::shutdown::Signals;
use crate::stage::{StageBus, StageCoordinator, StageReplica, ask_json};
use crate::start::Running;
use crate::{Failed, logs, runtime};
use switches::Switches;

const AUTHORITY: &str = "demo";
const SECRET: &str = "demo-secret";
/// One endpoint for each replica.
const ENDPOINTS: [&str; 2] = ["11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"];
/// Time for the worker to become ready; it takes a fraction of a second.
const READY_WITHIN: Duration = Duration::from_secs(15);

/// Which worker is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// The ROUTER worker: published models and model API keys.
    #[cfg(feature = "appproxy-router")]
    Router,
    /// The legacy wildcard worker: sub-domains and access tokens.
    #[cfg(feature = "appproxy-legacy")]
    Legacy,
}

impl Mode {
    /// What is shown unless something else is asked for.
    #[must_use]
    pub fn usual() -> Self {
        let all = <Self as clap::ValueEnum>::value_variants();
        // The features give one of them at the least.
        all.first().copied().unwrap_or_else(|| unreachable!("a worker is built in"))
    }

    /// The models of each replica; none is all.
    const fn models(self) -> [&'static [&'static str]; 2] {
        match self {
            #[cfg(feature = "appproxy-router")]
            Self::Router => [&[], &[]],
            #[cfg(feature = "appproxy-legacy")]
            Self::Legacy => legacy::MODELS,
        }
    }

    /// What the coordinator is given before the worker joins.
    async fn furnish(self, coordinator: &StageCoordinator, replicas: &[StageReplica]) -> Result<(), Failed> {
        match self {
            #[cfg(feature = "appproxy-router")]
            Self::Router => router::furnish(coordinator, replicas).await,
            #[cfg(feature = "appproxy-legacy")]
            Self::Legacy => legacy::furnish(coordinator, replicas).await,
        }
    }

    /// The name of the worker's section, and the lines in it that only this worker has.
    const fn section(self) -> (&'static str, &'static str) {
        match self {
            #[cfg(feature = "appproxy-router")]
            Self::Router => ("appproxy_router", ""),
            #[cfg(feature = "appproxy-legacy")]
            Self::Legacy => ("appproxy", legacy::SECTION),
        }
    }

    /// What must answer 200 once everything is up, beside `/readyz`; path and host.
    async fn settled(self, places: &Places) -> bool {
        match self {
            #[cfg(feature = "appproxy-router")]
            Self::Router => {
                let _ = places;
                true
            }
            #[cfg(feature = "appproxy-legacy")]
            Self::Legacy => legacy::settled(places).await,
        }
    }

    /// Lines to paste.
    async fn lines(self, places: &Places) -> Result<Vec<line::Line>, Failed> {
        match self {
            #[cfg(feature = "appproxy-router")]
            Self::Router => Ok(router::lines(places)),
            #[cfg(feature = "appproxy-legacy")]
            Self::Legacy => legacy::lines(places).await,
        }
    }

    /// What there is to use: rows of the table.
    const fn rows(self) -> &'static [(&'static str, &'static str, &'static str)] {
        match self {
            #[cfg(feature = "appproxy-router")]
            Self::Router => &router::ROWS,
            #[cfg(feature = "appproxy-legacy")]
            Self::Legacy => &legacy::ROWS,
        }
    }
}

/// The addresses of everything that runs.
struct Places {
    worker: String,
    admin: String,
    coordinator: SocketAddr,
    replicas: Vec<SocketAddr>,
    switches: SocketAddr,
    bus: Option<u16>,
}

/// Runs the demonstration with the worker at `port`, until a signal ends it.
///
/// # Errors
/// When a part of it cannot be started; a port that is taken above all.
pub fn main(port: u16, mode: Mode) -> Result<(), Failed> {
    logs::start("warn,access=info", false).map_err(Failed::run)?;
    runtime()?.block_on(async {
        let mut signals = Signals::listen().map_err(|error| Failed::run(format!("signals: {error}")))?;
        let demo = tokio::select! {
            demo = Demo::start(port, mode) => demo?,
            _ = signals.next_of_all() => return Ok(()),
        };
        println!("{demo}");
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
    mode: Mode,
    places: Places,
    lines: Vec<line::Line>,
    _switches: Switches,
    _coordinator: StageCoordinator,
    _bus: Option<StageBus>,
}

impl fmt::Display for Demo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        table::write(f, &self.places, self.mode.rows())?;
        for line in &self.lines {
            writeln!(f, "{line}\n")?;
        }
        write!(f, "Access lines follow. Ctrl-C ends everything.")
    }
}

impl Demo {
    async fn start(port: u16, mode: Mode) -> Result<Self, Failed> {
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
        for (name, models) in ["replica-1", "replica-2"].into_iter().zip(mode.models()) {
            replicas.push(StageReplica::start(name, models).await.map_err(|error| failed(name, error))?);
        }
        mode.furnish(&coordinator, &replicas).await?;
        let replica_addresses = replicas.iter().map(StageReplica::address).collect();
        let switches =
            Switches::start(Arc::new(Mutex::new(replicas))).await.map_err(|error| failed("switches", error))?;

        let port = if port == 0 { free_port().await.map_err(|error| failed("a free port", error))? } else { port };
        let text = configuration(port, mode, &coordinator, bus_url.as_deref());
        let loaded = config::load(&text, &|_| None).map_err(|problems| Failed::config(problems.to_string()))?;
        let running = Running::start(loaded.config).await.map_err(|failed| Failed {
            message: format!("{failed}; choose another port with --port N, or 0 for a free one"),
            ..failed
        })?;
        let places = Places {
            worker: running.data().first().map(ToString::to_string).unwrap_or_default(),
            admin: running.admin().to_string(),
            coordinator: coordinator.address(),
            replicas: replica_addresses,
            switches: switches.address(),
            bus: bus.as_ref().map(StageBus::port),
        };
        let began = tokio::time::Instant::now();
        while !(running.is_ready() && mode.settled(&places).await) {
            if began.elapsed() > READY_WITHIN {
                return Err(Failed::run("the worker did not become ready; its log lines above say why".to_owned()));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let lines = mode.lines(&places).await?;
        Ok(Self { running, mode, places, lines, _switches: switches, _coordinator: coordinator, _bus: bus })
    }
}

/// The coordinator is told the port, so it cannot be left to the listener.
async fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?.local_addr()?.port())
}

/// One call to the development coordinator, which must succeed; the body of its answer.
async fn made(method: &str, url: &str, body: &Value) -> Result<Value, Failed> {
    match ask_json(method, url, SECRET, body).await {
        Ok((200..=299, answer)) => Ok(answer),
        Ok((status, answer)) => Err(Failed::run(format!("the development coordinator answered {status}: {answer}"))),
        Err(error) => Err(Failed::run(format!("the development coordinator: {error}"))),
    }
}

fn configuration(port: u16, mode: Mode, coordinator: &StageCoordinator, bus: Option<&str>) -> String {
    let events = match bus {
        Some(url) => format!("  redis_url: \"{url}\"\n  reconcile_interval: \"5s\"\n"),
        None => "  events_enabled: false\n  reconcile_interval: \"1s\"\n".to_owned(),
    };
    let (section, more) = mode.section();
    format!(
        "server:\n  bind_address: \"127.0.0.1:{port}\"\n  drain_notice: \"0s\"\n  shutdown_timeout: \"2s\"\n\
         admin:\n  bind_address: \"127.0.0.1:0\"\n\
         {section}:\n  enabled: true\n  coordinator_url: \"http://{}\"\n  api_secret: \"{SECRET}\"\n  \
         authority: \"{AUTHORITY}\"\n  hostname: \"127.0.0.1\"\n{more}{events}",
        coordinator.address()
    )
}
