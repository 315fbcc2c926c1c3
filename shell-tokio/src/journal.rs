//! Writes the journal (data-plane 7), from a thread of its own: a disk that stands still must not hold up the control
//! plane. Whatever goes wrong here is said, and the worker goes on; some time later a new part is begun.

use core::time::Duration;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::Builder;
use std::time::Instant;

use appproxy_core::config::logging::Journal as Settings;
use appproxy_core::config::worker::WorkerConfig;
use appproxy_core::seed::Seed;
use appproxy_core::serving::ServingSettings;
use appproxy_core::time::Now;
use appproxy_core::worker::journal::{Head, Recorder, VERSION};
use appproxy_core::worker::{Input, Worker};

/// Bounds of a journal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// A part that has more bytes of inputs than this is followed by another.
    part_bytes: usize,
    /// Parts kept beside the one being written.
    older_parts: u32,
    /// Bytes on their way to the disk. Beyond: the part ends, as after any failure.
    queued_bytes: usize,
    /// The pause after a failure.
    pause: Duration,
}

/// [`Bounds::queued_bytes`].
const QUEUED_BYTES: usize = 256 * 1024 * 1024;
/// [`Bounds::pause`].
const PAUSE: Duration = Duration::from_secs(30);

/// How long the end of the process waits for the last lines.
const LAST_LINES: Duration = Duration::from_secs(2);

/// A worker's journal.
#[derive(Debug)]
pub(crate) struct Journal {
    bounds: Bounds,
    head: Head,
    /// Inputs seen, recorded or not.
    inputs: u64,
    /// The part being written; `None` after a failure, until its pause is over.
    part: Option<Part>,
    paused_until: Instant,
    orders: Option<mpsc::Sender<Order>>,
    failures: mpsc::Receiver<String>,
    queued: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Part {
    recorder: Recorder,
    bytes: usize,
}

enum Order {
    /// Begin a part with this head.
    Begin(String),
    /// Write a line.
    Line(String),
    /// Let everything so far be seen.
    Flush,
}

impl Journal {
    /// A journal in `file` of a worker made from `config`, `serving` and `seed` at `start`. Its first part is begun with
    /// the first input; what stands in `file` already becomes an older part.
    pub(crate) fn start(
        file: &str,
        settings: &Settings,
        config: &WorkerConfig,
        serving: &ServingSettings,
        seed: Seed,
        start: Now,
    ) -> io::Result<Self> {
        let bounds = Bounds {
            part_bytes: usize::try_from(settings.part_size).unwrap_or(usize::MAX),
            older_parts: settings.older_parts,
            queued_bytes: QUEUED_BYTES,
            pause: PAUSE,
        };
        Self::bounded(PathBuf::from(file), bounds, Self::head(config, serving, seed, start))
    }

    fn head(config: &WorkerConfig, serving: &ServingSettings, seed: Seed, start: Now) -> Head {
        Head {
            journal: VERSION,
            program: format!("appproxy-worker {}", env!("CARGO_PKG_VERSION")),
            seed,
            start,
            config: config.clone(),
            serving: serving.clone(),
            after: 0,
            state: None,
        }
    }

    fn bounded(file: PathBuf, bounds: Bounds, head: Head) -> io::Result<Self> {
        let (orders, taken) = mpsc::channel();
        let (fail, failures) = mpsc::channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let writer = Writer { file, older_parts: bounds.older_parts, open: None, fail, queued: queued.clone() };
        Builder::new().name("journal".to_owned()).spawn(move || writer.run(&taken))?;
        let paused_until = Instant::now();
        Ok(Self { bounds, head, inputs: 0, part: None, paused_until, orders: Some(orders), failures, queued })
    }

    /// Records what `worker` is about to be told. What went wrong meanwhile comes back, in words.
    pub(crate) fn record(&mut self, worker: &Worker, input: &Input, now: Now) -> Option<String> {
        let mut wrong = self.failures.try_iter().last();
        if wrong.is_some() {
            self.give_up();
        }
        if let Err(problem) = self.try_record(worker, input, now) {
            self.give_up();
            wrong = Some(problem);
        }
        self.inputs += 1;
        wrong
    }

    /// Lets everything recorded so far be seen.
    pub(crate) fn flush(&self) {
        if self.part.is_some() {
            // That the thread has ended, the next line will say.
            drop(self.order(Order::Flush));
        }
    }

