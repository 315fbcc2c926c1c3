//! `demo`: everything on loopback, nothing to install (data-plane 1).

use std::path::PathBuf;
use std::time::{Duration, Instant};

use appproxy_core::config;
pub use appproxy_fixtures::stage::Mode;
use appproxy_fixtures::stage::{Demo, Prepared};

use crate::shutdown::Signals;
use crate::start::Running;
use crate::{Failed, logs, runtime};

/// Runs the demonstration with the worker at `port`, its inputs recorded in `journal` if that is given, until a signal ends
/// it.
///
/// # Errors
/// When a part of it cannot be started; a port that is taken above all.
pub fn main(port: u16, mode: Mode, journal: Option<PathBuf>) -> Result<(), Failed> {
    logs::start("warn,access=info", false).map_err(Failed::run)?;
    runtime()?.block_on(async {
        let mut signals = Signals::listen().map_err(|error| Failed::run(format!("signals: {error}")))?;
        let (running, script, _surroundings) = tokio::select! {
            started = start(port, mode, journal) => started?,
            _ = signals.next_of_all() => return Ok(()),
        };
        println!("{script}");
        let signal = signals.next_of_all().await;
        println!("\n{signal}: leaving the coordinator and ending everything. Once more to cut it short.");
        tokio::select! {
            () = running.stop() => Ok(()),
            _ = signals.again() => Err(Failed::run("cut short".to_owned())),
        }
    })
}

async fn start(port: u16, mode: Mode, journal: Option<PathBuf>) -> Result<(Running, String, Demo), Failed> {
    let prepared = tokio::task::spawn_blocking(move || Demo::prepare(port, mode)).await;
    let prepared = prepared.map_err(|error| Failed::run(error.to_string()))?;
    let Prepared { mut demo, configuration } = prepared.map_err(Failed::run)?;
    let mut loaded =
        config::load(&configuration, &|_| None).map_err(|problems| Failed::config(problems.to_string()))?;
    if let Some(file) = journal {
        loaded.config.journal.file = Some(demo.recorded_in(&file).map_err(Failed::config)?);
    }
    let running = Running::start(loaded.config).await.map_err(|failed| Failed {
        message: format!("{failed}; choose another port with --port N, or 0 for a free one"),
        ..failed
    })?;
    let began = Instant::now();
    while !running.is_ready() {
        if began.elapsed() > Demo::READY_WITHIN {
            return Err(Failed::run("the worker did not become ready; its log lines above say why".to_owned()));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let worker = running.data().first().map(ToString::to_string).unwrap_or_default();
    let admin = running.admin().to_string();
    let introduced =
        tokio::task::spawn_blocking(move || demo.introduce(worker, admin).map(|script| (script, demo))).await;
    let (script, demo) = introduced.map_err(|error| Failed::run(error.to_string()))?.map_err(Failed::run)?;
    Ok((running, script, demo))
}
