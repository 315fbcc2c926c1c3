//! `run`: the worker until a signal ends it.

use std::path::Path;

use appproxy_core::config::logging::{LogFormat, LogLevel};
use smol::future::or;

use crate::shutdown::Signals;
use crate::start::Running;
use crate::{Failed, check, executor, logs};

/// Runs the worker of `config`, or of the first file found.
///
/// # Errors
/// Exit code 2 for a configuration that is wrong, 1 for what fails here, or for a second signal.
pub fn main(config: Option<&Path>) -> Result<(), Failed> {
    let path = check::find(config)?;
    let loaded = check::load(&path)?;
    let logging = &loaded.config.logging;
    logs::start(&filter(logging.level), logging.format == LogFormat::Json).map_err(Failed::config)?;
    tracing::info!(config = %path.display(), version = env!("CARGO_PKG_VERSION"), "starting");
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    for warning in &loaded.not_in_effect {
        tracing::warn!("not in effect yet: {warning}");
    }
    executor::start()?;
    smol::block_on(async {
        let mut signals = Signals::listen().map_err(|error| Failed::run(format!("signals: {error}")))?;
        let mut running = Running::start(loaded.config).await?;
        let broken = async { Err(running.broken().await) };
        let signal = or(async { Ok(signals.next().await) }, broken).await?;
        tracing::info!(signal, "stopping");
        let again = async {
            let signal = signals.again().await;
            Err(Failed::run(format!("a second signal ({signal}): stopped at once")))
        };
        let stopped = async {
            running.stop().await;
            Ok(())
        };
        or(stopped, again).await
    })
}

/// The libraries' own debug lines may quote what passes through them: they stay out.
fn filter(level: LogLevel) -> String {
    let level = match level {
        LogLevel::Off => "off",
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    match level {
        "debug" | "trace" => format!("info,appproxy_shell_smol={level}"),
        _ => level.to_owned(),
    }
}
