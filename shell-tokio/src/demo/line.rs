//! One thing to try: what it shows, and the command to paste.

use core::fmt;

use super::SECRET;

/// A comment and a command.
pub(super) struct Line {
    what: String,
    command: String,
}

impl Line {
    pub(super) fn new(what: &str, command: impl Into<String>) -> Self {
        Self { what: what.to_owned(), command: command.into() }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "# {}\n{}", self.what, self.command)
    }
}

/// The headers of a call to the coordinator.
pub(super) fn manager_headers() -> String {
    format!("-H 'X-BackendAI-Token: {SECRET}' -H 'Content-Type: application/json'")
}

/// A chat's body and its type, as curl takes them.
pub(super) fn chat_body(model: &str, extra: &str) -> String {
    format!(
        "-H 'Content-Type: application/json' \
         -d '{{\"model\":\"{model}\"{extra},\"messages\":[{{\"role\":\"user\",\"content\":\"Hello there\"}}]}}'"
    )
}
