//! `check`, and how every command reads its configuration (data-plane 1).

use std::path::{Path, PathBuf};

use appproxy_core::command::{self, Failed};
use appproxy_core::config::{self, Config, Loaded};

use crate::bus::Bus;
use crate::calls::Coordinator;
use crate::clock::Clock;
use crate::{journal, tls};

/// Reads and checks a file, and what it names that is read again with it.
pub(crate) fn load(path: &Path) -> Result<Loaded, Failed> {
    let loaded = read(path)?;
    command::obtained(path, &loaded, &unreadable(&loaded.config))?;
    Ok(loaded)
}

/// Likewise, and what it names that counts when a worker starts.
pub(crate) fn load_to_start(path: &Path) -> Result<Loaded, Failed> {
    let loaded = read(path)?;
    let mut found = unreadable(&loaded.config);
    found.extend(unusable(&loaded.config));
    command::obtained(path, &loaded, &found)?;
    Ok(loaded)
}

fn read(path: &Path) -> Result<Loaded, Failed> {
    let given = command::overrides(std::env::vars_os())?;
    command::load(path, std::fs::read_to_string(path), &|name| std::env::var(name).ok(), &given)
}

/// Certificates that cannot be had, tried by having them.
fn unreadable(config: &Config) -> Vec<(String, String)> {
    config.server.tls.as_ref().map(tls::problems).unwrap_or_default()
}

/// What would keep a worker from starting.
fn unusable(config: &Config) -> Vec<(String, String)> {
    // The bus's TLS asks for it.
    tls::install_provider();
    let worker = config.worker.as_ref().and_then(|worker| {
        let had = Coordinator::new(worker, Clock::start()).map(drop).and_then(|()| Bus::new(worker).map(drop));
        let wrong = format!("{}.{}", worker.section(), had.err()?);
        Some((wrong.split([' ', ':']).next().unwrap_or_default().to_owned(), wrong))
    });
    let journal = journal::refused(config).err().map(|wrong| ("journal.file".to_owned(), wrong));
    worker.into_iter().chain(journal).collect()
}

/// Logs what the operator should know of a file that is in force.
pub(crate) fn warn(loaded: &Loaded) {
    command::remarks_on(loaded).for_each(|remark| tracing::warn!("{remark}"));
}

/// The file to read: the one given, or the first that is there.
pub(crate) fn find(given: Option<&Path>) -> Result<PathBuf, Failed> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let found = || command::places(home.as_deref()).find(|place| place.exists());
    given.map(Path::to_owned).or_else(found).ok_or_else(command::found_nowhere)
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
    let Some(path) = path else { return Ok(()) };
    let (shown, remarks) = command::check(path, &load_to_start(path)?);
    print!("{shown}");
    eprint!("{remarks}");
    Ok(())
}
