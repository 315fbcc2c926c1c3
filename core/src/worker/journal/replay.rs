//! Reads lines, and does again what they brought about.

use std::collections::BTreeMap;

use super::super::Worker;
use super::super::answers;
use super::super::call::{CallBody, CallEnded, CallOutcome, CallResponse};
use super::super::calls::Purpose;
use super::super::input::Input;
use super::super::output::{Command, Output};
use super::changed::{Gone, restore};
use super::line::{Damaged, Ended, Head, Line, VERSION, begins_as_journal};
use super::shown;
use crate::serving::ChangeSet;
use crate::time::Now;

/// A worker that lives through a journal.
#[derive(Debug)]
pub struct Replay {
    worker: Worker,
    head: Head,
    number: u64,
    /// Of every kind of answer: the last one that could be read, whole, and the input that brought it.
    read: BTreeMap<Purpose, (u64, Vec<u8>)>,
}

/// What one input brought about.
#[derive(Debug)]
pub struct Step {
    /// The input's number.
    pub number: u64,
    /// When it came.
    pub at: Now,
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
        if !begins_as_journal(head.as_bytes()) {
            return Err(damaged(format!("not the head of a journal; {{\"journal\":{VERSION},...}} should be here")));
        }
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
        let mut step = Step { number, at: line.at, input: words, outputs: Vec::new(), changes: Vec::new() };
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
        let Ended { id, purpose, status, failed, read, since, gone, same_as } = line;
        let outcome = match (status, failed) {
            (None, Some(failure)) => CallOutcome::Failed(failure),
            (Some(status), None) => {
                let read = read.map(|read| read.get().as_bytes().to_vec()).unwrap_or_default();
                let body = match purpose.filter(|_| status == 200) {
                    None => read,
                    Some(purpose) => match same_as {
                        Some(number) => self.known(purpose, number)?.to_vec(),
                        None => self.read(purpose, read, since, &gone.unwrap_or_default())?,
                    },
                };
                CallOutcome::Answered(CallResponse { status, body: CallBody(body) })
            }
            _ => return Err("a call has either a status or a failure".to_owned()),
        };
        Ok(Input::CallEnded(CallEnded { id, outcome }))
    }

    /// The whole answer in the journal's form.
    fn read(&mut self, purpose: Purpose, json: Vec<u8>, since: Option<u64>, gone: &Gone) -> Result<Vec<u8>, String> {
        let damaged = |error| format!("a damaged answer ({error})");
        let Some(Ok(mut answer)) = answers::read(purpose, &json).map_err(damaged)? else { return Ok(json) };
        let mut whole = json;
        if let Some(number) = since {
            let before = answers::read(purpose, self.known(purpose, number)?).map_err(damaged)?;
            let restored = match before {
                Some(Ok(before)) => restore(before, &mut answer, gone),
                Some(Err(_)) | None => false,
            };
            if !restored {
                return Err(format!("the answer cannot be a change of that of input {number}"));
            }
            whole = serde_json::to_vec(&Ok::<_, ()>(answer)).map_err(damaged)?;
        }
        self.read.insert(purpose, (self.number + 1, whole.clone()));
        Ok(whole)
    }

    fn known(&self, purpose: Purpose, number: u64) -> Result<&[u8], String> {
        let known = self.read.get(&purpose).filter(|(written, _)| *written == number);
        let missing = || format!("the answer is said to follow that of input {number}, which brought no such answer");
        known.map(|(_, body)| body.as_slice()).ok_or_else(missing)
    }
}

#[derive(serde::Deserialize)]
struct Version {
    journal: u32,
}
