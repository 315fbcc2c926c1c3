//! The reference of the file as Markdown, made of [`super::KEYS`].

use core::fmt::Write;

use super::keys::{Applies, KEYS, Kind};
use crate::defects::told;

/// Every key with its kind, default, meaning and what a changed value takes to count, as a Markdown page. The page in the
/// repository (`core/docs/configuration.md`) is this one, which a test sees to.
#[must_use]
pub fn reference() -> String {
    let mut page = String::from(
        "# Configuration\n\nEvery key of the file. `appproxy-worker check --reference` prints this page, \
         `check --schema` a JSON Schema for editors. Any single value may hold `${NAME}`, a variable of the environment. A \
         variable `APPPROXY__SECTION__KEY` takes the place of `section.key`: lists with commas between their items, entries \
         of a list of sections by number (`APPPROXY__BACKENDS__0__URL`); its value is taken as it is. *reload*: a changed value counts at once when \
         the file changes or on `SIGHUP`. *restart*: it counts when the worker is started anew, and the log says so.\n",
    );
    let mut section = "";
    for doc in KEYS.iter().filter(told) {
        let begins = section_of(doc.key);
        if begins != section {
            section = begins;
            let _ = write!(page, "\n## `{section}`\n\n| key | kind | default | meaning | |\n|---|---|---|---|---|\n");
        }
        let applies = match doc.applies {
            Applies::Reload => "reload",
            Applies::Restart => "restart",
        };
        let (key, kind) = (doc.key, kind(doc.kind));
        let _ = writeln!(page, "| `{key}` | {kind} | {} | {} | {applies} |", code(doc.default), doc.meaning);
    }
    page
}

/// What stands before the first dot or bracket; a key without any is its own section.
fn section_of(key: &str) -> &str {
    key.split(['.', '[']).next().unwrap_or(key)
}

/// Words of ours (`required`, `-`) stay words, values become code.
fn code(default: &str) -> String {
    let words = default == "-" || default.starts_with("required") || default.contains(' ');
    if words { default.to_owned() } else { format!("`{default}`") }
}

fn kind(kind: Kind) -> String {
    match kind {
        Kind::Text => "text".to_owned(),
        Kind::Secret => "text, never shown".to_owned(),
        Kind::Boolean => "`true`, `false`".to_owned(),
        Kind::Number => "number".to_owned(),
        Kind::Duration => "duration (`10s`, `500ms`)".to_owned(),
        Kind::Size => "size (`64KiB`)".to_owned(),
        Kind::Choice(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Kind::List => "list".to_owned(),
        Kind::Table => "table".to_owned(),
    }
}
