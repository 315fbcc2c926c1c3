//! What could not be read, said so that an operator can find it.

use core::fmt;
use serde::{Deserialize, Serialize};

/// The kinds of things that can be malformed; the label of the metric and of the once-a-minute log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MalformedKind {
    /// A bus message that is no envelope, or too large.
    Envelope,
    /// An envelope whose body is not what its event's name promises.
    EventBody,
    /// A circuit, in an event or in a pull.
    Circuit,
    /// A route of a circuit; the circuit is applied without it.
    Route,
    /// A replica group of a circuit; its routes fall into the implicit group.
    ReplicaGroup,
    /// A publication, in an event or in a pull.
    Publication,
    /// A mapping of a publication; the publication is applied without it.
    Mapping,
    /// A model API key, in a pull.
    Key,
    /// A number read as 0: one that JSON does not know (`NaN`, `Infinity`), one out of range, an explicit null; or a
    /// negative one, which counts as 0.
    Number,
    /// A REST answer as a whole.
    RestBody,
}

impl MalformedKind {
    /// The kind as a metric label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Envelope => "envelope",
            Self::EventBody => "event_body",
            Self::Circuit => "circuit",
            Self::Route => "route",
            Self::ReplicaGroup => "replica_group",
            Self::Publication => "publication",
            Self::Mapping => "mapping",
            Self::Key => "key",
            Self::Number => "number",
            Self::RestBody => "rest_body",
        }
    }
}

/// One malformed thing. `path` says where (`circuits[3].route_info[0].kernel_port`), `problem` what was wrong and what
/// would be right; neither holds a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Malformed {
    /// What kind of thing it is.
    pub kind: MalformedKind,
    /// Where it stands in the body.
    pub path: String,
    /// Its id, where that could be read (as written by us, for UUIDs), cut to `limits::QUOTED_CHARS`; of a number, the
    /// id of what it belongs to.
    pub id: Option<String>,
    /// What is wrong and what would be right.
    pub problem: String,
    /// How many more of this kind this report stands for, beyond `limits::REPORTED_ELEMENTS`; mostly 0.
    pub further: u64,
}

impl Malformed {
    /// A report of one malformed thing without an id.
    #[must_use]
    pub fn new(kind: MalformedKind, path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { kind, path: path.into(), id: None, problem: problem.into(), further: 0 }
    }

    /// How many malformed things this report stands for: what a counter goes up by.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.further.saturating_add(1)
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed {}", self.kind.label())?;
        if !self.path.is_empty() {
            write!(f, " at {}", self.path)?;
        }
        if let Some(id) = &self.id {
            write!(f, " (id {})", id.escape_debug())?;
        }
        write!(f, ": {}", self.problem)
    }
}

/// A list read element by element: what could be read, and what could not. Of several elements with one id the last
/// one counts, whether it could be read or not, and each repetition is reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elements<T> {
    /// The elements that could be read, in their order.
    pub good: Vec<T>,
    /// Reports of everything malformed, nested elements (routes, mappings) included.
    pub malformed: Vec<Malformed>,
    /// Ids of *whole* elements that were skipped although their id could be read (the id in our own spelling).
    pub skipped_ids: Vec<String>,
    /// Whether some whole element was skipped whose id could not be read: then the list removes nothing
    /// (circuits and publications) or everything not listed (keys).
    pub unreadable: bool,
}

impl<T> Default for Elements<T> {
    fn default() -> Self {
        Self { good: Vec::new(), malformed: Vec::new(), skipped_ids: Vec::new(), unreadable: false }
    }
}
