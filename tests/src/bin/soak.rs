//! `soak`: ten minutes of everything going wrong at once, and not one wrong answer.

use std::process::ExitCode;
use std::time::Duration;

use appproxy_tests::shell::Shell;
use appproxy_tests::soak::{Plan, Report, run};
use appproxy_tests::words;

const USAGE: &str = "\
usage: soak [--minutes M | --seconds S] [--shell tokio|smol] [--clients N] [--seed N] [--lie]

Runs a worker for M minutes (10) under 200 clients, some of whom leave, while replicas are killed and restarted, routes
updated twice a second, keys revoked and issued, and redis restarted each minute. Every answer is compared with what its
replica should have said. With --lie one replica answers wrongly on purpose: the run must then fail.
Ends with `N requests, 0 wrong, 0 leaked` and exit code 0, or with what was wrong and 1.";

fn main() -> ExitCode {
    let plan = match wishes(std::env::args().skip(1)) {
        Ok(plan) => plan,
        Err(problem) => {
            eprintln!("{problem}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    println!("{} for {:?} with {} clients, seed {}", plan.shell.program, plan.length, plan.clients, plan.seed);
    let report = run(&plan);
    tell(&report);
    if report.good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn wishes(mut given: impl Iterator<Item = String>) -> Result<Plan, String> {
    let mut plan = Plan { shell: Shell::TOKIO, length: Duration::from_secs(600), clients: 200, lie: false, seed: 1 };
    while let Some(word) = given.next() {
        if word == "--lie" {
            plan.lie = true;
            continue;
        }
        let value = given.next().ok_or_else(|| format!("{word} wants a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{word}: {value:?} is no number"));
        match word.as_str() {
            "--minutes" => plan.length = Duration::from_secs(number()? * 60),
            "--seconds" => plan.length = Duration::from_secs(number()?),
            "--clients" => plan.clients = u32::try_from(number()?).map_err(|e| format!("--clients: {e}"))?,
            "--seed" => plan.seed = number()?,
            "--shell" => plan.shell = words::shell(&value)?,
            _ => return Err(format!("{word} is not known")),
        }
    }
    Ok(plan)
}

fn tell(report: &Report) {
    let [kills, routes, keys, bus] = report.troubles;
    println!("troubles: {kills} replicas killed, {routes} route updates, {keys} key changes, {bus} bus restarts");
    let refused: Vec<String> = report.refused.iter().map(|(status, count)| format!("{count} x {status}")).collect();
    println!(
        "answers: {} right, {} broken off visibly, {} clients left, refused: {}",
        report.right,
        report.broken,
        report.left,
        refused.join(", ")
    );
    if let Some((settled, end)) = report.memory {
        println!("memory: {settled} kB after minute 3, {end} kB at the end, {:.2} times", end as f64 / settled as f64);
    }
    report.examples.iter().for_each(|example| println!("wrong: {example}"));
    if report.grew() {
        println!("memory grew by more than a tenth");
    }
    println!("{} requests, {} wrong, {} leaked", report.requests, report.wrong, report.leaked);
}
