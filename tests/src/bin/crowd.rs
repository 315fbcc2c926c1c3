//! `crowd`: what a worker costs at rest, with a thousand models and a hundred thousand keys.

use std::process::ExitCode;
use std::time::Duration;

use appproxy_tests::crowd::{Plan, run};
use appproxy_tests::shell::Shell;
use appproxy_tests::words;

const USAGE: &str = "\
usage: crowd [--shell tokio|smol] [--models N] [--replicas N] [--keys N] [--seconds S]

Gives a worker N models (1000) of N replicas each (5) and N keys (100000), asks it nothing for S seconds (60), and prints
its memory and CPU, the size of its pages, and how soon a new key opens. Health probes go on as configured by default.";

fn main() -> ExitCode {
    match wishes(std::env::args().skip(1)) {
        Ok(plan) => {
            tell(&plan);
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("{problem}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn wishes(mut given: impl Iterator<Item = String>) -> Result<Plan, String> {
    let length = Duration::from_secs(60);
    let mut plan = Plan { shell: Shell::TOKIO, models: 1_000, replicas: 5, keys: 100_000, length };
    while let Some(word) = given.next() {
        let value = given.next().ok_or_else(|| format!("{word} wants a value"))?;
        let number = || words::positive(&word, &value);
        match word.as_str() {
            "--models" => plan.models = number()?,
            "--replicas" => plan.replicas = u16::try_from(number()?).map_err(|error| format!("--replicas: {error}"))?,
            "--keys" => plan.keys = number()?,
            "--seconds" => plan.length = Duration::from_secs(number()?.into()),
            "--shell" => plan.shell = words::shell(&value)?,
            _ => return Err(format!("{word} is not known")),
        }
    }
    Ok(plan)
}

fn tell(plan: &Plan) {
    let Plan { models, replicas, keys, length, .. } = plan;
    println!("{}: {models} models of {replicas} replicas, {keys} keys", plan.shell.program);
    let report = run(plan);
    let megabytes =
        |kilobytes: Option<u64>| kilobytes.map_or_else(|| "?".to_owned(), |kb| format!("{:.1}", kb as f64 / 1024.0));
    let seconds = |seconds: Option<f64>| seconds.map_or_else(|| "?".to_owned(), |seconds| format!("{seconds:.2}"));
    let (before, after) = report.memory;
    println!("memory         {} MiB, {} MiB with nothing", megabytes(after), megabytes(before));
    println!("ready          after {:.2?}, {} CPU s", report.ready, seconds(report.cpu.0));
    println!("at rest        {} CPU s a minute, watched for {length:?}", seconds(report.cpu.1));
    println!("/admin/state   {} bytes in {:.1?}", report.state.0, report.state.1);
    println!("/metrics       {} bytes in {:.1?}", report.metrics.0, report.metrics.1);
    println!("one more key   opens after {:.1?}", report.key);
}
