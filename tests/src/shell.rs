//! The programs under test: one per shell, all to be held to the same conformance suite.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::PoisonError;

use crate::process;
use crate::setup::Setup;
use crate::worker::Worker;

/// Names a defect (`appproxy_core::defects`): the program is then the one that can be made wrong, and has it.
pub const DEFECT_VARIABLE: &str = "APPPROXY_TEST_DEFECT";

/// A shell's program, and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shell {
    /// What it is called in the names of tests and on command lines.
    pub name: &'static str,
    /// The package that builds it.
    pub package: &'static str,
    /// The program's file name, without the system's ending.
    pub program: &'static str,
    /// Names a ready-built program; without it the tests build their own.
    pub variable: &'static str,
}

impl Shell {
    /// The worker on tokio and axum.
    pub const TOKIO: Self = Self {
        name: "tokio",
        package: "appproxy-shell-tokio",
        program: "appproxy-worker",
        variable: "APPPROXY_TEST_WORKER",
    };

    /// The worker on smol.
    pub const SMOL: Self = Self {
        name: "smol",
        package: "appproxy-shell-smol",
        program: "appproxy-worker-smol",
        variable: "APPPROXY_TEST_WORKER_SMOL",
    };

    /// The shell of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::TOKIO, Self::SMOL].into_iter().find(|shell| shell.name == name)
    }

    /// An ordinary world around this shell's program.
    #[must_use]
    pub fn setup(self) -> Setup {
        Setup::of(self)
    }

    /// Starts the program's `run` on `config` (YAML) with `env` added to a nearly empty environment, so that what
    /// happens to be set on a developer's machine changes no test.
    ///
    /// # Errors
    /// When the program cannot be built or started.
    pub fn start(self, config: &str, env: &[(&str, &str)]) -> io::Result<Worker> {
        let defect = chosen_defect().unwrap_or_default();
        let mut env = env.to_vec();
        if !defect.is_empty() {
            env.push((appproxy_core::defects::VARIABLE, &defect));
        }
        Worker::start_program(&self.binary()?, config, &env)
    }

    /// A command running the program with `args`: for `check`, `demo` and the like, in the same nearly empty environment.
    ///
    /// # Errors
    /// When the program cannot be built.
    pub fn command<I: IntoIterator<Item: AsRef<OsStr>>>(self, args: I) -> io::Result<Command> {
        let mut command = process::clean_command(&self.binary()?);
        command.args(args);
        choose_defect(&mut command);
        Ok(command)
    }

    /// The program: the one that the variable names, else built now, so that no test runs an old one.
    ///
    /// # Errors
    /// When the build fails, or the variable names no file.
    pub fn binary(self) -> io::Result<PathBuf> {
        self.binary_with(chosen_defect().is_some())
    }

    /// As [`Shell::binary`]; with `defects` the program that can be made wrong.
    ///
    /// # Errors
    /// As [`Shell::binary`].
    pub fn binary_with(self, defects: bool) -> io::Result<PathBuf> {
        static BUILT: Mutex<Vec<(&str, bool, PathBuf)>> = Mutex::new(Vec::new());
        let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, _, path)) = built.iter().find(|(name, with, _)| (*name, *with) == (self.name, defects)) {
            return Ok(path.clone());
        }
        let path = self.find(defects).map_err(io::Error::other)?;
        built.push((self.name, defects, path.clone()));
        Ok(path)
    }

    fn find(self, defects: bool) -> Result<PathBuf, String> {
        let (program, variable) = match defects {
            false => (self.program.to_owned(), self.variable.to_owned()),
            true => (format!("{}-defects", self.program), format!("{}_DEFECTS", self.variable)),
        };
        if let Some(given) = env::var_os(&variable) {
            let path = PathBuf::from(given);
            return if path.is_file() { Ok(path) } else { Err(format!("{variable}: no file {}", path.display())) };
        }
        // This test runs from <target>/<profile>/deps, a program from <target>/<profile>.
        let this = env::current_exe().map_err(|e| e.to_string())?;
        let deps = this.parent().is_some_and(|folder| folder.ends_with("deps"));
        let profile_folder = this.ancestors().nth(if deps { 2 } else { 1 }).ok_or("where is the target folder?")?;
        let target = profile_folder.parent().ok_or("where is the target folder?")?;
        let profile = match profile_folder.file_name().and_then(OsStr::to_str) {
            Some("debug") | None => "dev",
            Some(other) => other,
        };
        // The package alone, not the workspace: what a feature of the tests would add to it is not in the program.
        let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
        build.args(["build", "--locked", "--quiet", "--package", self.package, "--bin", &program]);
        if defects {
            build.args(["--features", "defects"]);
        }
        let built = build
            .args(["--profile", profile, "--target-dir"])
            .arg(target)
            .current_dir(crate::repository::root())
            .stdin(Stdio::null())
            .output()
            .map_err(|e| format!("cannot run cargo to build {program}: {e}"))?;
        if !built.status.success() {
            return Err(format!("{program} does not build:\n{}", String::from_utf8_lossy(&built.stderr)));
        }
        Ok(profile_folder.join(format!("{program}{}", env::consts::EXE_SUFFIX)))
    }
}

/// The defect that this run is to notice.
#[must_use]
pub fn chosen_defect() -> Option<String> {
    env::var(DEFECT_VARIABLE).ok().filter(|name| !name.is_empty())
}

/// Has the program that `command` runs in the end, such as a line for a shell, follow this run's defect.
pub fn choose_defect(command: &mut Command) {
    if let Some(defect) = chosen_defect() {
        command.env(appproxy_core::defects::VARIABLE, defect);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Program;
    use crate::wait::PATIENCE;

    #[test]
    fn the_program_is_built_and_runs() {
        let mut program = Program::start(Shell::TOKIO.command(["--help"]).unwrap()).unwrap();
        assert!(program.wait_exit(PATIENCE).success());
    }

    #[test]
    fn shells_are_known_by_name() {
        assert_eq!(Shell::named("smol"), Some(Shell::SMOL));
        assert_eq!(Shell::named("another"), None);
    }
}
