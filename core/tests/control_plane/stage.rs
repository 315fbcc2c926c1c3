//! A stage for one worker: carries out its commands by hand, in simulated time.

use std::sync::Arc;
use std::time::Duration;

use appproxy_core::config::worker::{EventDialect, Mode, RouterMode, WorkerConfig};
use appproxy_core::secret::Secret;
use appproxy_core::seed::Seed;
use appproxy_core::serving::{ServingSettings, ServingView};
use appproxy_core::time::{Moment, Now, UnixMillis};
use appproxy_core::wire::envelope;
use appproxy_core::wire::event::Decoded;
use appproxy_core::worker::{
    AckTicket, Call, CallBody, CallId, CallResponse, Command, Deadline, Event, Input, Output, Probe, TransportFailure,
    Worker,
};
use serde_json::{Value, json};

use crate::journalled::Journalled;

pub(crate) const AUTHORITY: &str = "authority-1";
pub(crate) const WORKER: &str = "0a0a0a0a-0000-4000-8000-000000000001";

pub(crate) struct Stage {
    pub(crate) worker: Worker,
    pub(crate) now: Now,
    pub(crate) calls: Vec<Call>,
    pub(crate) probes: Vec<Probe>,
    pub(crate) acks: Vec<AckTicket>,
    pub(crate) events: Vec<Event>,
    pub(crate) subscribes: usize,
    pub(crate) abandoned: Vec<CallId>,
    pub(crate) stopped: bool,
    pub(crate) view: Option<Arc<ServingView>>,
    pub(crate) applies: usize,
    pub(crate) wait: Option<Deadline>,
    /// Whether `Applied` follows `Apply` by itself.
    pub(crate) confirm_applies: bool,
    journal: Journalled,
}

pub(crate) fn config() -> WorkerConfig {
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

impl Stage {
    pub(crate) fn new(config: WorkerConfig) -> Self {
        Self::with(config, &ServingSettings::default())
    }

    pub(crate) fn with(config: WorkerConfig, settings: &ServingSettings) -> Self {
        let now = Now { moment: Moment::START, wall: UnixMillis(1_800_000_000_000) };
        let journal = Journalled::begin(&config, settings, Seed::from_number(7), now);
        let worker = Worker::new(config, settings, Seed::from_number(7), now);
        Self {
            worker,
            now,
            calls: Vec::new(),
            probes: Vec::new(),
            acks: Vec::new(),
            events: Vec::new(),
            subscribes: 0,
            abandoned: Vec::new(),
            stopped: false,
            view: None,
            applies: 0,
            wait: None,
            confirm_applies: true,
            journal,
        }
    }

    /// Started, subscribed, registered, first pull applied with these circuits and this snapshot.
    pub(crate) fn serving(circuits: Value, snapshot: Value) -> Self {
        let mut stage = Self::new(config());
        stage.join(circuits, snapshot);
        stage
    }

    pub(crate) fn join(&mut self, circuits: Value, snapshot: Value) {
        self.input(Input::Started);
        self.input(Input::BusUp);
        self.register();
        self.answer_call("/circuits", 200, &json!({ "circuits": circuits }));
        self.answer_call("/router-config", 200, &snapshot);
        self.events.clear();
    }

    pub(crate) fn input(&mut self, input: Input) {
        self.journal.input(&self.worker, &input, self.now);
        self.worker.handle_input(input, self.now);
        self.drain();
    }

    fn drain(&mut self) {
        let mut applied = None;
        loop {
            let output = self.worker.poll_output();
            self.journal.output(&output);
            match output {
                Output::Wait(deadline) => {
                    self.wait = deadline;
                    break;
                }
                Output::Event(event) => self.events.push(event),
                Output::Command(command) => match command {
                    Command::Subscribe => self.subscribes += 1,
                    Command::Apply(apply) => {
                        self.applies += 1;
                        applied = Some(apply.view.generation);
                        self.view = Some(apply.view);
                    }
                    Command::Call(call) => self.calls.push(call),
                    Command::Abandon(id) => {
                        self.abandoned.push(id);
                        self.calls.retain(|call| call.id() != id);
                    }
                    Command::Probe(probe) => self.probes.push(probe),
                    Command::AbandonProbe(id) => self.probes.retain(|probe| probe.id() != id),
                    Command::SendAck(ticket) => self.acks.push(ticket),
                    Command::Unsubscribe => {}
                    Command::Stop => self.stopped = true,
                },
            }
        }
        if let (Some(generation), true) = (applied, self.confirm_applies) {
            self.input(Input::Applied(generation));
        }
    }

    /// The journal so far.
    pub(crate) fn journal(&self) -> &str {
        self.journal.text()
    }

    /// The head of a journal's part that would begin now.
    pub(crate) fn checkpoint(&self) -> String {
        self.journal.checkpoint(&self.worker)
    }

    /// Lets time pass, waking the worker at each of its deadlines.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now.moment.after(time);
        while let Some(deadline) = self.wait.filter(|deadline| deadline.at <= end) {
            self.set_moment(deadline.at.max(self.now.moment));
            self.input(Input::Tick);
        }
        self.set_moment(end);
        self.input(Input::Tick);
    }

    fn set_moment(&mut self, moment: Moment) {
        let passed = moment.since(self.now.moment);
        self.now = Now { moment, wall: UnixMillis(self.now.wall.0 + passed.as_millis() as i64) };
    }

    /// Takes the one call whose path holds `path`.
    #[track_caller]
    pub(crate) fn take(&mut self, path: &str) -> Call {
        let at = self.calls.iter().position(|call| call.request().path_and_query.contains(path));
        let at = at.unwrap_or_else(|| panic!("no call to {path} among {:?}", self.paths()));
        self.calls.remove(at)
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.calls.iter().map(|call| format!("{} {}", call.request().method, call.request().path_and_query)).collect()
    }

    #[track_caller]
    pub(crate) fn answer_call(&mut self, path: &str, status: u16, body: &Value) {
        let call = self.take(path);
        self.answer(call, status, body);
    }

    pub(crate) fn answer(&mut self, call: Call, status: u16, body: &Value) {
        let body = if status == 304 { Vec::new() } else { body.to_string().into_bytes() };
        self.input(Input::CallEnded(call.answered(CallResponse { status, body: CallBody(body) })));
    }

    #[track_caller]
    pub(crate) fn fail_call(&mut self, path: &str, failure: TransportFailure) {
        let call = self.take(path);
        self.input(Input::CallEnded(call.failed(failure)));
    }

    /// Answers the PUT and the heartbeat that follows.
    #[track_caller]
    pub(crate) fn register(&mut self) {
        self.answer_call("/api/worker", 200, &json!({"id": WORKER, "accepted_traffics": ["inference"]}));
        let heartbeat = self.calls.iter().position(|call| call.request().method == "PATCH").expect("a heartbeat");
        let heartbeat = self.calls.remove(heartbeat);
        self.answer(heartbeat, 200, &json!({}));
    }

    /// Publishes an event in the payload dialect, as the coordinator does.
    #[track_caller]
    pub(crate) fn event(&mut self, name: &str, fields: &Value) {
        let mut payload = fields.clone();
        payload["target_worker_authority"] = json!(AUTHORITY);
        let envelope = json!({
            "name": format!("appproxy_{name}_event"), "source": "appproxy-coordinator",
            "payload": payload.to_string(), "metadata": "{\"request_id\":null,\"user\":null}",
        });
        match envelope::decode(envelope.to_string().as_bytes(), AUTHORITY) {
            Decoded::Event(event) => self.input(Input::Bus(event)),
            Decoded::Malformed(malformed) => self.input(Input::BusMalformed(malformed)),
            Decoded::NotForUs => panic!("{name} is not for us"),
        }
    }

    /// The acks since the last call, in words.
    pub(crate) fn take_acks(&mut self) -> Vec<String> {
        let acks = core::mem::take(&mut self.acks);
        let words = acks.iter().map(|ack| ack.about.clone()).collect();
        for ack in acks {
            self.input(Input::AckSent(ack.id));
        }
        words
    }

    pub(crate) fn serves(&self, model: &str) -> bool {
        self.view.as_ref().is_some_and(|view| view.model(model).is_some())
    }

    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.worker.desired().keys().keys().any(|id| id.as_str() == key)
    }

    pub(crate) fn has_circuit(&self, n: u32) -> bool {
        self.worker.desired().circuits().keys().any(|id| id.to_string() == circuit_id(n))
    }

    /// The notices with this code since the start of the stage (or since `events` was cleared).
    pub(crate) fn notices(&self, wanted: &str) -> Vec<String> {
        let texts = self.events.iter().filter_map(|event| match event {
            Event::Notice { code, text, .. } if code == wanted => Some(text.clone()),
            _ => None,
        });
        texts.collect()
    }
}

