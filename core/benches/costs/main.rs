//! What the core's work costs in instructions and allocations, and whether that has grown.
//!
//! `cargo bench -p appproxy-core --bench costs [-- NAME...]` prints every cost, the large sizes included, with the ratio
//! of each size to the one before. `-- --gate` measures the small sizes and fails when one needs more than `expected.txt`
//! allows; `-- --write` writes that file anew. Each cost is measured in a process of its own under callgrind, which
//! counts the instructions of [`measured`] alone and repeats itself to the digit on a busy machine. The gate's figures
//! are of the development profile, as tests/run builds it, debug assertions and all; the others are of what is built.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark reads arguments and starts valgrind"
)]

#[path = "../../tests/states/mod.rs"]
mod states;

mod decision;
mod subjects;

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use subjects::{SUBJECTS, Subject};

/// Runs before the counted ones: what a pool or a buffer keeps is made by then.
const FIRST: usize = 16;

/// How much more than expected is no growth: compilers and C libraries differ a little.
const LEEWAY_PERCENT: u64 = 8;

/// What one run of a subject needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cost {
    instructions: u64,
    allocations: u64,
}

/// One thing to measure: an input is made, unmeasured, and then used.
pub(crate) trait Work {
    fn once(&mut self, counted: bool) -> u64;
}

/// A [`Work`] of two closures.
pub(crate) struct Pair<N, R> {
    pub(crate) next: N,
    pub(crate) run: R,
}

impl<I, O, N: FnMut() -> I, R: FnMut(I) -> O> Work for Pair<N, R> {
    fn once(&mut self, counted: bool) -> u64 {
        let input = (self.next)();
        let mut output = None;
        let run = &mut self.run;
        let allocations = allocation_counter::measure(|| {
            output = Some(if counted { measured(run, input) } else { run(input) });
        });
        drop(black_box(output));
        allocations.count_total
    }
}

/// What callgrind counts. What it leaves is dropped outside.
#[inline(never)]
fn measured<I, O>(run: &mut impl FnMut(I) -> O, input: I) -> O {
    black_box(run(black_box(input)))
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let texts: Vec<&str> = words.iter().map(String::as_str).collect();
    match texts.as_slice() {
        ["--only", name, size] => {
            only(name, size.parse().expect("a size"));
            ExitCode::SUCCESS
        }
        ["--gate"] => gate(),
        ["--write"] => done(write()),
        names => done(print_all(names)),
    }
}

fn done(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The measured process: prints the allocations of one run.
fn only(name: &str, size: usize) {
    let subject = SUBJECTS.iter().find(|subject| subject.name == name).expect("a subject's name");
    let mut work = (subject.make)(size);
    for _ in 0..FIRST.min(subject.runs) {
        work.once(false);
    }
    let allocations: u64 = (0..subject.runs).map(|_| work.once(true)).sum();
    println!("{}", allocations / subject.runs as u64);
}

fn cost(subject: &Subject, size: usize) -> Result<Cost, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*costs::measured*"])
        .arg(program)
        .args(["--only", subject.name, &size.to_string()])
        .output()
        .map_err(|error| {
            format!("valgrind cannot be started ({error}): install it (Debian: apt-get install valgrind)")
        })?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let collected = said.lines().find(|line| line.contains("Collected")).and_then(|line| line.rsplit(' ').next());
    let total: Option<u64> = collected.and_then(|count| count.parse().ok());
    let allocations = String::from_utf8_lossy(&output.stdout).trim().parse().ok();
    match (total, allocations) {
        (Some(total), Some(allocations)) => Ok(Cost { instructions: total / subject.runs as u64, allocations }),
        _ => Err(format!("{} of {size} was not measured: {said}", subject.name)),
    }
}

fn print_all(names: &[&str]) -> Result<(), String> {
    println!("{:<28} {:>9} {:>14} {:>12} {:>12} {:>7}", "", "size", "instructions", "each", "allocations", "ratio");
    for subject in SUBJECTS.iter().filter(|one| names.is_empty() || names.iter().any(|name| one.name.contains(name))) {
        let mut before = None;
        for &size in subject.sizes.iter().chain(subject.large) {
            let cost = cost(subject, size)?;
            let each = cost.instructions as f64 / if subject.by_size { size as f64 } else { 1.0 };
            let ratio = before.map_or(String::new(), |before: f64| format!("{:.2}", each / before));
            let (name, Cost { instructions, allocations }) = (subject.name, cost);
            println!("{name:<28} {size:>9} {instructions:>14} {each:>12.1} {allocations:>12} {ratio:>7}");
            before = Some(each);
        }
    }
    Ok(())
}

fn expected_file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/costs/expected.txt")
}

/// What one run of each subject costs now, for the small sizes.
fn all_small() -> Result<Vec<(String, Cost)>, String> {
    let sizes = SUBJECTS.iter().flat_map(|subject| subject.sizes.iter().map(move |&size| (subject, size)));
    sizes.map(|(subject, size)| Ok((format!("{}/{size}", subject.name), cost(subject, size)?))).collect()
}

fn write() -> Result<(), String> {
    let costs = all_small()?;
    let mut text = String::from(
        "# name/size instructions allocations; written by `cargo test -p appproxy-core --bench costs -- --write`\n",
    );
    for (name, Cost { instructions, allocations }) in costs {
        writeln!(text, "{name} {instructions} {allocations}").expect("a string takes everything");
    }
    std::fs::write(expected_file(), text).map_err(|error| format!("expected.txt cannot be written: {error}"))
}

/// Says of each cost whether it has grown, in the words of cargo's own tests, which tests/run counts.
fn gate() -> ExitCode {
    let expected = std::fs::read_to_string(expected_file()).expect("expected.txt is beside this file");
    let (mut passed, mut failed) = (0, 0);
    for subject in SUBJECTS {
        for &size in subject.sizes {
            let name = format!("{}/{size}", subject.name);
            match cost(subject, size).and_then(|cost| judge(&expected, &name, cost)) {
                Ok(()) => passed += 1,
                Err(error) => {
                    failed += 1;
                    println!("test cost of {name} ... FAILED");
                    println!("    {error}");
                }
            }
        }
    }
    println!("test result: {}. {passed} passed; {failed} failed;", if failed == 0 { "ok" } else { "FAILED" });
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn judge(expected: &str, name: &str, now: Cost) -> Result<(), String> {
    let line = expected.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let figures: Vec<u64> = line.unwrap_or_default().split(' ').filter_map(|figure| figure.parse().ok()).collect();
    let [instructions, allocations] = figures[..] else {
        return Err(format!("expected.txt has no line `{name} INSTRUCTIONS ALLOCATIONS`: write it with --write"));
    };
    if now.allocations > allocations {
        return Err(format!("{} allocations where {allocations} were enough", now.allocations));
    }
    if now.instructions * 100 > instructions * (100 + LEEWAY_PERCENT) {
        return Err(format!("{} instructions where {instructions} were enough", now.instructions));
    }
    Ok(())
}
