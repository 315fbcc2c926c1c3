//! What the commands of a worker's program say (data-plane 1): the same words whatever runtime it stands on.

use core::fmt::{self, Display, Write};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

mod ask;

pub use ask::{Asked, Posed};

use crate::config::{self, Loaded};

/// Where `run` looks without `--config`, in this order; `~` is the user's home.
const PLACES: [&str; 3] =
    ["./config.yaml", "~/.config/appproxy-worker/config.yaml", "/etc/appproxy-worker/config.yaml"];

/// Why a command failed: what is said on standard error, and the exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// 1 failed at run time, 2 bad configuration or usage.
    pub code: u8,
    /// In words.
    pub message: String,
}

impl Failed {
    /// It failed at run time.
    #[must_use]
    pub const fn run(message: String) -> Self {
        Self { code: 1, message }
    }

    /// The configuration is wrong.
    #[must_use]
    pub const fn config(message: String) -> Self {
        Self { code: 2, message }
    }
}

impl Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for Failed {}

/// The places to look for a configuration at, best first.
pub fn places(home: Option<&Path>) -> impl Iterator<Item = PathBuf> {
    PLACES.iter().filter_map(move |place| match place.strip_prefix("~/") {
        Some(rest) => home.map(|home| home.join(rest)),
        None => Some(PathBuf::from(place)),
    })
}

/// There is none at any of the places.
#[must_use]
pub fn found_nowhere() -> Failed {
    Failed::config(format!("no configuration: give --config FILE, or write one of {}", PLACES.join(", ")))
}

/// The variables that take the place of keys of the file, of all that there are.
///
/// # Errors
/// One that is no text.
pub fn overrides(variables: impl Iterator<Item = (OsString, OsString)>) -> Result<BTreeMap<String, String>, Failed> {
    let named = variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let ours = named.filter(|(name, _)| name.starts_with(config::OVERRIDE_PREFIX));
    let texts = ours.map(|(name, value)| match value.into_string() {
        Ok(value) => Ok((name, value)),
        Err(_) => Err(Failed::config(format!("environment: {name}: the value is no UTF-8; set it to a text"))),
    });
    texts.collect()
}

/// What the demo says when variables are set that would take the place of keys of a file, and do not of its own
/// configuration: their names, never what they hold.
#[must_use]
pub fn unread_overrides(variables: impl Iterator<Item = (OsString, OsString)>) -> Option<String> {
    let names = variables.filter_map(|(name, _)| name.into_string().ok());
    let mut ours: Vec<String> = names.filter(|name| name.starts_with(config::OVERRIDE_PREFIX)).collect();
    ours.sort_unstable();
    (!ours.is_empty()).then(|| format!("the demo has a configuration of its own and does not read {}", ours.join(", ")))
}

/// Reads the `text` of the file at `path`; an unreadable one is given as its error. `env`: the environment's variables;
/// `given`: those that take the place of keys ([`overrides`]).
///
/// # Errors
/// Every problem of the file, each with the path.
pub fn load<E: Display>(
    path: &Path,
    text: Result<String, E>,
    env: &dyn Fn(&str) -> Option<String>,
    given: &BTreeMap<String, String>,
) -> Result<Loaded, Failed> {
    let text =
        text.map_err(|error| Failed::config(format!("{}: {error}; give the path of a readable file", path.display())))?;
    config::load_with(&text, env, given).map_err(|problems| {
        let lines: Vec<String> = problems.0.iter().map(|problem| format!("{}: {problem}", path.display())).collect();
        Failed::config(lines.join("\n"))
    })
}

/// Refuses the file at `path` for what it names and a shell cannot have: each with its key, and in words that begin with it
/// and say what would be right.
///
/// # Errors
/// With all of them, in the form of [`load`], if there are any.
pub fn obtained(path: &Path, loaded: &Loaded, found: &[(String, String)]) -> Result<(), Failed> {
    if found.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> =
        found.iter().map(|(key, words)| format!("{}: {}", path.display(), loaded.placed(key, words))).collect();
    Err(Failed::config(lines.join("\n")))
}

