//! The lines of a journal.

use core::fmt;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::super::Worker;
use super::super::call::{CallId, TransportFailure};
use super::super::calls::Purpose;
use super::super::input::Input;
use super::changed::Gone;
use super::checkpoint::Checkpoint;
use crate::config::worker::WorkerConfig;
use crate::seed::Seed;
use crate::serving::ServingSettings;
use crate::time::Now;

/// The version of the form that this library writes and reads.
pub const VERSION: u32 = 1;

/// The first line: what the worker was made from.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// [`VERSION`].
    pub journal: u32,
    /// The program that wrote it.
    pub program: String,
    /// What every draw follows from.
    pub seed: Seed,
    /// When the worker was made.
    pub start: Now,
    /// Its configuration, without secrets and addresses of the coordinator.
    pub config: WorkerConfig,
    /// Static backends, without credentials, and how candidates are weighed.
    pub serving: ServingSettings,
    /// How many inputs the worker had before this journal's first.
    #[serde(default)]
    pub after: u64,
    /// What it was by then; nothing when it began with this journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Box<Checkpoint>>,
}

impl Head {
    /// The same worker's next journal: `worker` as it is now, drained.
    ///
    /// # Errors
    /// When an ack's echo cannot be replaced.
    pub fn resumed(&self, worker: &Worker, after: u64) -> serde_json::Result<Self> {
        let state = Some(Box::new(Checkpoint::of(worker)?));
        let serving = worker.serving.settings();
        Ok(Self { after, state, serving, ..self.clone() })
    }
}

/// How every head begins, of whatever version.
const BEGINNING: &str = "{\"journal\":";

/// Whether a file whose first bytes are these may be a journal: it is empty, or begins as a head does, which a crash may have
/// cut. Other files are not to be renamed, let alone deleted, to make room for one. `beginning`: the first
/// [`BEGINNING_BYTES`], or all there are.
#[must_use]
pub fn begins_as_journal(beginning: &[u8]) -> bool {
    let compared = beginning.len().min(BEGINNING_BYTES);
    beginning.get(..compared) == BEGINNING.as_bytes().get(..compared)
}

/// How much of a file tells a journal.
pub const BEGINNING_BYTES: usize = BEGINNING.len();

/// One input. Either `input` or `call` is there.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    pub(super) n: u64,
    pub(super) at: Now,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) input: Option<Input>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) call: Option<Ended>,
}

/// A call that ended.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ended {
    pub(super) id: CallId,
    /// What it was for; nothing when nobody waited for it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) purpose: Option<Purpose>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failed: Option<TransportFailure>,
    /// What was read of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) read: Option<Box<RawValue>>,
    /// The input whose answer this one is a change of: `read` lists only what is new, `gone` what is not listed any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) gone: Option<Gone>,
    /// The input whose answer was the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) same_as: Option<u64>,
}

/// A line that cannot be replayed: its number in the file, from 1, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// The line.
    pub line: u64,
    /// What is wrong, and what should be there.
    pub problem: String,
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl core::error::Error for Damaged {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_told_by_its_beginning() {
        for journal in ["", "{", "{\"journ", "{\"journal\":", "{\"journal\":1,\"program\"", "{\"journal\":99}\n"] {
            assert!(begins_as_journal(journal.as_bytes()), "{journal}");
        }
        for other in ["\n", "notes", "{}", "{\"journalled\":1}", "{\"n\":1}", "\0"] {
            assert!(!begins_as_journal(other.as_bytes()), "{other}");
        }
    }
}
