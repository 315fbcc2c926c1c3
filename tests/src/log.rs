//! The captured output of a running program.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::wait::Limit;

/// The lines a program has printed so far, of both its outputs, in the order they were read. Cheap to clone; all
/// clones see the same lines.
#[derive(Debug, Clone, Default)]
pub struct Log(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: Vec<String>,
    open: usize,
}

impl Log {
    /// Starts a thread which reads `from` line by line until its end. Bytes that are no UTF-8 are replaced.
    pub fn capture(&self, from: impl Read + Send + 'static) {
        self.lock().open += 1;
        let log = self.clone();
        thread::spawn(move || {
            let mut reader = BufReader::new(from);
            let mut raw = Vec::new();
            while matches!(reader.read_until(b'\n', &mut raw), Ok(1..)) {
                let line = String::from_utf8_lossy(&raw).trim_end().to_owned();
                log.lock().lines.push(line);
                log.0.changed.notify_all();
                raw.clear();
            }
            log.lock().open -= 1;
            log.0.changed.notify_all();
        });
    }

    /// All lines so far.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lock().lines.clone()
    }

    /// How many lines there are: a mark for [`Log::wait_from`].
    #[must_use]
    pub fn mark(&self) -> usize {
        self.lock().lines.len()
    }

    /// The first line holding `part`, waiting for it if need be.
    ///
    /// # Panics
    /// When `allowed` passes, or all outputs end, without such a line; the message shows the last lines.
    #[track_caller]
    pub fn wait_for(&self, part: &str, allowed: Duration) -> String {
        self.wait_from(0, part, allowed)
    }

    /// As [`Log::wait_for`], not looking at the lines before `mark`.
    ///
    /// # Panics
    /// As [`Log::wait_for`].
    #[track_caller]
    pub fn wait_from(&self, mark: usize, part: &str, allowed: Duration) -> String {
        match self.look(mark, |line| line.contains(part), allowed) {
            Some(line) => line,
            None => panic!("no line with {part:?} within {allowed:?}; the last lines:\n{}", self.tail(40)),
        }
    }

    /// The first line from `mark` on which `wanted` likes; `None` when `allowed` passes or all outputs end without.
    #[must_use]
    pub fn look(&self, mark: usize, wanted: impl Fn(&str) -> bool, allowed: Duration) -> Option<String> {
        let limit = Limit::after(allowed);
        let mut next = mark;
        let mut state = self.lock();
        loop {
            if let Some(line) = state.lines.iter().skip(next).find(|line| wanted(line)) {
                return Some(line.clone());
            }
            next = next.max(state.lines.len());
            if state.open == 0 {
                return None;
            }
            state = self.0.changed.wait_timeout(state, limit.left()?).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until all outputs have ended: then [`Log::lines`] is complete. False when `allowed` passed first.
    #[must_use]
    pub fn wait_end(&self, allowed: Duration) -> bool {
        let _ = self.look(usize::MAX, |_| false, allowed);
        self.lock().open == 0
    }

    /// The last `count` lines as one text.
    #[must_use]
    pub fn tail(&self, count: usize) -> String {
        let state = self.lock();
        let from = state.lines.len().saturating_sub(count);
        state.lines.iter().skip(from).map(|line| format!("    {line}\n")).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A reader that panicked has left whole lines behind: they are still good to read.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::PATIENCE;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    fn pipe() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let writer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (writer, listener.accept().unwrap().0)
    }

    #[test]
    fn a_line_is_found_whether_it_came_before_or_comes_later() {
        let (mut writer, reader) = pipe();
        let log = Log::default();
        log.capture(reader);
        writer.write_all(b"first\nsecond \xff line\n").unwrap();
        assert_eq!(log.wait_for("second", PATIENCE), "second \u{fffd} line");
        assert_eq!(log.wait_for("first", PATIENCE), "first");
        let mark = log.mark();
        writer.write_all(b"first again, without an end").unwrap();
        drop(writer);
        assert_eq!(log.wait_from(mark, "first", PATIENCE), "first again, without an end");
        assert!(log.wait_end(PATIENCE));
        assert_eq!(log.lines().len(), 3);
    }

    #[test]
    fn the_end_of_the_output_ends_the_wait() {
        let (writer, reader) = pipe();
        let log = Log::default();
        log.capture(reader);
        drop(writer);
        assert_eq!(log.look(0, |_| true, PATIENCE), None);
    }

    #[test]
    #[should_panic(expected = "no line with \"never\"")]
    fn a_missing_line_is_named_and_the_log_shown() {
        let (mut writer, reader) = pipe();
        let log = Log::default();
        log.capture(reader);
        writer.write_all(b"something else\n").unwrap();
        log.wait_for("never", Duration::from_millis(20));
    }
}
