//! `run`: the worker until a signal ends it.

use std::path::Path;

use appproxy_core::config::logging::{LogFormat, LogLevel};

use crate::shutdown::Signals;
use crate::start::Running;
use crate::{Failed, check, logs, runtime};

/// Runs the worker of `config`, or of the first file found.
///
/// # Errors
/// Exit code 2 for a configuration that is wrong, 1 for what fails here, or for a second signal.
pub fn main(config: Option<&Path>) -> Result<(), Failed> {
    let path = check::find(config)?;
    let loaded = check::load(&path)?;
    let logging = &loaded.config.logging;
    logs::start(level(logging.level), logging.format == LogFormat::Json).map_err(Failed::config)?;
    tracing::info!(config = %path.display(), version = env!("CARGO_PKG_VERSION"), "starting");
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    for warning in &loaded.not_in_effect {
        tracing::warn!("not in effect yet: {warning}");
    }
    runtime()?.block_on(async {
        let mut signals = Signals::listen().map_err(|error| Failed::run(format!("signals: {error}")))?;
        let running = Running::start(loaded.config).await?;
        let signal = signals.next().await;
        tracing::info!(signal, "stopping");
        tokio::select! {
            () = running.stop() => Ok(()),
            signal = signals.next() => Err(Failed::run(format!("a second signal ({signal}): stopped at once"))),
        }
    })
}

const fn level(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Off => "off",
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    }
}
