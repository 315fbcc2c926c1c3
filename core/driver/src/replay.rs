//! `replay`: a journal through the core, and what comes of it (data-plane 1).

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;

use appproxy_core::worker::journal;
pub use appproxy_core::worker::journal::Show;

use crate::Failed;

/// Replays `file` and prints what is asked for. A last line that is cut, as after a crash, is said and left out.
///
/// # Errors
/// With exit code 1: a file that cannot be read, a damaged line (with its number), an input that is not in it.
pub fn main(file: &Path, show: Show) -> Result<(), Failed> {
    let opened = File::open(file).map_err(|error| failed(file, &error))?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let printed = journal::print(BufReader::new(opened), show, &mut out);
    if printed.is_err() {
        // What there is stands before what is wrong.
        drop(out.flush());
    }
    let (text, cut) = printed.map_err(|error| failed(file, &error))?;
    // Somebody who reads only the beginning closes the pipe: that is no failure.
    drop(writeln!(out, "{text}").and_then(|()| out.flush()));
    if let Some(cut) = cut {
        eprintln!("{}: {cut}", file.display());
    }
    Ok(())
}

fn failed(file: &Path, error: &dyn core::fmt::Display) -> Failed {
    Failed::run(format!("{}: {error}", file.display()))
}
