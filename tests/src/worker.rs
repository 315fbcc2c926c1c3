//! The worker's own program, built and run.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use crate::http::Request;
use crate::log::Log;
use crate::process::Program;
use crate::scratch::Scratch;
use crate::wait;

/// Names a ready-built `appproxy-worker`; without it the tests build their own.
pub const WORKER_VARIABLE: &str = "APPPROXY_TEST_WORKER";

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
        Self::start_program(&worker_binary()?, config, env)
    }

    /// As [`Worker::start`] with another program that takes the same arguments.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start_program(program: &Path, config: &str, env: &[(&str, &str)]) -> io::Result<Self> {
        let scratch = Scratch::new("worker")?;
        let config = scratch.write("config.yaml", config)?;
        let mut command = clean_command(program);
        command.args([OsStr::new("run"), OsStr::new("--config"), config.as_os_str()]);
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

/// A command running the worker's program with `args`: for `check`, `demo` and the like, in the same nearly empty
/// environment.
///
/// # Errors
/// When the program cannot be built.
pub fn worker_command<I: IntoIterator<Item: AsRef<OsStr>>>(args: I) -> io::Result<Command> {
    let mut command = clean_command(&worker_binary()?);
    command.args(args);
    Ok(command)
}

/// Only what finding programs and folders, and measuring coverage, needs is taken over.
fn clean_command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear();
    for name in ["PATH", "HOME", "TMPDIR", "LLVM_PROFILE_FILE"] {
        if let Some(value) = env::var_os(name) {
            command.env(name, value);
        }
    }
    command
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
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn the_worker_is_built_and_runs() {
        let mut program = Program::start(worker_command(["--help"]).unwrap()).unwrap();
        assert!(program.wait_exit(PATIENCE).success());
    }

    /// A program that takes a worker's arguments and does what the script says.
    fn pretended_worker(scratch: &Scratch, script: &str) -> Worker {
        let program = scratch.write("worker.sh", &format!("#!/bin/sh\n{script}\n")).unwrap();
        let made = Command::new("chmod").arg("+x").arg(&program).status().unwrap();
        assert!(made.success());
        // While another test starts a program, that one holds our script open for a moment.
        wait::for_some("the script to be free", PATIENCE, || {
            match Worker::start_program(&program, "a: 1", &[("GREETING", "hello")]) {
                Err(e) if e.kind() == io::ErrorKind::ExecutableFileBusy => None,
                started => Some(started.unwrap()),
            }
        })
    }

    #[test]
    fn a_worker_gets_its_file_and_environment_and_leaves_when_told() {
        let scratch = Scratch::new("pretended").unwrap();
        let script = "trap 'exit 0' TERM; echo \"$1 $2 $(cat \"$3\") $GREETING [$CARGO_PKG_NAME]\"; \
                      while :; do sleep 0.01; done";
        let mut worker = pretended_worker(&scratch, script);
        worker.log().wait_for("run --config a: 1 hello []", PATIENCE);
        assert!(worker.config().is_file());
        assert!(worker.terminate(PATIENCE).success());
    }

    #[test]
    fn ready_is_when_readyz_says_so() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let answers = ["503 Not Yet", "200 OK"];
        let server = thread::spawn(move || {
            for answer in answers {
                let (mut socket, _) = listener.accept().unwrap();
                let mut asked = [0; 1024];
                let count = socket.read(&mut asked).unwrap();
                assert!(asked[..count].starts_with(b"GET /readyz "));
                write!(socket, "HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n").unwrap();
            }
        });
        let scratch = Scratch::new("pretended").unwrap();
        pretended_worker(&scratch, "exec sleep 60").wait_ready(&address, PATIENCE);
        server.join().unwrap();
    }

    #[test]
    #[should_panic(expected = "the worker ended (exit status: 2)")]
    fn a_worker_that_ends_is_not_waited_for() {
        let scratch = Scratch::new("pretended").unwrap();
        let nobody = format!("127.0.0.1:{}", wait::free_port().unwrap());
        pretended_worker(&scratch, "echo bad file; exit 2").wait_ready(&nobody, PATIENCE);
    }
}
