//! Reads lines, and does again what they brought about.

use std::collections::BTreeMap;

use super::super::Worker;
use super::super::answers::check_kept;
use super::super::call::{CallBody, CallEnded, CallOutcome, CallResponse};
use super::super::calls::Purpose;
use super::super::input::Input;
use super::super::output::{Command, Output};
use super::line::{Damaged, Ended, Head, Line, VERSION};
use super::shown;
use crate::serving::ChangeSet;

/// A worker that lives through a journal.
#[derive(Debug)]
pub struct Replay {
    worker: Worker,
    head: Head,
    number: u64,
    /// Of every kind of answer: the last one that was written out, and the input that brought it.
    read: BTreeMap<Purpose, (u64, Vec<u8>)>,
}

/// What one input brought about.
#[derive(Debug)]
pub struct Step {
    /// The input's number.
    pub number: u64,
    /// The input, in words.
    pub input: String,
    /// Every output, as [`shown::output`] writes it, up to and with the wait.
    pub outputs: Vec<String>,
    /// What the applies among them changed.
    pub changes: Vec<ChangeSet>,
}

impl Replay {
    /// A worker as the head describes it.
    ///
    /// # Errors
    /// When the line is no head of this version.
    pub fn begin(head: &str) -> Result<Self, Damaged> {
        let damaged = |problem| Damaged { line: 1, problem };
        let version = serde_json::from_str::<Version>(head).map_err(|error| {
            damaged(format!("not the head of a journal ({error}); {{\"journal\":{VERSION},...}} should be here"))
        })?;
        if version.journal != VERSION {
            let text = format!("a journal of version {}; this program replays version {VERSION}", version.journal);
            return Err(damaged(text));
        }
        let head: Head = serde_json::from_str(head).map_err(|error| damaged(format!("a damaged head: {error}")))?;
        let mut worker = Worker::replayed(head.config.clone(), &head.serving, head.seed, head.start);
        if let Some(state) = &head.state {
            state.clone().resume(&mut worker);
        }
        Ok(Self { worker, number: head.after, head, read: BTreeMap::new() })
    }

    /// The first line.
    #[must_use]
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// The number of the last input replayed.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The worker as it is after the last input. Its keys have pseudonyms in the place of their hashes.
    #[must_use]
    pub const fn worker(&self) -> &Worker {
        &self.worker
    }

    /// Replays the next line.
    ///
    /// # Errors
    /// When the line is no input, or not the next one; the worker is as before then.
    pub fn feed(&mut self, line: &str) -> Result<Step, Damaged> {
        let number = self.number + 1;
        let place = number - self.head.after + 1;
        let damaged = |problem| Damaged { line: place, problem };
        let line: Line = serde_json::from_str(line)
            .map_err(|error| damaged(format!("not an input ({error}); input {number} should be here")))?;
        if line.n != number {
            return Err(damaged(format!(
                "input {}, where input {number} should be: lines are missing or added",
                line.n
            )));
        }
        let (input, words) = match (line.input, line.call) {
            (Some(input), None) => {
                let words = shown::input(&input);
                (input, words)
            }
            (None, Some(ended)) => {
                let words = shown::ended(&ended);
                (self.ended(ended).map_err(damaged)?, words)
            }
            _ => return Err(damaged("either an input or the end of a call should be here".to_owned())),
        };
        self.number = number;
        self.worker.handle_input(input, line.at);
        let mut step = Step { number, input: words, outputs: Vec::new(), changes: Vec::new() };
        loop {
            let output = self.worker.poll_output();
            step.outputs.push(shown::output(&output));
            match output {
                Output::Command(Command::Apply(apply)) => step.changes.push(apply.changes),
                Output::Wait(_) => return Ok(step),
                Output::Command(_) | Output::Event(_) => {}
            }
        }
    }

    fn ended(&mut self, line: Ended) -> Result<Input, String> {
        let Ended { id, purpose, status, failed, read, same_as } = line;
        let outcome = match (status, failed) {
            (None, Some(failure)) => CallOutcome::Failed(failure),
            (Some(status), None) => {
                let body = self.body(purpose.filter(|_| status == 200), read.map(|read| read.get().into()), same_as)?;
                CallOutcome::Answered(CallResponse { status, body: CallBody(body) })
            }
            _ => return Err("a call has either a status or a failure".to_owned()),
        };
        Ok(Input::CallEnded(CallEnded { id, outcome }))
    }

    /// The answer in the journal's form; `purpose` is there when the worker will read it.
    fn body(
        &mut self,
        purpose: Option<Purpose>,
        read: Option<String>,
        same_as: Option<u64>,
    ) -> Result<Vec<u8>, String> {
        let Some(purpose) = purpose else { return Ok(read.unwrap_or_default().into()) };
        if let Some(number) = same_as {
            let known = self.read.get(&purpose).filter(|(written, _)| *written == number);
            let missing = || format!("the answer is said to be that of input {number}, which brought no such answer");
            return known.map(|(_, body)| body.clone()).ok_or_else(missing);
        }
        let body = read.unwrap_or_default().into_bytes();
        if matches!(purpose, Purpose::Heartbeat | Purpose::Deregister) {
            return Ok(body);
        }
        check_kept(purpose, &body).map_err(|error| format!("a damaged answer ({error})"))?;
        self.read.insert(purpose, (self.number + 1, body.clone()));
        Ok(body)
    }
}

#[derive(serde::Deserialize)]
struct Version {
    journal: u32,
}
