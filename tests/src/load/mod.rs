//! What a worker costs: load on loopback, against the same load without a worker in between, A B A B.
//!
//! `cargo run --release -p appproxy-tests --bin load`

mod clients;
mod replica;
mod table;
mod wire;

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use crate::plain::{NO_PROBES, NO_QUARANTINE};
use crate::process::{cpu, memory};
use crate::shell::Shell;
use crate::wait::PATIENCE;
use crate::worker::Worker;

pub use table::print;

const MODEL: &str = "m";
const KEY: &str = "sk-load-0123456789abcdef";
/// Descriptors that a thousand clients and their replicas' connections take, in this process and in the worker.
const DESCRIPTORS: u64 = 4096;

/// What to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The programs under test.
    pub shells: Vec<Shell>,
    /// Once round is every target at every step.
    pub rounds: u32,
    /// How long a step is.
    pub length: Duration,
}

/// One kind of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Clients at once.
    pub clients: u32,
    /// Between the pieces of a stream; `None`: the answers are no streams.
    pub every: Option<Duration>,
    /// Pieces of a stream.
    pub pieces: u32,
}

/// All kinds, in their order.
pub const STEPS: [Step; 5] = [
    Step { clients: 1, every: None, pieces: 0 },
    Step { clients: 32, every: None, pieces: 0 },
    Step { clients: 256, every: None, pieces: 0 },
    Step { clients: 64, every: Some(Duration::from_millis(5)), pieces: 50 },
    Step { clients: 1000, every: Some(Duration::from_millis(100)), pieces: 20 },
];

/// What one step at one target came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// `direct`, or the shell.
    pub target: &'static str,
    /// The load.
    pub step: Step,
    /// Whole answers (streams: those that began).
    pub answers: u64,
    /// Answers a second; of streams events a second.
    pub rate: f64,
    /// Microseconds until the answer was there, of a stream its first event: the median, and the slowest hundredth.
    pub latency: (f64, f64),
    /// Microseconds between events: the median, and the slowest hundredth.
    pub gap: (f64, f64),
    /// CPU the worker took, in milliseconds per 10,000 answers, of streams per 10,000 events. `None` of `direct`, and
    /// where there is no `/proc`.
    pub cpu: Option<f64>,
    /// Kilobytes of memory afterwards.
    pub memory: Option<u64>,
    /// Answers that were not as they should be.
    pub wrong: u64,
}

/// Runs it; `tell` hears of each step as it is done.
///
/// # Errors
/// When something does not start, in words.
pub fn run(plan: &Plan, mut tell: impl FnMut(&Figures)) -> Result<Vec<Figures>, String> {
    enough_descriptors()?;
    let replicas = [replica::start(), replica::start()].map(|started| started.map_err(|error| error.to_string()));
    let [first, second] = replicas;
    let (first, second) = (first?, second?);
    let mut workers = Vec::new();
    for shell in &plan.shells {
        let (mut worker, address) = start(*shell, [first, second])?;
        workers.push((shell.name, address, Some(worker.program().id()), worker));
    }
    let mut done = Vec::new();
    for _ in 0..plan.rounds {
        for step in STEPS {
            let direct = ("direct", first, None);
            let targets = workers.iter().map(|(name, address, id, _)| (*name, *address, *id));
            for (target, address, id) in core::iter::once(direct).chain(targets) {
                let figures = measured(target, address, id, step, plan.length).map_err(|error| error.to_string())?;
                tell(&figures);
                done.push(figures);
            }
        }
    }
    Ok(done)
}

/// A worker that checks keys, routes and counts; its log tells of troubles alone.
fn start(shell: Shell, replicas: [SocketAddr; 2]) -> Result<(Worker, SocketAddr), String> {
    let [first, second] = replicas;
    // Its log would say where it listens, with a line for each request.
    let (data, admin) = (free_address()?, free_address()?);
    let config = format!(
        "server: {{bind_address: \"{data}\"}}\nadmin: {{bind_address: \"{admin}\"}}\n{NO_PROBES}{NO_QUARANTINE}\
         logging: {{level: warn}}\n\
         api_keys: {{mode: blocking, keys: [{{id: load, key: {KEY}}}]}}\n\
         backends:\n  - {{name: b0, url: \"http://{first}\", models: [{MODEL}]}}\n  - {{name: b1, url: \"http://{second}\", \
         models: [{MODEL}]}}\n"
    );
    let mut worker = shell.start(&config, &[]).map_err(|error| format!("{}: {error}", shell.program))?;
    worker.wait_ready(&data.to_string(), PATIENCE);
    Ok((worker, data))
}

/// An address that nobody listens at just now.
fn free_address() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    listener.map_err(|error| format!("no port: {error}"))
}

fn measured(
    target: &'static str,
    address: SocketAddr,
    id: Option<u32>,
    step: Step,
    length: Duration,
) -> io::Result<Figures> {
    // Connections and code are warm when it counts.
    clients::run(address, &step, length / 8)?;
    let before = id.and_then(cpu);
    let mut seen = clients::run(address, &step, length)?;
    let cpu = id.and_then(cpu).zip(before).map(|(after, before)| after - before);
    if let Some(example) = &seen.example {
        eprintln!("{target} at {} clients: {} wrong, the first: {example}", step.clients, seen.wrong);
    }
    let answers = u64::try_from(seen.answers.len()).unwrap_or(0);
    let counted = if step.every.is_some() { seen.events } else { answers } as f64;
    Ok(Figures {
        target,
        step,
        answers,
        rate: counted / seen.took.as_secs_f64(),
        latency: (part(&mut seen.answers, 50), part(&mut seen.answers, 99)),
        gap: (part(&mut seen.gaps, 50), part(&mut seen.gaps, 99)),
        cpu: cpu.filter(|_| counted > 0.0).map(|seconds| seconds * 1000.0 * 10_000.0 / counted),
        memory: id.and_then(memory),
        wrong: seen.wrong,
    })
}

/// The value below which so many in a hundred are.
fn part(values: &mut [u32], percent: usize) -> f64 {
    let at = values.len() * percent / 100;
    if at >= values.len() {
        return 0.0;
    }
    f64::from(*values.select_nth_unstable(at).1)
}

fn enough_descriptors() -> Result<(), String> {
    let Ok(limits) = fs::read_to_string("/proc/self/limits") else { return Ok(()) };
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse::<u64>().ok());
    match soft {
        Some(soft) if soft < DESCRIPTORS => Err(format!(
            "{soft} open files are allowed, a thousand clients want {DESCRIPTORS}: run `ulimit -n {DESCRIPTORS}` first"
        )),
        _ => Ok(()),
    }
}
