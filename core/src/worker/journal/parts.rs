//! The parts of a journal (data-plane 7): when one is full, what happens when one cannot be written.

use core::time::Duration;
use std::path::{Path, PathBuf};

use super::{Head, Recorder, VERSION};
use crate::config::logging::Journal;
use crate::config::worker::WorkerConfig;
use crate::seed::Seed;
use crate::serving::ServingSettings;
use crate::time::{Moment, Now};
use crate::worker::{Input, Worker};

/// Bytes on their way to the disk. Beyond: the part ends, as after any failure.
const BEHIND: usize = 256 * 1024 * 1024;
/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(30);

/// Bounds of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartBounds {
    /// A part that has more bytes of inputs than this is followed by another.
    pub part_bytes: usize,
    /// Parts kept beside the one being written.
    pub older_parts: u32,
    /// Bytes on their way to the disk. Beyond: the part ends, as after any failure.
    pub behind: usize,
    /// The pause after a failure.
    pub pause: Duration,
}

impl From<&Journal> for PartBounds {
    fn from(settings: &Journal) -> Self {
        let part_bytes = usize::try_from(settings.part_size).unwrap_or(usize::MAX);
        Self { part_bytes, older_parts: settings.older_parts, behind: BEHIND, pause: PAUSE }
    }
}

/// Which files are renamed, from and to and in this order, so that `file` is free: it becomes `FILE.1`, that one `FILE.2`
/// and so on; the oldest is overwritten. None with no older part: then `file` itself goes.
pub fn make_room(file: &Path, older_parts: u32) -> impl Iterator<Item = (PathBuf, PathBuf)> {
    let part = move |number: u32| {
        let mut name = file.as_os_str().to_owned();
        if number > 0 {
            name.push(format!(".{number}"));
        }
        PathBuf::from(name)
    };
    (0..older_parts).rev().map(move |number| (part(number), part(number + 1)))
}

/// What the writer is to do next. Lines come without their line break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Begin a part with this head; what is there already becomes an older part.
    Begin(String),
    /// Write a line.
    Line(String),
}

impl Order {
    /// The bytes to write.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        match self {
            Self::Begin(line) | Self::Line(line) => line.len(),
        }
    }
}

/// The journal of one worker.
#[derive(Debug)]
pub struct Parts {
    bounds: PartBounds,
    head: Head,
    /// Inputs seen, recorded or not.
    inputs: u64,
    /// The part being written; `None` after a failure, until its pause is over.
    part: Option<Part>,
    paused_until: Moment,
}

#[derive(Debug)]
struct Part {
    recorder: Recorder,
    bytes: usize,
}

impl Parts {
    /// The journal, written by `program`, of a worker that was made from the rest. Its first part is begun with the first
    /// input.
    #[must_use]
    pub fn of(
        bounds: PartBounds,
        program: String,
        config: &WorkerConfig,
        serving: &ServingSettings,
        seed: Seed,
        start: Now,
    ) -> Self {
        let (config, serving) = (config.clone(), serving.clone());
        let head = Head { journal: VERSION, program, seed, start, config, serving, after: 0, state: None };
        Self { bounds, head, inputs: 0, part: None, paused_until: Moment::START }
    }

    /// Whether a part is being written.
    #[must_use]
    pub const fn open(&self) -> bool {
        self.part.is_some()
    }

    /// Records what `worker` is about to be told, for a writer that is `behind` by so many bytes.
    ///
    /// # Errors
    /// In words; the part has ended then, and another is begun after the pause.
    pub fn record(
        &mut self,
        worker: &Worker,
        input: &Input,
        now: Now,
        behind: usize,
    ) -> Result<impl IntoIterator<Item = Order> + use<>, String> {
        let recorded = self.try_record(worker, input, now, behind);
        self.inputs += 1;
        if recorded.is_err() {
            self.give_up(now.moment);
        }
        recorded.map(|(begin, line)| begin.into_iter().chain(line))
    }

    /// Writing has failed: the part has ended.
    pub fn give_up(&mut self, now: Moment) {
        self.part = None;
        self.paused_until = now.after(self.bounds.pause);
    }

    fn try_record(
        &mut self,
        worker: &Worker,
        input: &Input,
        now: Now,
        behind: usize,
    ) -> Result<(Option<Order>, Option<Order>), String> {
        if behind > self.bounds.behind {
            return Err(format!("the disk is {behind} bytes behind"));
        }
        let full = self.part.as_ref().is_some_and(|part| part.bytes > self.bounds.part_bytes);
        let begin = match full || (self.part.is_none() && now.moment >= self.paused_until) {
            true => Some(self.begin(worker)?),
            false => None,
        };
        let Some(part) = &mut self.part else { return Ok((None, None)) };
        let line = part.recorder.line(worker, input, now);
        let line = line.map_err(|error| format!("cannot describe input {}: {error}", self.inputs + 1))?;
        part.bytes += line.len();
        Ok((begin, Some(Order::Line(line))))
    }

    fn begin(&mut self, worker: &Worker) -> Result<Order, String> {
        let head = if self.inputs == 0 { Ok(self.head.clone()) } else { self.head.resumed(worker, self.inputs) };
        let begun = head.and_then(|head| Recorder::begin(&head));
        let (recorder, line) = begun.map_err(|error| format!("cannot describe the worker: {error}"))?;
        self.part = Some(Part { recorder, bytes: 0 });
        Ok(Order::Begin(line))
    }
}

#[cfg(test)]
#[path = "parts_tests.rs"]
mod tests;
