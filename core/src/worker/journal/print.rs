//! What the command `replay` prints of a journal (data-plane 1).

use std::io::{self, BufRead, Write};

use super::{Difference, Replay, Step, shown};

/// What to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// Every output, one a line, up to and with those of this input; `None`: of all inputs.
    Outputs(Option<u64>),
    /// The state after this input; `None`: after the last one.
    State(Option<u64>),
    /// What differs between the states after these inputs.
    Difference(u64, u64),
}

impl Show {
    const fn last(self) -> Option<u64> {
        match self {
            Self::Outputs(until) | Self::State(until) => until,
            Self::Difference(_, to) => Some(to),
        }
    }
}

/// Replays the journal in `lines`. What comes back is the last text to print, and what is to be said of a last line that
/// is cut, as after a crash; outputs go to `out` at once.
///
/// # Errors
/// In words: a damaged line (with its number); an input that is not in it, with those that are, once everything up to its
/// end was written.
pub fn print(mut lines: impl BufRead, show: Show, out: &mut impl Write) -> Result<(String, Option<String>), String> {
    let Some(Line { text: head, .. }) = next(&mut lines)? else { return Err("an empty file is no journal".to_owned()) };
    let mut replay = Replay::begin(&head).map_err(|damaged| damaged.to_string())?;
    let first = replay.number();
    if let Show::Difference(from, to) = show
        && from > to
    {
        return Err(format!("--diff {from} {to}: the first input must not come after the second"));
    }
    if let Some(earliest) = match show {
        Show::Difference(from, _) => Some(from),
        Show::Outputs(until) | Show::State(until) => until,
    } && earliest < first
    {
        return Err(format!("input {earliest} is in an older part; this one begins after input {first}"));
    }
    let mut difference = None;
    let mut cut = None;
    // Whoever reads what is written went away.
    let mut gone = false;
    loop {
        if let (Show::Difference(from, _), true) = (show, difference.is_none())
            && replay.number() == from
        {
            difference = Some(Difference::from(replay.worker(), from));
        }
        if show.last() == Some(replay.number()) {
            break;
        }
        let Some(Line { text, whole }) = next(&mut lines)? else { break };
        let step = match replay.feed(&text) {
            Ok(step) => step,
            Err(damaged) if !whole => {
                cut = Some(format!(
                    "line {} is cut: the worker ended while it was written; replayed up to input {}",
                    damaged.line,
                    replay.number()
                ));
                break;
            }
            Err(damaged) => return Err(damaged.to_string()),
        };
        if let Some(difference) = &mut difference {
            difference.step(&step);
        }
        gone = matches!(show, Show::Outputs(_)) && outputs(&step, out).is_err();
        if gone {
            break;
        }
    }
    if let Some(wanted) = show.last()
        && replay.number() < wanted
        && !gone
    {
        let end = cut.map_or_else(String::new, |cut| format!("; {cut}"));
        return Err(match replay.number() {
            last if last == first => {
                format!("there is no input {wanted}: this journal holds none after input {first}{end}")
            }
            last => format!("there is no input {wanted}: this journal holds inputs {} to {last}{end}", first + 1),
        });
    }
    let text = match (show, difference) {
        (Show::State(_), _) => format!("{:#}", shown::state(replay.worker())),
        (Show::Difference(_, to), Some(difference)) => difference.to(replay.worker(), to),
        (Show::Difference(..), None) => "nothing differs".to_owned(),
        (Show::Outputs(_), _) => format!("# {} inputs replayed", replay.number() - first),
    };
    Ok((text, cut))
}

fn outputs(step: &Step, out: &mut impl Write) -> io::Result<()> {
    // A time that no calendar has is shown as it is.
    match jiff::Timestamp::from_millisecond(step.at.wall.0) {
        Ok(time) => writeln!(out, "# input {} at {time}: {}", step.number, step.input.escape_debug())?,
        Err(_) => writeln!(out, "# input {} at {} ms: {}", step.number, step.at.wall.0, step.input.escape_debug())?,
    }
    step.outputs.iter().try_for_each(|line| writeln!(out, "{line}"))
}

struct Line {
    text: String,
    /// Whether it ends as a line does.
    whole: bool,
}

fn next(lines: &mut impl BufRead) -> Result<Option<Line>, String> {
    let mut bytes = Vec::new();
    lines.read_until(b'\n', &mut bytes).map_err(|error| error.to_string())?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let whole = bytes.last() == Some(&b'\n');
    if whole {
        bytes.pop();
    }
    Ok(Some(Line { text: String::from_utf8_lossy(&bytes).into_owned(), whole }))
}

#[cfg(test)]
#[path = "print_tests.rs"]
mod tests;
