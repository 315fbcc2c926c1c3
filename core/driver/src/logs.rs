//! Where log lines go: text or JSON on standard error, filtered by level (data-plane 7).

use std::sync::OnceLock;

use appproxy_core::config::logging::{LogFormat, Logging};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layered, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

/// The target of access lines, so that `info,access=off` silences just them.
pub(crate) const ACCESS: &str = "access";

/// This package, as it names the target of its lines.
const OWN: &str = env!("CARGO_CRATE_NAME");

type Filter = reload::Layer<Targets, Registry>;
type Filtered = Layered<Filter, Registry>;
type Lines = Box<dyn Layer<Filtered> + Send + Sync>;

/// What can be changed later. A process has one logger.
struct Handles {
    filter: reload::Handle<Targets, Registry>,
    lines: reload::Handle<Lines, Filtered>,
}

static STARTED: OnceLock<Handles> = OnceLock::new();

/// Starts logging. `level` is a level or a list such as `info,access=off`; `json` chooses the format. A level that
/// cannot be read is an error in words; a process that logs already keeps its logger.
pub fn start(level: &str, json: bool) -> Result<(), String> {
    let (filter, of_filter) = reload::Layer::new(targets(level)?);
    let (lines, of_lines) = reload::Layer::new(lines(json));
    if tracing_subscriber::registry().with(filter).with(lines).try_init().is_ok() {
        // Only the first one gets here.
        drop(STARTED.set(Handles { filter: of_filter, lines: of_lines }));
    }
    Ok(())
}

/// Starts logging as `logging` says.
pub(crate) fn start_as(logging: &Logging) -> Result<(), String> {
    start(&logging.level.filter(OWN), logging.format == LogFormat::Json)
}

/// Logs as `logging` says from now on. Where [`start`] was not called, there is nothing to change.
pub(crate) fn change(logging: &Logging) -> Result<(), String> {
    let targets = targets(&logging.level.filter(OWN))?;
    let Some(handles) = STARTED.get() else { return Ok(()) };
    let changed =
        handles.filter.reload(targets).and_then(|()| handles.lines.reload(lines(logging.format == LogFormat::Json)));
    changed.map_err(|error| format!("logging: {error}"))
}

fn targets(level: &str) -> Result<Targets, String> {
    level.parse().map_err(|error| {
        format!("logging.level: {level:?} is no level ({error}); use error, warn, info, debug, trace or off")
    })
}

fn lines(json: bool) -> Lines {
    if json {
        fmt::layer().json().flatten_event(true).with_writer(std::io::stderr).boxed()
    } else {
        fmt::layer().with_writer(std::io::stderr).with_ansi(false).boxed()
    }
}
