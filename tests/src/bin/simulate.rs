//! Runs simulated worlds: `simulate --seeds A..B [--nodes N] [--mode M] [--minutes M] [--steps N] [--shrink] [--defect NAME]`.

use std::collections::BTreeSet;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use appproxy_core::worker::defects::{self, Defect};
use appproxy_tests::simulation::fault::FAULTS;
use appproxy_tests::simulation::run::{Failure, Kind, Kinds, Plan, shrink};
use appproxy_tests::simulation::seeds::{Stop, hunt, run_seeds};
use appproxy_tests::simulation::{aims, fault::Fault};

const USAGE: &str = "usage: simulate --seeds A..B [--nodes N] [--minutes M] [--steps N] [--shrink] [--defect NAME]
                [--mode router|legacy|both] [--trace] [--only I,J,...]
  --seeds A..B   from A up to, not including, B
  --mode M       which workers live in the worlds; both (unless said): the seed chooses
  --nodes N      nodes of the authority, 3 unless said
  --minutes M    stop starting seeds after this time
  --steps N      things that happen before the faults end, 300 unless said
  --shrink       cut the first failing run down to the strikes and changes it needs
  --defect NAME  run a deliberately wrong worker, with the mix aimed at it; `list` names them, `all` hunts each
  --aim NAME     a right worker with the mix aimed at that defect
  --trace        print everything that happens
  --only I,J     only these strikes and changes of a run happen (as --shrink prints them)";

struct Wishes {
    seeds: Range<u64>,
    plan: Plan,
    stop: Stop,
    shrink: bool,
    defect: Option<Defect>,
    all_defects: bool,
    /// The defect that the mix is aimed at, and whether the workers have it.
    aim: Option<(Defect, bool)>,
}

fn main() -> ExitCode {
    let wishes = match wishes(std::env::args().skip(1)) {
        Ok(wishes) => wishes,
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if wishes.all_defects {
        return hunt_all(wishes.seeds.end);
    }
    defects::choose(wishes.defect);
    let began = Instant::now();
    let report = run_seeds(wishes.seeds, &wishes.plan, wishes.stop);
    for failure in report.failures.iter().take(10) {
        println!("{failure}\n  repeat: {}\n", command(failure, &wishes.plan, wishes.aim));
    }
    if let (Some(failure), true) = (report.failures.first(), wishes.shrink) {
        let (least, plan) = shrink(failure, &wishes.plan);
        let (before, after) = (failure.struck.len(), least.struck.len());
        println!("cut down from {before} strikes and changes to {after}:\n{least}");
        println!("  repeat: {}\n", command(&least, &plan, wishes.aim));
    }
    println!("{}", report.totals);
    let per_seed = |fault: &Fault| report.totals.faults[*fault as usize] * 20 < report.seeds;
    for rare in FAULTS.iter().filter(|fault| per_seed(fault)) {
        println!("rare: {} (less than once in 20 seeds)", rare.name());
    }
    println!("{:.1} s", began.elapsed().as_secs_f64());
    println!("{} seeds, {} failed", report.seeds, report.failures.len());
    if report.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Looks for every deliberately wrong worker and says how many seeds it took.
fn hunt_all(most: u64) -> ExitCode {
    let mut missed = 0;
    for defect in Defect::ALL {
        match hunt(defect, most) {
            Some(failure) => {
                println!("{:>6} seeds  {}: {}", failure.seed + 1, defect.name(), failure.broken.invariant);
            }
            None => {
                missed += 1;
                println!("  none of {most}  {}: NOT FOUND", defect.name());
            }
        }
    }
    println!("{} wrong workers, {missed} not found", Defect::ALL.len());
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn wishes(mut args: impl Iterator<Item = String>) -> Result<Wishes, String> {
    let mut wishes = Wishes {
        seeds: 0..0,
        plan: Plan { kinds: Kinds::Both, ..Plan::default() },
        stop: Stop::default(),
        shrink: false,
        defect: None,
        all_defects: false,
        aim: None,
    };
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--seeds" => {
                let text = value()?;
                let ends = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
                wishes.seeds = ends.ok_or_else(|| format!("--seeds {text}: should be like 0..1000"))?;
            }
            "--nodes" => wishes.plan.nodes = number(&value()?)?.clamp(1, 16),
            "--mode" => {
                wishes.plan.kinds = match value()?.as_str() {
                    "router" => Kinds::Only(Kind::Router),
                    "legacy" => Kinds::Only(Kind::Legacy),
                    "both" => Kinds::Both,
                    other => return Err(format!("--mode {other}: should be router, legacy or both")),
                };
            }
            "--steps" => wishes.plan.steps = number(&value()?)? as u64,
            "--minutes" => wishes.stop.after = Some(Duration::from_secs(60 * number(&value()?)? as u64)),
            "--trace" => wishes.plan.trace = true,
            "--shrink" => wishes.shrink = true,
            "--only" => {
                let numbers: Result<BTreeSet<u64>, String> =
                    value()?.split(',').map(|text| number(text).map(|it| it as u64)).collect();
                wishes.plan.only = Some(Arc::new(numbers?));
            }
            "--defect" | "--aim" => {
                let name = value()?;
                if name == "all" && arg == "--defect" {
                    wishes.all_defects = true;
                    continue;
                }
                let known = || Defect::ALL.iter().map(|defect| defect.name()).collect::<Vec<_>>().join("\n  ");
                let found = Defect::ALL.into_iter().find(|defect| defect.name() == name);
                let defect = found.ok_or_else(|| format!("no defect {name:?}; there are\n  {}", known()))?;
                wishes.plan.aim = aims::aim(defect).to_vec();
                wishes.plan.kinds = Kinds::Only(if defect.is_legacy() { Kind::Legacy } else { Kind::Router });
                wishes.aim = Some((defect, arg == "--defect"));
                if arg == "--defect" {
                    wishes.stop.at_first_failure = true;
                    wishes.defect = Some(defect);
                }
            }
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    if wishes.seeds.is_empty() {
        return Err("--seeds A..B is missing, or names no seed".into());
    }
    Ok(wishes)
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{text:?}: should be a whole number"))
}

fn command(failure: &Failure, plan: &Plan, aim: Option<(Defect, bool)>) -> String {
    let mut command = format!(
        "cargo run --release -p appproxy-tests --bin simulate -- --seeds {}..{} --mode {} --nodes {} --steps {}",
        failure.seed,
        failure.seed + 1,
        match plan.kinds.of(failure.seed) {
            Kind::Router => "router",
            Kind::Legacy => "legacy",
        },
        plan.nodes,
        plan.steps
    );
    if let Some((defect, wrong)) = aim {
        command += &format!(" --{} {}", if wrong { "defect" } else { "aim" }, defect.name());
    }
    if let Some(only) = &plan.only {
        let numbers: Vec<String> = only.iter().map(u64::to_string).collect();
        command += &format!(" --only {}", numbers.join(","));
    }
    command
}
