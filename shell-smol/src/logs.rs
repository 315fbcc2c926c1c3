//! Where log lines go: text or JSON on standard error, filtered by level (data-plane 7).

use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// The target of access lines, so that `info,access=off` silences just them.
pub(crate) const ACCESS: &str = "access";

/// Starts logging. `level` is a level or a list such as `info,access=off`; `json` chooses the format. A level that
/// cannot be read is an error in words; a process that logs already keeps its logger.
pub fn start(level: &str, json: bool) -> Result<(), String> {
    let targets: Targets = level.parse().map_err(|error| {
        format!("logging.level: {level:?} is no level ({error}); use error, warn, info, debug, trace or off")
    })?;
    let lines = if json {
        fmt::layer().json().flatten_event(true).with_writer(std::io::stderr).boxed()
    } else {
        fmt::layer().with_writer(std::io::stderr).with_ansi(false).boxed()
    };
    let started: Result<(), TryInitError> = tracing_subscriber::registry().with(lines.with_filter(targets)).try_init();
    drop(started);
    Ok(())
}
