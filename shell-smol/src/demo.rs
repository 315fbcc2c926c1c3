//! `demo`: everything on loopback, nothing to install (data-plane 1).

use std::path::PathBuf;
use std::time::{Duration, Instant};

use appproxy_core::config;
pub use appproxy_fixtures::stage::Mode;
use appproxy_fixtures::stage::{Demo, Prepared};
use smol::Timer;
use smol::future::or;

use crate::shutdown::Signals;
use crate::start::Running;
use crate::{Failed, executor, logs};

/// Runs the demonstration with the worker at `port`, its inputs recorded in `journal` if that is given, until a signal ends
/// it.
///
/// # Errors
/// When a part of it cannot be started; a port that is taken above all.
pub fn main(port: u16, mode: Mode, journal: Option<PathBuf>) -> Result<(), Failed> {
    logs::start("warn,access=info", false).map_err(Failed::run)?;
    executor::start()?;
    smol::block_on(async {
        let mut signals = Signals::listen().map_err(|error| Failed::run(format!("signals: {error}")))?;
        let early = async {
            signals.next_of_all().await;
            Ok(None)
        };
        let started = async { start(port, mode, journal).await.map(Some) };
        let Some((running, script, _surroundings)) = or(started, early).await? else { return Ok(()) };
        println!("{script}");
        let signal = signals.next_of_all().await;
        println!("\n{signal}: leaving the coordinator and ending everything. Once more to cut it short.");
        let stopped = async {
            running.stop().await;
            Ok(())
        };
        let again = async {
            signals.again().await;
            Err(Failed::run("cut short".to_owned()))
        };
        or(stopped, again).await
    })
}

async fn start(port: u16, mode: Mode, journal: Option<PathBuf>) -> Result<(Running, String, Demo), Failed> {
    let prepared = smol::unblock(move || Demo::prepare(port, mode)).await;
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
        Timer::after(Duration::from_millis(10)).await;
    }
    let worker = running.data().first().map(ToString::to_string).unwrap_or_default();
    let admin = running.admin().to_string();
    let introduced = smol::unblock(move || demo.introduce(worker, admin).map(|script| (script, demo))).await;
    let (script, demo) = introduced.map_err(Failed::run)?;
    Ok((running, script, demo))
}
