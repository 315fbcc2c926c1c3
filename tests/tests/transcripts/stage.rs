//! One worker on a stage: its commands are carried out as the script says, its outputs are written down.

use core::time::Duration;

use appproxy_core::config::health::HealthChecks;
use appproxy_core::config::worker::{EventDialect, LegacyMode, Mode, RouterMode, WorkerConfig};
use appproxy_core::secret::Secret;
use appproxy_core::seed::Seed;
use appproxy_core::serving::{Generation, ServingSettings};
use appproxy_core::time::{Moment, Now, UnixMillis};
use appproxy_core::worker::{
    AckId, Call, CallBody, CallResponse, Command, Deadline, Input, Output, TransportFailure, Worker,
};

use crate::{names, telling};

pub(crate) const AUTHORITY: &str = "continuum-router-1";

/// So often at most the worker is woken while a scenario awaits a call.
const MOST_WAKES: usize = 100;

/// What the shell does by itself, without a line of the script.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Habits {
    /// Say `Applied` after each apply.
    pub(crate) applies: bool,
    /// Say `AckSent` after each ack.
    pub(crate) acks: bool,
    /// Answer heartbeats with 200.
    pub(crate) heartbeats: bool,
}

pub(crate) struct Stage {
    worker: Worker,
    now: Now,
    habits: Habits,
    calls: Vec<Call>,
    abandoned: Vec<Call>,
    unconfirmed_applies: Vec<Generation>,
    unconfirmed_acks: Vec<AckId>,
    wait: Option<Deadline>,
    stood: String,
    lines: Vec<String>,
    /// While set, only applies are written down.
    pub(crate) terse: bool,
}

pub(crate) fn router_config() -> WorkerConfig {
    WorkerConfig {
        mode: Mode::Router(RouterMode::default()),
        coordinator_url: "http://127.0.0.1:1".into(),
        api_secret: Secret::new("secret"),
        redis_url: Some(Secret::new("redis://127.0.0.1:1/4")),
        ca_file: None,
        authority: AUTHORITY.into(),
        hostname: "router.example.com".into(),
        tls_listen: false,
        tls_advertised: true,
        api_port: 8080,
        traffic_port: 443,
        heartbeat_period: Duration::from_secs(10),
        reconcile_interval: Duration::from_secs(15),
        events_enabled: true,
        event_dialect: EventDialect::Both,
        call_timeout: Duration::from_secs(10),
        pull_timeout: Duration::from_secs(30),
        max_staleness: None,
    }
}

pub(crate) fn legacy_mode() -> Mode {
    Mode::Legacy(LegacyMode {
        jwt_secret: Secret::new("secret"),
        jwt_leeway: Duration::from_secs(60),
        wildcard_domain: ".models.example.com".into(),
        aggregation_hosts: Vec::new(),
        model_names: Vec::new(),
    })
}

impl Stage {
    pub(crate) fn new(config: WorkerConfig, habits: Habits) -> Self {
        let now = Now { moment: Moment::START, wall: UnixMillis(1_800_000_000_000) };
        // These are about the coordinator: no replica is probed.
        let checks = HealthChecks { enabled: false, ..HealthChecks::default() };
        let settings = ServingSettings { checks, ..ServingSettings::default() };
        let worker = Worker::new(config, &settings, Seed::from_number(3), now);
        Self {
            worker,
            now,
            habits,
            calls: Vec::new(),
            abandoned: Vec::new(),
            unconfirmed_applies: Vec::new(),
            unconfirmed_acks: Vec::new(),
            wait: None,
            stood: String::new(),
            lines: Vec::new(),
            terse: false,
        }
    }

    /// Writes down what happens next.
    pub(crate) fn headline(&mut self, text: &str) {
        self.write_raw(&format!("{:>8} {text}", self.now.moment.to_string()));
    }

    pub(crate) fn remark(&mut self, text: &str) {
        self.write_raw(text);
    }

    /// One input; ends with what the worker waits for, and how it stands if that changed.
    pub(crate) fn input(&mut self, input: Input) {
        self.step(input);
        self.settle();
    }

    /// What the script did not say and the shell does by itself, until nothing of it is left; then the end of the step.
    fn settle(&mut self) {
        loop {
            if self.habits.applies && !self.unconfirmed_applies.is_empty() {
                let generation = self.unconfirmed_applies.remove(0);
                self.step(Input::Applied(generation));
            } else if self.habits.acks && !self.unconfirmed_acks.is_empty() {
                let ack = self.unconfirmed_acks.remove(0);
                self.step(Input::AckSent(ack));
            } else if let (true, Some(at)) = (self.habits.heartbeats, self.position("heartbeat")) {
                let call = self.calls.remove(at);
                self.step(Input::CallEnded(call.answered(response(200, "{}"))));
            } else {
                break;
            }
        }
        self.write(&telling::wait(self.wait));
        let stands = telling::standing(&self.worker, self.now.moment);
        if stands != self.stood {
            self.write(&stands);
            self.stood = stands;
        }
    }

