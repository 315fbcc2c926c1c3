//! A stage on which bytes drive a whole worker: what happens next, and how, is read from them by position.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use appproxy_core::config::health::HealthChecks;
use appproxy_core::config::worker::{EventDialect, Mode, RouterMode, WorkerConfig};
use appproxy_core::secret::Secret;
use appproxy_core::seed::Seed;
use appproxy_core::serving::{Generation, ServingSettings};
use appproxy_core::time::{Moment, Now, UnixMillis};
use appproxy_core::wire::envelope::decode;
use appproxy_core::wire::event::{BusEvent, Decoded, EventKind};
use appproxy_core::wire::ids::KeyId;
use appproxy_core::worker::journal::{Head, Recorder, VERSION, shown};
use appproxy_core::worker::{
    AckId, AckTicket, Call, CallBody, CallId, CallResponse, Command, Deadline, Input, Output, TransportFailure, Worker,
};
use serde_json::{Value, json};

use super::coordinator::{announced, good_body};

pub(super) const AUTHORITY: &str = "a";
/// Inputs of one run.
const MOST_INPUTS: usize = 400;
/// Outputs of one input; a pull and everything around it are a handful, a bus that drops releases or drops its acks.
const MOST_OUTPUTS: usize = 2000;

/// Bytes in their order; zeros behind their end.
pub(super) struct Script<'a> {
    bytes: &'a [u8],
}

impl Script<'_> {
    pub(super) fn byte(&mut self) -> u8 {
        match self.bytes.split_first() {
            Some((first, rest)) => {
                self.bytes = rest;
                *first
            }
            None => 0,
        }
    }

    fn below(&mut self, bound: u8) -> u8 {
        self.byte() % bound
    }

    fn text(&mut self) -> Vec<u8> {
        let length = usize::from(self.byte()).min(self.bytes.len());
        let (text, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        text.to_vec()
    }
}

pub(super) struct Drive<'a> {
    script: Script<'a>,
    pub(super) worker: Worker,
    now: Now,
    wait: Option<Deadline>,
    recorder: Recorder,
    /// The journal of this run.
    pub(super) journal: String,
    /// Every output, as a replay shows it.
    pub(super) outputs: Vec<String>,
    /// Calls not answered yet, given up ones included, each with the number of removals that went before it.
    calls: Vec<(Call, u64)>,
    given_up: BTreeSet<CallId>,
    acks: Vec<AckId>,
    /// Views handed out and not confirmed yet.
    unconfirmed: Vec<u64>,
    issued: u64,
    confirmed: u64,
    /// Of every event, by its request id: the newest view when it had been taken in.
    promises: BTreeMap<String, u64>,
    /// Keys whose removal was heard, with the removal's number.
    removed: BTreeMap<KeyId, u64>,
    removals: u64,
    events: u64,
    pub(super) stopped: bool,
    inputs: usize,
}

fn config(events_enabled: bool) -> WorkerConfig {
    WorkerConfig {
        mode: Mode::Router(RouterMode::default()),
        coordinator_url: "http://127.0.0.1:1".into(),
        api_secret: Secret::new("marked-secret"),
        redis_url: None,
        ca_file: None,
        authority: AUTHORITY.into(),
        hostname: "h".into(),
        tls_listen: false,
        tls_advertised: false,
        api_port: 1,
        traffic_port: 1,
        heartbeat_period: Duration::from_secs(10),
        reconcile_interval: Duration::from_secs(15),
        events_enabled,
        event_dialect: EventDialect::Payload,
        call_timeout: Duration::from_secs(10),
        pull_timeout: Duration::from_secs(30),
        max_staleness: None,
    }
}

