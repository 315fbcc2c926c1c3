//! `check`, and how every command reads its configuration (data-plane 1).

use std::path::{Path, PathBuf};

use appproxy_core::command::{self, Failed};
use appproxy_core::config::{self, Loaded};

/// Reads and checks a file.
pub(crate) fn load(path: &Path) -> Result<Loaded, Failed> {
    let given = command::overrides(std::env::vars_os())?;
    command::load(path, std::fs::read_to_string(path), &|name| std::env::var(name).ok(), &given)
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
    let (shown, remarks) = command::check(path, &load(path)?);
    print!("{shown}");
    eprint!("{remarks}");
    Ok(())
}
