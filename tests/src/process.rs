//! Programs under test: started, listened to, signalled, and ended with the test.

use std::env;
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use crate::log::Log;
use crate::wait;

/// Clock ticks a second in `/proc`; the same on every Linux that Rust runs on.
const TICKS: f64 = 100.0;

/// A running program with its output captured. Dropping it kills it; when the test is failing then, the end of its
/// log is shown.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    ended: Option<ExitStatus>,
    log: Log,
}

impl Program {
    /// Starts `command` with no input and both outputs captured.
    ///
    /// # Errors
    /// When it cannot be started: the message names the program.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| io::Error::new(e.kind(), format!("cannot start {name}: {e}")))?;
        let log = Log::default();
        if let Some(stdout) = child.stdout.take() {
            log.capture(stdout);
        }
        if let Some(stderr) = child.stderr.take() {
            log.capture(stderr);
        }
        Ok(Self { name, child, ended: None, log })
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Whether it still runs (a frozen program runs).
    pub fn is_running(&mut self) -> bool {
        self.status().is_none()
    }

    /// How it ended, if it has.
    pub fn status(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Sends a signal by its short name: `TERM`, `INT`, `HUP`, `STOP`, `CONT`.
    ///
    /// # Errors
    /// When the program has ended, or there is no such signal.
    pub fn signal(&mut self, signal: &str) -> io::Result<()> {
        if let Some(status) = self.status() {
            return Err(io::Error::other(format!("{} has ended ({status}): no {signal} for it", self.name)));
        }
        // The shell's own `kill`: it needs neither unsafe code nor a package that may be missing.
        let script = format!("kill -s {signal} {}", self.id());
        let sent = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output()?;
        if sent.status.success() {
            return Ok(());
        }
        let why = String::from_utf8_lossy(&sent.stderr).trim().to_owned();
        Err(io::Error::other(format!("cannot send {signal} to {}: {why}", self.name)))
    }

    /// Waits for its end and for the last of its output.
    ///
    /// # Panics
    /// When it still runs after `allowed`; the message shows the end of its log.
    #[track_caller]
    pub fn wait_exit(&mut self, allowed: Duration) -> ExitStatus {
        let limit = wait::Limit::after(allowed);
        while limit.left().is_some() && self.is_running() {
            thread::sleep(Duration::from_millis(2));
        }
        let Some(status) = self.status() else {
            panic!("{} still runs after {allowed:?}; its last lines:\n{}", self.name, self.log.tail(40))
        };
        // What it left behind may hold the pipe open: a second is enough for what it printed itself.
        let _ = self.log.wait_end(Duration::from_secs(1));
        status
    }

    /// Kills it, which no program can refuse, and waits for its end.
    pub fn kill(&mut self) {
        if self.is_running() {
            let _ = self.child.kill();
            self.ended = self.child.wait().ok();
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("the last lines of {}:\n{}", self.name, self.log.tail(60));
        }
    }
}

/// Only what finding programs and folders, and measuring coverage, needs is taken over.
pub(crate) fn clean_command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear();
    for name in ["PATH", "HOME", "TMPDIR", "LLVM_PROFILE_FILE"] {
        if let Some(value) = env::var_os(name) {
            command.env(name, value);
        }
    }
    command
}

/// CPU seconds of a process so far (Linux only).
pub(crate) fn cpu(id: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11).take(2);
    Some(fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS)
}

/// Kilobytes of resident memory of a process (Linux only).
pub(crate) fn memory(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::PATIENCE;

    fn shell(script: &str) -> Program {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Program::start(command).unwrap()
    }

    #[test]
    fn both_outputs_and_the_exit_code_are_seen() {
        let mut program = shell("echo out; echo err >&2; exit 3");
        assert_eq!(program.wait_exit(PATIENCE).code(), Some(3));
        let mut lines = program.log().lines();
        lines.sort();
        assert_eq!(lines, ["err", "out"]);
        assert!(!program.is_running());
        assert!(program.signal("TERM").unwrap_err().to_string().contains("has ended"));
    }

    #[test]
    fn a_signal_reaches_the_program() {
        let mut program = shell("trap 'echo leaving; exit 7' TERM; echo ready; while :; do sleep 0.01; done");
        program.log().wait_for("ready", PATIENCE);
        assert!(program.is_running());
        program.signal("TERM").unwrap();
        assert_eq!(program.wait_exit(PATIENCE).code(), Some(7));
        assert_eq!(program.log().wait_for("leaving", PATIENCE), "leaving");
    }

    #[test]
    fn dropping_kills_even_a_program_that_ignores_signals() {
        let program = shell("trap '' TERM INT; echo ready; while :; do sleep 0.01; done");
        program.log().wait_for("ready", PATIENCE);
        let log = program.log().clone();
        drop(program);
        assert!(log.wait_end(PATIENCE), "its output is still open");
    }

    #[test]
    #[should_panic(expected = "still runs after")]
    fn a_program_that_stays_is_told() {
        shell("sleep 60").wait_exit(Duration::from_millis(10));
    }

    #[test]
    fn a_missing_program_is_named() {
        let refused = Program::start(Command::new("no-such-program")).unwrap_err();
        assert!(refused.to_string().contains("no-such-program"), "{refused}");
    }
}
