//! `check`, and how every command reads its configuration (data-plane 1).

use std::collections::BTreeMap;
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
    config::load_with(&text, &|name| std::env::var(name).ok(), &overrides()?).map_err(|problems| {
        let lines: Vec<String> = problems.0.iter().map(|problem| format!("{}: {problem}", path.display())).collect();
        Failed::config(lines.join("\n"))
    })
}

/// The variables that take the place of keys of the file.
fn overrides() -> Result<BTreeMap<String, String>, Failed> {
    let named = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let ours = named.filter(|(name, _)| name.starts_with(config::OVERRIDE_PREFIX));
    let texts = ours.map(|(name, value)| match value.into_string() {
        Ok(value) => Ok((name, value)),
        Err(_) => Err(Failed::config(format!("environment: {name}: the value is no UTF-8; set it to a text"))),
    });
    texts.collect()
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

/// Prints what is in effect, secrets redacted; or the schema, or the reference, of every key there is.
///
/// # Errors
/// Every problem of the file, with exit code 2.
pub fn main(path: Option<&Path>, schema: bool, reference: bool) -> Result<(), Failed> {
    if schema {
        print!("{}", config::schema());
    }
    if reference {
        print!("{}", config::reference());
    }
    path.map_or(Ok(()), check)
}

fn check(path: &Path) -> Result<(), Failed> {
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
