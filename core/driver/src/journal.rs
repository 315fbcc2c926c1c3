//! Writes the journal (data-plane 7), from a thread of its own: a disk that stands still must not hold up the control
//! plane. Whatever goes wrong here is said, and the worker goes on; some time later a new part is begun.

use core::time::Duration;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::Builder;
use std::time::Instant;

use appproxy_core::config::Config;
use appproxy_core::time::Now;
use appproxy_core::worker::journal::{self, Order, PartBounds, Parts};
use appproxy_core::worker::{Input, Worker};

/// Refuses a `journal.file` for which a file that is no journal would be renamed or deleted, under its own name or an older
/// part's. What cannot be looked at is left to the writer, which says what is wrong and lets the worker go on.
pub(crate) fn refused(config: &Config) -> Result<(), String> {
    let Some(name) = config.journal.file.as_ref().filter(|_| config.worker.is_some()) else { return Ok(()) };
    let file = PathBuf::from(name);
    let older = journal::make_room(&file, config.journal.older_parts).map(|(_, to)| to);
    match older.chain([file.clone()]).find(|part| is_something_else(part)) {
        None => Ok(()),
        Some(part) => Err(format!(
            "journal.file {name}: there is a file {} that is no journal; give a path of the journal's own, or move that file away",
            part.display()
        )),
    }
}

/// Whether an ordinary file stands there that is no journal.
fn is_something_else(file: &Path) -> bool {
    let mut beginning = Vec::new();
    fs::metadata(file).is_ok_and(|found| found.is_file())
        && File::open(file)
            .and_then(|file| file.take(journal::BEGINNING_BYTES as u64).read_to_end(&mut beginning))
            .is_ok_and(|_| !journal::begins_as_journal(&beginning))
}

/// Makes the file of a journal where there is none, so that it is known now whether it can be.
#[cfg(any(feature = "appproxy-router", feature = "appproxy-legacy"))]
pub(crate) fn writable(file: &Path) -> io::Result<()> {
    create(file).map(drop)
}

/// How long the end of the process waits for the last lines.
const LAST_LINES: Duration = Duration::from_secs(2);

/// A worker's journal.
#[derive(Debug)]
pub(crate) struct Journal {
    parts: Parts,
    /// `None`: let everything so far be seen.
    orders: Option<mpsc::Sender<Option<Order>>>,
    failures: mpsc::Receiver<String>,
    /// Bytes on their way to the disk.
    queued: Arc<AtomicUsize>,
}

impl Journal {
    /// The journal `parts` in `file`; what stands there already becomes an older part.
    pub(crate) fn start(file: &str, bounds: PartBounds, parts: Parts) -> io::Result<Self> {
        let (orders, taken) = mpsc::channel();
        let (fail, failures) = mpsc::channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let (file, older_parts) = (PathBuf::from(file), bounds.older_parts);
        let writer = Writer { file, older_parts, open: None, fail, queued: queued.clone() };
        Builder::new().name("journal".to_owned()).spawn(move || writer.run(&taken))?;
        Ok(Self { parts, orders: Some(orders), failures, queued })
    }

    /// Records what `worker` is about to be told. What went wrong meanwhile comes back, in words.
    pub(crate) fn record(&mut self, worker: &Worker, input: &Input, now: Now) -> Option<String> {
        let mut wrong = self.failures.try_iter().last();
        if wrong.is_some() {
            self.parts.give_up(now.moment);
        }
        match self.parts.record(worker, input, now, self.queued.load(Ordering::Relaxed)) {
            Ok(orders) => {
                for order in orders {
                    self.queued.fetch_add(order.bytes(), Ordering::Relaxed);
                    if !self.order(Some(order)) {
                        self.parts.give_up(now.moment);
                        wrong = Some("its thread has ended".to_owned());
                    }
                }
            }
            Err(problem) => wrong = Some(problem),
        }
        wrong
    }

    /// Lets everything recorded so far be seen.
    pub(crate) fn flush(&self) {
        if self.parts.open() {
            // That the thread has ended, the next line will say.
            self.order(None);
        }
    }

    fn order(&self, order: Option<Order>) -> bool {
        self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok())
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
    fn run(mut self, orders: &mpsc::Receiver<Option<Order>>) {
        while let Ok(order) = orders.recv() {
            self.queued.fetch_sub(order.as_ref().map_or(0, Order::bytes), Ordering::Relaxed);
            if let Err(error) = self.carry_out(order) {
                self.open = None;
                drop(self.fail.send(format!("{}: {error}", self.file.display())));
            }
        }
        drop(self.open.as_mut().map(Write::flush));
    }

    fn carry_out(&mut self, order: Option<Order>) -> io::Result<()> {
        match (order, &mut self.open) {
            (Some(Order::Begin(head)), before) => {
                if let Some(mut before) = before.take() {
                    before.flush()?;
                }
                make_room(&self.file, self.older_parts)?;
                let mut part = BufWriter::new(create(&self.file)?);
                write_line(&mut part, &head)?;
                self.open = Some(part);
                Ok(())
            }
            (Some(Order::Line(line)), Some(part)) => write_line(part, &line),
            (None, Some(part)) => part.flush(),
            (Some(Order::Line(_)) | None, None) => Ok(()),
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

/// Renames what is there already. What is no ordinary file is left alone.
fn make_room(file: &Path, older_parts: u32) -> io::Result<()> {
    match fs::metadata(file) {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    if older_parts == 0 {
        return fs::remove_file(file);
    }
    for (from, to) in journal::make_room(file, older_parts) {
        match fs::rename(from, to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
