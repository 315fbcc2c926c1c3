//! `demo`: everything on loopback, nothing to install (data-plane 1).

use std::path::PathBuf;
use std::time::{Duration, Instant};

use appproxy_core::config;
pub use appproxy_fixtures::stage::Mode;
use appproxy_fixtures::stage::{Demo, Prepared};
use futures_util::FutureExt;

use crate::part::or;
use crate::runtime::{Runtime, Timer};
use crate::shutdown::Signals;
use crate::start::Running;
use crate::{Failed, journal, logs};

/// Runs the demonstration with the worker at `port`, its inputs recorded in `record` if that is given, until a signal ends
/// it.
///
/// # Errors
/// When a part of it cannot be started; a port that is taken above all.
pub fn main<R: Runtime>(port: u16, mode: Mode, record: Option<PathBuf>) -> Result<(), Failed> {
    logs::start("warn,access=info", false).map_err(Failed::run)?;
    R::block_on(async {
        let mut signals = Signals::<R>::listen().map_err(|error| Failed::run(format!("signals: {error}")))?;
        let early = signals.next_of_all().map(|_| Ok(None));
        let started = start::<R>(port, mode, record).map(|started| started.map(Some));
        let Some((running, script, _surroundings)) = or(started, early).await? else { return Ok(()) };
        println!("{script}");
        let signal = signals.next_of_all().await;
        println!("\n{signal}: leaving the coordinator and ending everything. Once more to cut it short.");
        signals.unless_again(running.stop()).await.map_err(|_| Failed::run("cut short".to_owned()))
    })?
}

async fn start<R: Runtime>(
    port: u16,
    mode: Mode,
    record: Option<PathBuf>,
) -> Result<(Running<R>, String, Demo), Failed> {
    let prepared = R::aside(move || Demo::prepare(port, mode)).await.ok_or_else(fault)?;
    let Prepared { mut demo, configuration } = prepared.map_err(Failed::run)?;
    let mut loaded =
        config::load(&configuration, &|_| None).map_err(|problems| Failed::config(problems.to_string()))?;
    if let Some(file) = record {
        loaded.config.journal.file = Some(demo.recorded_in(&file).map_err(Failed::config)?);
        // What is promised is to be there; `run` goes on without its journal.
        journal::refused(&loaded.config).map_err(Failed::config)?;
        journal::writable(&file).map_err(|error| {
            Failed::config(format!("--journal {}: {error}; give a file that can be written", file.display()))
        })?;
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
        R::Timer::after(Duration::from_millis(10)).await;
    }
    let worker = running.data().first().map(ToString::to_string).unwrap_or_default();
    let admin = running.admin().to_string();
    let introduced = R::aside(move || demo.introduce(worker, admin).map(|script| (script, demo))).await;
    let (script, demo) = introduced.ok_or_else(fault)?.map_err(Failed::run)?;
    Ok((running, script, demo))
}

fn fault() -> Failed {
    Failed::run("the demo's surroundings met a fault of ours; please report it".to_owned())
}
