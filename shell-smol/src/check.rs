//! `check`, and how every command reads its configuration (data-plane 1).

use std::path::{Path, PathBuf};

use appproxy_core::config::{self, Loaded};

use crate::Failed;

/// Where `run` looks without `--config`, in this order.
const PLACES: [&str; 3] =
    ["./config.yaml", "~/.config/appproxy-worker/config.yaml", "/etc/appproxy-worker/config.yaml"];

/// Reads and checks a file.
pub(crate) fn load(path: &Path) -> Result<Loaded, Failed> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failed::config(format!("{}: {error}; give the path of a readable file", path.display())))?;
    config::load(&text, &|name| std::env::var(name).ok()).map_err(|problems| {
        let lines: Vec<String> = problems.0.iter().map(|problem| format!("{}: {problem}", path.display())).collect();
        Failed::config(lines.join("\n"))
    })
}

/// Logs what the operator should know of a file that is in force.
pub(crate) fn warn(loaded: &Loaded) {
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    for warning in &loaded.not_in_effect {
        tracing::warn!("not in effect yet: {warning}");
    }
}

/// The file to read: the one given, or the first that is there.
pub(crate) fn find(given: Option<&Path>) -> Result<PathBuf, Failed> {
    if let Some(path) = given {
        return Ok(path.to_owned());
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let places = PLACES.iter().filter_map(|place| match place.strip_prefix("~/") {
        Some(rest) => home.as_ref().map(|home| home.join(rest)),
        None => Some(PathBuf::from(place)),
    });
    let places: Vec<PathBuf> = places.collect();
    places.iter().find(|place| place.exists()).cloned().ok_or_else(|| {
        Failed::config(format!("no configuration: give --config FILE, or write one of {}", PLACES.join(", ")))
    })
}

/// Prints what is in effect, secrets redacted.
///
/// # Errors
/// Every problem of the file, with exit code 2.
pub fn main(path: &Path) -> Result<(), Failed> {
    let loaded = load(path)?;
    print!("{}", config::describe(&loaded.config));
    for warning in loaded.warnings {
        eprintln!("{}: warning: {warning}", path.display());
    }
    for warning in loaded.not_in_effect {
        eprintln!("{}: not in effect yet: {warning}", path.display());
    }
    Ok(())
}
