//! `load`: what a worker costs, as ratios to the same load without one.

use std::process::ExitCode;
use std::time::Duration;

use appproxy_tests::load::{Plan, print, run};
use appproxy_tests::shell::Shell;
use appproxy_tests::words;

const USAGE: &str = "\
usage: load [--shell tokio|smol|both] [--rounds N] [--seconds S]

Puts load on a worker (both shells, one after the other) and on a replica directly, in turn, for S seconds (4) a step and
N rounds (2): whole answers to 1, 32 and 256 clients, streams to 64 and 1,000. The worker checks a key, routes to two
replicas and counts; access lines are off. Prints medians, and in brackets how many times `direct` they are. Figures of
different runs are not to be compared. Exit code 1 when an answer was wrong.";

fn main() -> ExitCode {
    let plan = match wishes(std::env::args().skip(1)) {
        Ok(plan) => plan,
        Err(problem) => {
            eprintln!("{problem}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let done = run(&plan, |step| {
        eprintln!("{:8} {}: {:.0} a second, {} wrong", step.target, step.step.name(), step.rate, step.wrong);
    });
    match done {
        Ok(all) => {
            println!("{}", print(&all));
            if all.iter().all(|figures| figures.wrong == 0 && figures.answers > 0) {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn wishes(mut given: impl Iterator<Item = String>) -> Result<Plan, String> {
    let mut plan = Plan { shells: vec![Shell::TOKIO, Shell::SMOL], rounds: 2, length: Duration::from_secs(4) };
    while let Some(word) = given.next() {
        let value = given.next().ok_or_else(|| format!("{word} wants a value"))?;
        let number = || words::positive(&word, &value);
        match word.as_str() {
            "--rounds" => plan.rounds = number()?,
            "--seconds" => plan.length = Duration::from_secs(number()?.into()),
            "--shell" if value == "both" => {}
            "--shell" => plan.shells = vec![words::shell(&value)?],
            _ => return Err(format!("{word} is not known")),
        }
    }
    Ok(plan)
}
