//! A program with one rule broken, which the environment names. It exists for the tests only, which must notice each.

use std::process::ExitCode;

use appproxy_core::defects::{self, VARIABLE};

use crate::command_line;
use crate::runtime::Runtime;

/// Breaks the rule, and does what the command line says.
#[must_use]
pub fn main<R: Runtime>(name: &'static str) -> ExitCode {
    let defect = std::env::var(VARIABLE).unwrap_or_default();
    match defects::choose(&defect) {
        Ok(()) => command_line::main::<R>(name),
        Err(names) => {
            eprintln!("{VARIABLE}: there is no defect {defect:?}; name one of {}", names.join(", "));
            ExitCode::from(2)
        }
    }
}