    fn step(&mut self, input: Input) {
        self.worker.handle_input(input, self.now);
        loop {
            match self.worker.poll_output() {
                Output::Wait(deadline) => {
                    self.wait = deadline;
                    return;
                }
                Output::Event(event) => self.write(&telling::event(&event)),
                Output::Command(command) => self.command(command),
            }
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Subscribe => self.write("subscribe"),
            Command::Apply(apply) => {
                self.unconfirmed_applies.push(apply.view.generation);
                let terse = core::mem::take(&mut self.terse);
                telling::apply(&apply).iter().for_each(|line| self.write(line));
                self.terse = terse;
            }
            Command::Call(call) => {
                telling::call(&call).iter().for_each(|line| self.write(line));
                self.calls.push(call);
            }
            Command::Abandon(id) => {
                self.write(&format!("abandon #{}", id.0));
                if let Some(at) = self.calls.iter().position(|call| call.id() == id) {
                    self.abandoned.push(self.calls.remove(at));
                }
            }
            Command::Probe(probe) => self.write(&format!("probe {}", probe.backend())),
            Command::AbandonProbe(id) => self.write(&format!("abandon probe #{}", id.0)),
            Command::SendAck(ticket) => {
                self.write(&telling::ack(&ticket));
                self.unconfirmed_acks.push(ticket.id);
            }
            Command::Unsubscribe => self.write("unsubscribe"),
            Command::Stop => self.write("stop"),
        }
    }

    /// Lets time pass, waking the worker at each of its deadlines.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now.moment.after(time);
        while let Some(deadline) = self.wait.filter(|deadline| deadline.at <= end) {
            self.set_moment(deadline.at.max(self.now.moment));
            self.headline(&format!("~ {}", telling::reason(deadline)));
            self.input(Input::Tick);
        }
        self.set_moment(end);
    }

    /// Lets time pass until a call of this name waits for its answer.
    pub(crate) fn await_call(&mut self, name: &str) -> Result<(), String> {
        for _ in 0..MOST_WAKES {
            if self.position(name).is_some() {
                return Ok(());
            }
            let deadline = self.wait.ok_or_else(|| format!("no call to {name} will come by itself"))?;
            self.pass(deadline.at.since(self.now.moment));
        }
        Err(format!("no call to {name} came in {MOST_WAKES} wakes"))
    }

    /// Lets time pass until this moment.
    pub(crate) fn pass_until(&mut self, time: Duration) -> Result<(), String> {
        let end = Moment::START.after(time);
        if end < self.now.moment {
            return Err(format!("{end} has passed: it is {}", self.now.moment));
        }
        self.pass(end.since(self.now.moment));
        Ok(())
    }

    /// Steps the wall clock, and nothing else.
    pub(crate) fn step_wall(&mut self, millis: i64) {
        self.now.wall = UnixMillis(self.now.wall.0 + millis);
        self.input(Input::Tick);
    }

    fn set_moment(&mut self, moment: Moment) {
        let passed = moment.since(self.now.moment);
        self.now = Now { moment, wall: UnixMillis(self.now.wall.0 + passed.as_millis() as i64) };
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.calls.iter().position(|call| called(call) == name)
    }

    /// Takes the oldest call of this name, or the oldest abandoned one.
    fn take(&mut self, name: &str, abandoned: bool) -> Result<Call, String> {
        let calls = if abandoned { &mut self.abandoned } else { &mut self.calls };
        let at = calls.iter().position(|call| called(call) == name);
        at.map(|at| calls.remove(at)).ok_or_else(|| format!("no call to {name} waits for an answer"))
    }

    pub(crate) fn answer(&mut self, name: &str, abandoned: bool, status: u16, body: &str) -> Result<(), String> {
        let call = self.take(name, abandoned)?;
        self.input(Input::CallEnded(call.answered(response(status, body))));
        Ok(())
    }

    pub(crate) fn fail(&mut self, name: &str, failure: TransportFailure) -> Result<(), String> {
        let call = self.take(name, false)?;
        self.input(Input::CallEnded(call.failed(failure)));
        Ok(())
    }

    pub(crate) fn applied(&mut self) -> Result<(), String> {
        if self.unconfirmed_applies.is_empty() {
            return Err("nothing waits to be applied (`with applies by hand`?)".into());
        }
        let generation = self.unconfirmed_applies.remove(0);
        self.input(Input::Applied(generation));
        Ok(())
    }

    pub(crate) fn ack(&mut self, sent: bool) -> Result<(), String> {
        if self.unconfirmed_acks.is_empty() {
            return Err("no ack is on its way (`with acks by hand`?)".into());
        }
        let id = self.unconfirmed_acks.remove(0);
        self.input(if sent { Input::AckSent(id) } else { Input::AckFailed(id) });
        Ok(())
    }

    /// The wait and the standing as they are, after a terse part.
    pub(crate) fn sum_up(&mut self) {
        self.stood.clear();
        self.settle();
    }

    pub(crate) fn transcript(self) -> String {
        self.lines.join("\n")
    }

    fn write(&mut self, line: &str) {
        if !self.terse {
            self.write_raw(&format!("             {line}"));
        }
    }

    fn write_raw(&mut self, line: &str) {
        self.lines.push(names::shortened(line, self.worker.node_id().0));
    }
}

fn response(status: u16, body: &str) -> CallResponse {
    CallResponse { status, body: CallBody(body.as_bytes().to_vec()) }
}

/// What the script calls a call.
fn called(call: &Call) -> &'static str {
    let request = call.request();
    match request.method.as_str() {
        "PUT" => "register",
        "PATCH" => "heartbeat",
        "DELETE" => "delete",
        _ if request.path_and_query.ends_with("/circuits") => "circuits",
        _ => "config",
    }
}