    fn give_up(&mut self) {
        self.part = None;
        self.paused_until = Instant::now() + self.bounds.pause;
    }

    fn try_record(&mut self, worker: &Worker, input: &Input, now: Now) -> Result<(), String> {
        let full = self.part.as_ref().is_some_and(|part| part.bytes > self.bounds.part_bytes);
        if full || (self.part.is_none() && Instant::now() >= self.paused_until) {
            self.begin(worker)?;
        }
        let Some(part) = &mut self.part else { return Ok(()) };
        let line = part.recorder.line(worker, input, now);
        let line = line.map_err(|error| format!("cannot describe input {}: {error}", self.inputs + 1))?;
        part.bytes += line.len();
        let queued = self.queued.fetch_add(line.len(), Ordering::Relaxed);
        self.order(Order::Line(line))?;
        if queued > self.bounds.queued_bytes {
            return Err(format!("the disk is {queued} bytes behind"));
        }
        Ok(())
    }

    fn begin(&mut self, worker: &Worker) -> Result<(), String> {
        let head = if self.inputs == 0 { Ok(self.head.clone()) } else { self.head.resumed(worker, self.inputs) };
        let begun = head.and_then(|head| Recorder::begin(&head));
        let (recorder, line) = begun.map_err(|error| format!("cannot describe the worker: {error}"))?;
        self.queued.fetch_add(line.len(), Ordering::Relaxed);
        self.order(Order::Begin(line))?;
        self.part = Some(Part { recorder, bytes: 0 });
        Ok(())
    }

    fn order(&self, order: Order) -> Result<(), String> {
        let sent = self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok());
        if sent { Ok(()) } else { Err("its thread has ended".to_owned()) }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.orders = None;
        // The writer hangs up when it has written everything.
        let limit = Instant::now() + LAST_LINES;
        while self.failures.recv_timeout(limit.saturating_duration_since(Instant::now())).is_ok() {}
    }
}

/// The thread's side.
struct Writer {
    file: PathBuf,
    older_parts: u32,
    open: Option<BufWriter<File>>,
    fail: mpsc::Sender<String>,
    queued: Arc<AtomicUsize>,
}

impl Writer {
    fn run(mut self, orders: &mpsc::Receiver<Order>) {
        while let Ok(order) = orders.recv() {
            if let Err(error) = self.carry_out(order) {
                self.open = None;
                drop(self.fail.send(format!("{}: {error}", self.file.display())));
            }
        }
        drop(self.open.as_mut().map(Write::flush));
    }

    fn carry_out(&mut self, order: Order) -> io::Result<()> {
        match order {
            Order::Begin(head) => {
                self.queued.fetch_sub(head.len(), Ordering::Relaxed);
                if let Some(mut before) = self.open.take() {
                    before.flush()?;
                }
                make_room(&self.file, self.older_parts)?;
                let mut part = BufWriter::new(create(&self.file)?);
                write_line(&mut part, &head)?;
                self.open = Some(part);
                Ok(())
            }
            Order::Line(line) => {
                self.queued.fetch_sub(line.len(), Ordering::Relaxed);
                self.open.as_mut().map_or(Ok(()), |part| write_line(part, &line))
            }
            Order::Flush => self.open.as_mut().map_or(Ok(()), Write::flush),
        }
    }
}

fn write_line(part: &mut BufWriter<File>, line: &str) -> io::Result<()> {
    part.write_all(line.as_bytes())?;
    part.write_all(b"\n")
}

/// Without secrets it is, but who serves what where is nobody else's business.
fn create(file: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)
}

/// `FILE` becomes `FILE.1`, `FILE.1` becomes `FILE.2`, and so on; the oldest goes. What is no ordinary file is left alone.
fn make_room(file: &Path, older_parts: u32) -> io::Result<()> {
    let part = |number: u32| {
        let mut name = file.as_os_str().to_owned();
        if number > 0 {
            name.push(format!(".{number}"));
        }
        PathBuf::from(name)
    };
    match fs::metadata(file) {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    if older_parts == 0 {
        return fs::remove_file(file);
    }
    for number in (0..older_parts).rev() {
        match fs::rename(part(number), part(number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