/// What `check` prints of a file that is right: what is in effect, secrets redacted, and for standard error what the
/// operator should know.
#[must_use]
pub fn check(path: &Path, loaded: &Loaded) -> (String, String) {
    let mut remarks = String::new();
    for remark in remarks_on(loaded) {
        let _ = writeln!(remarks, "{}: {remark}", path.display());
    }
    (config::describe(&loaded.config), remarks)
}

/// What the operator should know of a file that is right, one line each.
pub fn remarks_on(loaded: &Loaded) -> impl Iterator<Item = String> {
    let warnings = loaded.warnings.iter().map(|warning| format!("warning: {warning}"));
    warnings.chain(loaded.not_in_effect.iter().map(|warning| format!("not in effect yet: {warning}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_looked_in_when_there_is_one() {
        assert_eq!(places(None).count(), 2);
        let with: Vec<PathBuf> = places(Some(Path::new("/a-home"))).collect();
        assert_eq!(with.get(1).map(PathBuf::as_path), Some(Path::new("/a-home/.config/appproxy-worker/config.yaml")));
        assert!(found_nowhere().message.contains("./config.yaml") && found_nowhere().code == 2);
    }

    #[test]
    fn variables_that_are_not_read_are_named_without_their_values() {
        let all = [("PATH", "/bin"), ("APPPROXY__B__C", "s3cr3t"), ("APPPROXY__A", "x"), ("APPPROXY_API_SECRET", "y")];
        let variables = |most: usize| all.into_iter().take(most).map(|(name, value)| (name.into(), value.into()));
        assert_eq!(unread_overrides(variables(1)), None);
        let said = unread_overrides(variables(4)).expect("two of them");
        assert!(said.ends_with("does not read APPPROXY__A, APPPROXY__B__C"), "{said}");
    }

    #[test]
    fn problems_come_with_their_file() {
        let path = Path::new("a.yaml");
        let refused =
            |text: Result<&str, &str>| load(path, text.map(str::to_owned), &|_| None, &BTreeMap::new()).map(drop);
        assert_eq!(refused(Ok("")), Ok(()));
        let wrong = refused(Ok("servre: {}")).expect_err("a typo");
        assert!(wrong.code == 2 && wrong.to_string().starts_with("a.yaml: "), "{wrong}");
        let missing = refused(Err("no such file")).expect_err("no file");
        assert_eq!(missing.message, "a.yaml: no such file; give the path of a readable file");
    }

    #[test]
    fn what_cannot_be_had_comes_with_its_place() {
        let (path, text) = (Path::new("a.yaml"), "server:\n  tls: {cert_file: c, key_file: k}\n");
        let loaded = load(path, Ok::<_, String>(text.to_owned()), &|_| None, &BTreeMap::new()).expect("it is right");
        assert_eq!(obtained(path, &loaded, &[]), Ok(()));
        let found = ["server.tls.key_file", "unheard.of"].map(|key| (key.to_owned(), format!("{key} x: no")));
        let failed = obtained(path, &loaded, &found).expect_err("two");
        let words = "a.yaml: line 2, column 23: server.tls.key_file x: no\na.yaml: unheard.of x: no";
        assert_eq!((failed.code, failed.message.as_str()), (2, words));
    }

    #[test]
    fn a_checked_file_is_shown_with_what_is_to_be_known() {
        let given = BTreeMap::new();
        let loaded = load(Path::new("a.yaml"), Ok::<_, String>(String::new()), &|_| None, &given).expect("defaults");
        let (shown, remarks) = check(Path::new("a.yaml"), &loaded);
        assert!(shown.contains("server:"), "{shown}");
        assert_eq!(remarks.lines().count(), loaded.warnings.len() + loaded.not_in_effect.len());
        assert!(remarks.lines().all(|line| line.starts_with("a.yaml: ")), "{remarks}");
    }
}
