//! Programs under test: started, listened to, signalled, and ended with the test.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use crate::http::Request;
use crate::log::Log;
use crate::scratch::Scratch;
use crate::wait;

/// Names a ready-built `appproxy-worker`; without it the tests build their own.
pub const WORKER_VARIABLE: &str = "APPPROXY_TEST_WORKER";

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

/// A running `appproxy-worker`, with the configuration file it was given.
#[derive(Debug)]
pub struct Worker {
    program: Program,
    config: PathBuf,
    _scratch: Scratch,
}

impl Worker {
    /// Starts `appproxy-worker run` on `config` (YAML) with `env` added to a nearly empty environment, so that what
    /// happens to be set on a developer's machine changes no test.
    ///
    /// # Errors
    /// When the program cannot be built or started.
    pub fn start(config: &str, env: &[(&str, &str)]) -> io::Result<Self> {
        let scratch = Scratch::new("worker")?;
        let config = scratch.write("config.yaml", config)?;
        let args = [OsStr::new("run"), OsStr::new("--config"), config.as_os_str()];
        let mut command = worker_command(args)?;
        command.current_dir(scratch.path()).envs(env.iter().copied());
        Ok(Self { program: Program::start(command)?, config, _scratch: scratch })
    }

    /// Its configuration file: write it anew to test a reload.
    #[must_use]
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// The running program.
    pub fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    /// What it has printed.
    #[must_use]
    pub fn log(&self) -> &Log {
        self.program.log()
    }

    /// Waits until `/readyz` at `address` (`host:port`) answers 200.
    ///
    /// # Panics
    /// When it does not within `allowed`, or the worker ends; the message shows the end of its log.
    #[track_caller]
    pub fn wait_ready(&mut self, address: &str, allowed: Duration) {
        self.wait_answer(address, "/readyz", 200, allowed);
    }

    /// Waits until a GET of `path` at `address` is answered with `status`.
    ///
    /// # Panics
    /// As [`Worker::wait_ready`].
    #[track_caller]
    pub fn wait_answer(&mut self, address: &str, path: &str, status: u16, allowed: Duration) {
        let limit = wait::Limit::after(allowed);
        let mut last = "no answer yet".to_owned();
        while limit.left().is_some() {
            match Request::get(path).send(address) {
                Ok(answer) if answer.head.status == status => return,
                Ok(answer) => last = format!("{} {}", answer.head.status, answer.text()),
                Err(e) => last = e.to_string(),
            }
            if let Some(ended) = self.program.status() {
                panic!("the worker ended ({ended}) before {path} said {status}:\n{}", self.log().tail(60));
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("{path} did not say {status} within {allowed:?}, but: {last}\n{}", self.log().tail(60));
    }

    /// Asks it to leave (SIGTERM) and waits for its end.
    ///
    /// # Panics
    /// When it has ended before, or not within `allowed`.
    #[track_caller]
    pub fn terminate(&mut self, allowed: Duration) -> ExitStatus {
        if let Err(e) = self.program.signal("TERM") {
            panic!("{e}\n{}", self.log().tail(60));
        }
        self.program.wait_exit(allowed)
    }
}

/// A command running the worker's program with `args`: for `check`, `demo` and the like. Its environment holds only
/// `PATH`, `HOME`, `TMPDIR` and what the coverage tool needs.
///
/// # Errors
/// When the program cannot be built.
pub fn worker_command<I: IntoIterator<Item: AsRef<OsStr>>>(args: I) -> io::Result<Command> {
    let mut command = Command::new(worker_binary()?);
    command.args(args).env_clear();
    for name in ["PATH", "HOME", "TMPDIR", "LLVM_PROFILE_FILE"] {
        if let Some(value) = env::var_os(name) {
            command.env(name, value);
        }
    }
    Ok(command)
}

/// The worker's program: the one [`WORKER_VARIABLE`] names, else built now, so that no test runs an old one.
///
/// # Errors
/// When the build fails, or the variable names no file.
pub fn worker_binary() -> io::Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT.get_or_init(find_worker).clone().map_err(io::Error::other)
}

fn find_worker() -> Result<PathBuf, String> {
    if let Some(given) = env::var_os(WORKER_VARIABLE) {
        let path = PathBuf::from(given);
        return if path.is_file() { Ok(path) } else { Err(format!("{WORKER_VARIABLE}: no file {}", path.display())) };
    }
    // This test runs from <target>/<profile>/deps.
    let this = env::current_exe().map_err(|e| e.to_string())?;
    let profile_folder = this.ancestors().nth(2).ok_or("where is the target folder?")?;
    let target = profile_folder.parent().ok_or("where is the target folder?")?;
    let profile = match profile_folder.file_name().and_then(OsStr::to_str) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    // The whole workspace, as the tests themselves were built: then features agree and nothing is built twice.
    let built = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--workspace", "--bins", "--locked", "--quiet", "--profile", profile, "--target-dir"])
        .arg(target)
        .current_dir(crate::repository::root())
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("cannot run cargo to build appproxy-worker: {e}"))?;
    if !built.status.success() {
        return Err(format!("appproxy-worker does not build:\n{}", String::from_utf8_lossy(&built.stderr)));
    }
    Ok(profile_folder.join(format!("appproxy-worker{}", env::consts::EXE_SUFFIX)))
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

    #[test]
    fn the_worker_is_built_and_runs() {
        let mut program = Program::start(worker_command(["--help"]).unwrap()).unwrap();
        assert!(program.wait_exit(PATIENCE).success());
    }
}
