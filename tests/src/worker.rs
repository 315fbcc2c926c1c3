//! A worker's own program, running.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread;
use std::time::Duration;

use crate::http::Request;
use crate::log::Log;
use crate::process::{Program, clean_command};
use crate::scratch::Scratch;
use crate::wait;

/// A running worker, with the configuration file it was given.
#[derive(Debug)]
pub struct Worker {
    program: Program,
    config: PathBuf,
    _scratch: Scratch,
}

impl Worker {
    /// Starts `program run` on `config` (YAML) with `env` added to a nearly empty environment.
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

    /// Where it listens, from its log: the data addresses, and the admin address.
    ///
    /// # Panics
    /// When it does not say so.
    #[must_use]
    #[track_caller]
    pub fn addresses(&self) -> (Vec<String>, String) {
        let admin = logged_address(&self.log().wait_for("admin listening", wait::PATIENCE));
        let lines = self.log().lines();
        let data = lines.iter().filter(|line| line.contains("listening") && !line.contains("admin listening"));
        (data.map(|line| logged_address(line)).collect(), admin)
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

/// The address in a log line: `address=…` in text, `"address":"…"` in JSON.
fn logged_address(line: &str) -> String {
    let rest = line.split("address").nth(1).unwrap_or_default();
    let rest = rest.trim_start_matches(|c| "=\":".contains(c));
    rest.split(|c: char| c.is_whitespace() || c == '"').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::PATIENCE;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::process::Command;

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