pub(crate) fn circuit_id(n: u32) -> String {
    format!("c0000000-0000-4000-8000-{n:012}")
}

pub(crate) fn endpoint_id(n: u32) -> String {
    format!("e0000000-0000-4000-8000-{n:012}")
}

/// A whole circuit of endpoint `n` with one replica.
pub(crate) fn circuit(n: u32) -> Value {
    json!({
        "id": circuit_id(n), "app": "", "protocol": "http", "worker": WORKER, "app_mode": "inference",
        "frontend_mode": "router", "envs": {}, "arguments": null, "open_to_public": false,
        "allowed_client_ips": null, "port": null, "subdomain": null, "user_id": null,
        "endpoint_id": endpoint_id(n), "runtime_variant": "vllm", "session_ids": [],
        "created_at": null, "updated_at": null,
        "route_info": [{
            "route_id": format!("70000000-0000-4000-8000-{n:012}"), "session_id": WORKER, "session_name": null,
            "kernel_host": "10.0.0.1", "kernel_port": 30000 + n, "protocol": "http", "traffic_ratio": 1.0,
        }],
    })
}

pub(crate) fn model(name: &str, endpoint: u32) -> Value {
    json!({"model": name, "mappings": [{"endpoint_id": endpoint_id(endpoint), "ratio": 1.0}]})
}

pub(crate) fn key(id: &str) -> Value {
    let hash: String = id.bytes().cycle().take(32).map(|byte| format!("{byte:02x}")).collect();
    json!({"key_id": id, "token_hash": hash, "allowed_models": []})
}

pub(crate) fn snapshot(revision: &str, models: Vec<Value>, keys: Vec<Value>) -> Value {
    json!({"revision": revision, "models": models, "api_keys": keys})
}

pub(crate) const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}
