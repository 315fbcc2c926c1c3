//! `appproxy-worker-smol-defects`: the worker with one rule broken, which the environment names. It exists for the tests only,
//! which must notice each.

use std::process::ExitCode;

use appproxy_core::defects::{self, VARIABLE};

#[path = "main.rs"]
mod program;

fn main() -> ExitCode {
    let name = std::env::var(VARIABLE).unwrap_or_default();
    match defects::choose(&name) {
        Ok(()) => program::main(),
        Err(names) => {
            eprintln!("{VARIABLE}: there is no defect {name:?}; name one of {}", names.join(", "));
            ExitCode::from(2)
        }
    }
}
