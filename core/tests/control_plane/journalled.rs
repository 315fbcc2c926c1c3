//! Every test of the control plane is one of the journal, too: when its stage is dropped, what was recorded is replayed
//! and must give the outputs that were seen.

use std::fmt::Write as _;

use appproxy_core::config::worker::WorkerConfig;
use appproxy_core::seed::Seed;
use appproxy_core::serving::ServingSettings;
use appproxy_core::time::Now;
use appproxy_core::worker::journal::{Head, Recorder, Replay, VERSION, shown};
use appproxy_core::worker::{Input, Output, Worker};

/// Inputs of one part; small, so that every test has several.
const PART: u64 = 4;
/// Parts of one test: they overlap, so that what a checkpoint forgets has time to show.
const PARTS: usize = 8;
/// A test with more inputs is about something else, and is not replayed.
const MOST_INPUTS: u64 = 200;

pub(crate) struct Journalled {
    head: Head,
    parts: Vec<Part>,
}

struct Part {
    recorder: Recorder,
    text: String,
    outputs: Vec<String>,
}

impl Part {
    fn begin(head: &Head) -> Self {
        let (recorder, mut text) = Recorder::begin(head).expect("a head");
        text.push('\n');
        Self { recorder, text, outputs: Vec::new() }
    }
}

impl Journalled {
    pub(crate) fn begin(config: &WorkerConfig, settings: &ServingSettings, seed: Seed, start: Now) -> Self {
        let head = Head {
            journal: VERSION,
            program: "test".into(),
            seed,
            start,
            config: config.clone(),
            serving: settings.clone(),
            after: 0,
            state: None,
        };
        Self { parts: vec![Part::begin(&head)], head }
    }

    pub(crate) fn input(&mut self, worker: &Worker, input: &Input, now: Now) {
        let recorded = self.parts.first().map_or(0, |part| part.recorder.number());
        if recorded == MOST_INPUTS {
            self.parts.clear();
        }
        if recorded > 0 && recorded.is_multiple_of(PART) && self.parts.len() < PARTS {
            let head = self.head.resumed(worker, recorded).expect("a checkpoint");
            self.parts.push(Part::begin(&head));
        }
        for part in &mut self.parts {
            let line = part.recorder.line(worker, input, now).expect("a line");
            writeln!(part.text, "{line}").expect("text");
        }
    }

    pub(crate) fn output(&mut self, output: &Output) {
        for part in &mut self.parts {
            part.outputs.push(shown::output(output));
        }
    }

    /// The head of a part that would begin now.
    pub(crate) fn checkpoint(&self, worker: &Worker) -> String {
        let head = self.head.resumed(worker, 1).expect("a checkpoint");
        serde_json::to_string(&head).expect("a head")
    }

    /// The whole journal.
    pub(crate) fn text(&self) -> &str {
        self.parts.first().map_or("", |part| &part.text)
    }
}

impl Drop for Journalled {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for (number, part) in self.parts.iter().enumerate() {
            let mut lines = part.text.lines();
            let mut replay = Replay::begin(lines.next().expect("a head")).expect("a good head");
            let mut outputs = Vec::new();
            for line in lines {
                outputs.extend(replay.feed(line).expect("a good line").outputs);
            }
            for (seen, again) in part.outputs.iter().zip(&outputs) {
                assert_eq!(seen, again, "part {number} is replayed differently");
            }
            assert_eq!(part.outputs.len(), outputs.len(), "part {number}");
        }
    }
}