impl<'a> Drive<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let mut script = Script { bytes };
        let settings = script.byte();
        let config = config(settings % 8 != 7);
        let (seed, serving) = (Seed::from_number(u64::from(settings)), settings_without_probes());
        let now = Now { moment: Moment::START, wall: UnixMillis(1_800_000_000_000) };
        let worker = Worker::new(config.clone(), &serving, seed, now);
        let head =
            Head { journal: VERSION, program: "fuzz".into(), seed, start: now, config, serving, after: 0, state: None };
        let (recorder, journal) = Recorder::begin(&head).expect("a head");
        Self {
            script,
            worker,
            now,
            wait: None,
            recorder,
            journal,
            outputs: Vec::new(),
            calls: Vec::new(),
            given_up: BTreeSet::new(),
            acks: Vec::new(),
            unconfirmed: Vec::new(),
            issued: 0,
            confirmed: 0,
            promises: BTreeMap::new(),
            removed: BTreeMap::new(),
            removals: 0,
            events: 0,
            stopped: false,
            inputs: 0,
        }
    }

    /// One thing happens. `false` when the bytes are used up.
    pub(super) fn step(&mut self) -> bool {
        if self.script.bytes.is_empty() || self.inputs >= MOST_INPUTS {
            return false;
        }
        let choice = self.script.byte();
        match choice % 32 {
            0..=2 => self.input(Input::Started),
            3 | 4 => self.input(Input::BusUp),
            5 => self.input(Input::BusLost("gone".to_owned())),
            6..=13 => self.event(),
            14 => self.message(),
            15..=21 => self.answer(),
            22 => self.fail(),
            23 | 24 => self.pass(),
            25 => self.jump(),
            26 => self.confirm(),
            27 | 28 => self.ack(),
            29 => self.odd(),
            30 if choice >= 192 => self.input(Input::Shutdown),
            31 if choice >= 224 => self.input(Input::Drained),
            _ => self.input(Input::Tick),
        }
        true
    }

    fn input(&mut self, input: Input) {
        self.input_at(input, self.now);
    }

    fn input_at(&mut self, input: Input, now: Now) {
        self.inputs += 1;
        let line = self.recorder.line(&self.worker, &input, now).expect("a line");
        self.journal.push('\n');
        self.journal.push_str(&line);
        self.worker.handle_input(input, now);
        for _ in 0..MOST_OUTPUTS {
            let output = self.worker.poll_output();
            self.outputs.push(shown::output(&output));
            match output {
                Output::Wait(deadline) => {
                    self.wait = deadline;
                    return;
                }
                Output::Event(_) => {}
                Output::Command(command) => self.carry_out(command),
            }
        }
        panic!("more than {MOST_OUTPUTS} outputs of one input");
    }

    fn carry_out(&mut self, command: Command) {
        assert!(!self.stopped, "{command:?} after the stop");
        match command {
            Command::Call(call) => {
                assert!(call.deadline() > self.now.moment, "a call without time");
                self.calls.push((call, self.removals));
            }
            Command::Abandon(id) => drop(self.given_up.insert(id)),
            Command::Apply(apply) => {
                let generation = apply.view.generation.0;
                assert_eq!(generation, self.issued + 1, "views are numbered one by one");
                self.issued = generation;
                self.unconfirmed.push(generation);
            }
            Command::SendAck(ticket) => self.send_ack(&ticket),
            Command::Stop => self.stopped = true,
            Command::Probe(_) | Command::AbandonProbe(_) => panic!("probes are off"),
            Command::Subscribe | Command::Unsubscribe => {}
        }
    }

    fn send_ack(&mut self, ticket: &AckTicket) {
        self.acks.push(ticket.id);
        let message: Value = serde_json::from_slice(&ticket.message).expect("an ack is JSON");
        let metadata = message["metadata"].as_str().expect("an ack has metadata");
        let metadata: Value = serde_json::from_str(metadata).expect("metadata is JSON");
        let Some(&needed) = metadata["request_id"].as_str().and_then(|id| self.promises.get(id)) else {
            panic!("an ack of no event: {message}");
        };
        let confirmed = self.confirmed;
        assert!(needed <= confirmed, "acked with view {confirmed} in force, needs {needed}: {message}");
    }

    /// A bus event as the coordinator would send it.
    fn event(&mut self) {
        let (number, other) = (self.script.below(3) + 1, self.script.below(3) + 1);
        let (name, mut payload) = announced(self.script.below(7), number, other);
        self.events += 1;
        let request_id = format!("r{}", self.events);
        payload["target_worker_authority"] = json!(AUTHORITY);
        let envelope = json!({
            "name": format!("{name}_event"), "source": "appproxy-coordinator", "payload": payload.to_string(),
            "metadata": json!({"request_id": request_id, "user": null}).to_string(),
        });
        match decode(envelope.to_string().as_bytes(), AUTHORITY) {
            Decoded::Event(event) => self.hear(event),
            other => panic!("{name} is read as {other:?}"),
        }
    }

    fn hear(&mut self, event: BusEvent) {
        if let EventKind::KeyRemoved(key) = &event.kind
            && !self.stopped
        {
            self.removals += 1;
            self.removed.insert(key.clone(), self.removals);
        }
        let request_id = event.request_id.clone();
        // An ack that goes out with the event itself needs whatever view is the newest then.
        self.promises.extend(request_id.clone().map(|id| (id, self.issued)));
        self.input(Input::Bus(event));
        self.promises.extend(request_id.map(|id| (id, self.issued)));
    }

    /// Any bytes, as a message of the bus.
    fn message(&mut self) {
        match decode(&self.script.text(), AUTHORITY) {
            Decoded::Event(mut event) => {
                self.events += 1;
                event.request_id = Some(format!("r{}", self.events));
                self.hear(event);
            }
            Decoded::Malformed(malformed) => self.input(Input::BusMalformed(malformed)),
            Decoded::NotForUs => {}
        }
    }

    fn take_call(&mut self) -> Option<(Call, u64)> {
        let place = self.script.byte();
        (!self.calls.is_empty()).then(|| self.calls.remove(usize::from(place) % self.calls.len()))
    }

    fn answer(&mut self) {
        let Some((call, removals)) = self.take_call() else { return self.input(Input::Tick) };
        let kind = self.script.byte();
        let path = call.request().path_and_query.clone();
        let (status, body) = match kind % 16 {
            0..=9 => (200, good_body(&call, self.script.byte())),
            10 => (200, self.script.text()),
            11 => (304, Vec::new()),
            12 => (404, b"{\"title\": \"gone\"}".to_vec()),
            13 => (401, Vec::new()),
            14 => (u16::from(self.script.byte()) * 3, Vec::new()),
            _ => (500, self.script.text()),
        };
        if status == 200 && path.contains("/router-config") {
            // What this answer lists, was listed after the removals that went before its request.
            self.removed.retain(|_, number| *number > removals);
        }
        let response = CallResponse { status, body: CallBody(body) };
        self.input(Input::CallEnded(call.answered(response)));
    }

    fn fail(&mut self) {
        let Some((call, _)) = self.take_call() else { return };
        let failure = match self.script.below(6) {
            0 => TransportFailure::Refused,
            1 => TransportFailure::TimedOut,
            2 => TransportFailure::Reset,
            3 => TransportFailure::TooLarge,
            4 => TransportFailure::NotHttp,
            _ => TransportFailure::Other("odd".to_owned()),
        };
        self.input(Input::CallEnded(call.failed(failure)));
    }

    /// Time passes, up to the deadline or by some seconds.
    fn pass(&mut self) {
        let millis = match self.script.byte() {
            0..=127 => match self.wait {
                Some(deadline) => deadline.at.since(self.now.moment).as_millis().try_into().unwrap_or(0),
                None => 1,
            },
            some => u64::from(some - 127) * 250,
        };
        self.now.moment = self.now.moment.after(Duration::from_millis(millis));
        self.now.wall.0 = self.now.wall.0.saturating_add(i64::try_from(millis).unwrap_or(0));
        self.input(Input::Tick);
    }

    /// A clock jumps.
    fn jump(&mut self) {
        match self.script.below(6) {
            0 => self.now.wall = UnixMillis(0),
            1 => self.now.wall = UnixMillis(i64::MAX),
            2 => self.now.moment = self.now.moment.after(Duration::from_secs(86_400)),
            3 => self.now.wall.0 = self.now.wall.0.saturating_sub(3_600_000),
            // Back: the worker holds it still.
            4 => {
                let before = Moment::from_millis(self.now.moment.as_millis().saturating_sub(5000));
                return self.input_at(Input::Tick, Now { moment: before, ..self.now });
            }
            _ => self.now.moment = self.now.moment.after(Duration::from_millis(1)),
        }
        self.input(Input::Tick);
    }

    fn confirm(&mut self) {
        if self.unconfirmed.is_empty() {
            return;
        }
        let generation = self.unconfirmed.remove(0);
        self.confirmed = self.confirmed.max(generation);
        self.input(Input::Applied(Generation(generation)));
    }

    fn ack(&mut self) {
        if self.acks.is_empty() {
            return;
        }
        let place = usize::from(self.script.byte()) % self.acks.len();
        let id = self.acks.remove(place);
        let input = if self.script.byte() < 160 { Input::AckSent(id) } else { Input::AckFailed(id) };
        self.input(input);
    }

    /// What no shell should say.
    fn odd(&mut self) {
        let number = u64::from(self.script.byte());
        match self.script.below(4) {
            0 => self.input(Input::AckSent(AckId(number))),
            1 => self.input(Input::AckFailed(AckId(number))),
            // A view that was confirmed already.
            2 => self.input(Input::Applied(Generation(number.min(self.confirmed)))),
            _ => {
                let why = String::from_utf8_lossy(&self.script.text()).into_owned();
                self.input(Input::BusLost(why));
            }
        }
    }

    /// Keys whose removal was heard, and which no later request has brought back.
    pub(super) fn removed(&self) -> impl Iterator<Item = &KeyId> {
        self.removed.keys()
    }
}

/// Probes are health's, and have tests of their own.
fn settings_without_probes() -> ServingSettings {
    ServingSettings { checks: HealthChecks { enabled: false, ..HealthChecks::default() }, ..ServingSettings::default() }
}
