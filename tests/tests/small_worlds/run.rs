//! One real worker being told things.

use core::time::Duration;
use std::sync::Arc;

use appproxy_core::config::health::HealthChecks;
use appproxy_core::config::worker::{EventDialect, Mode, RouterMode, WorkerConfig};
use appproxy_core::secret::Secret;
use appproxy_core::seed::Seed;
use appproxy_core::serving::{ServingSettings, ServingView};
use appproxy_core::time::{Moment, Now, UnixMillis};
use appproxy_core::wire::event::BusEvent;
use appproxy_core::worker::{Call, CallBody, CallResponse, Command, Deadline, Input, Output, Worker};
use appproxy_fixtures::ids::named;

use crate::automaton::{Ack, Asked, Content, Did, Standing, Told};
use crate::coordinator::{AUTHORITY, Revision, circuit_id, key_id, model_name};
use crate::fingerprint::{Fingerprint, of_worker};

/// Replicas are not what these histories are about: none is probed.
fn settings() -> ServingSettings {
    let checks = HealthChecks { enabled: false, ..HealthChecks::default() };
    ServingSettings { checks, ..ServingSettings::default() }
}

/// A worker, and the shell around it.
pub(crate) struct Run {
    worker: Worker,
    now: Now,
    wait: Option<Deadline>,
    view: Option<Arc<ServingView>>,
    /// An apply has been asked for and not been carried out yet.
    applying: bool,
    calls: Vec<Call>,
    did: Did,
}

/// No heartbeat and no settled bus within a history; periodic pulls quickly enough for the guard to last over two.
fn config() -> WorkerConfig {
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
        heartbeat_period: Duration::from_secs(3600),
        reconcile_interval: Duration::from_secs(1),
        events_enabled: true,
        event_dialect: EventDialect::Payload,
        call_timeout: Duration::from_secs(10),
        pull_timeout: Duration::from_secs(30),
        max_staleness: None,
    }
}

impl Run {
    /// Registered, with its first pull under way.
    pub(crate) fn new() -> Self {
        let now = Now { moment: Moment::START, wall: UnixMillis(0) };
        let mut run = Self {
            worker: Worker::new(config(), &settings(), Seed::from_number(1), now),
            now,
            wait: None,
            view: None,
            applying: false,
            calls: Vec::new(),
            did: Did::default(),
        };
        run.input(Input::Started);
        run.input(Input::BusUp);
        run
    }

    pub(crate) fn event(&mut self, event: &BusEvent) -> Did {
        self.input(Input::Bus(event.clone()))
    }

    /// Answers the request for circuits, or the one for router-config.
    pub(crate) fn answer(&mut self, circuits: bool, status: u16, body: &[u8]) -> Did {
        let at = self.calls.iter().position(|call| call.request().path_and_query.ends_with("/circuits") == circuits);
        let Some(at) = at else { panic!("nothing was asked for") };
        let response = CallResponse { status, body: CallBody(body.to_vec()) };
        let ended = self.calls.remove(at).answered(response);
        self.input(Input::CallEnded(ended))
    }

    /// Lets the time pass up to the next deadline.
    pub(crate) fn wake(&mut self) -> Did {
        if let Some(deadline) = self.wait {
            self.now.moment = self.now.moment.max(deadline.at);
        }
        self.input(Input::Tick)
    }

    fn input(&mut self, input: Input) -> Did {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            self.applying &= !matches!(input, Input::Applied(_));
            self.worker.handle_input(input, self.now);
            loop {
                match self.worker.poll_output() {
                    Output::Wait(deadline) => {
                        self.wait = deadline;
                        break;
                    }
                    Output::Event(_) => {}
                    Output::Command(command) => inputs.extend(self.command(command)),
                }
            }
        }
        core::mem::take(&mut self.did)
    }

    fn command(&mut self, command: Command) -> Option<Input> {
        match command {
            Command::Apply(apply) => {
                let generation = apply.view.generation;
                self.view = Some(apply.view);
                self.applying = true;
                return Some(Input::Applied(generation));
            }
            Command::Call(call) => return self.call(call),
            Command::Abandon(id) => {
                self.calls.retain(|call| call.id() != id);
                self.did.gave_up = true;
            }
            Command::SendAck(ticket) => {
                self.did.hasty |= self.applying;
                self.did.acks.push(ack(&ticket.about));
                return Some(Input::AckSent(ticket.id));
            }
            Command::Probe(probe) => panic!("nobody is to be probed: {probe:?}"),
            Command::AbandonProbe(_) | Command::Subscribe | Command::Unsubscribe | Command::Stop => {}
        }
        None
    }

    /// Registrations and heartbeats are answered at once, pulls when the history says so.
    fn call(&mut self, call: Call) -> Option<Input> {
        let request = call.request();
        if request.method != "GET" {
            let body = format!("{{\"id\":\"{}\"}}", named(1, "worker"));
            let response = CallResponse { status: 200, body: CallBody(body.into_bytes()) };
            return Some(Input::CallEnded(call.answered(response)));
        }
        self.did.asked.push(match request.path_and_query.split_once("router-config") {
            None => Asked::Circuits,
            Some((_, query)) => Asked::Config(query.strip_prefix("?known_revision=").and_then(Revision::parse)),
        });
        self.calls.push(call);
        None
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        of_worker(&self.worker, self.now)
    }

    pub(crate) fn standing(&self, from: Option<(usize, Told)>) -> Standing {
        let desired = self.worker.desired();
        let circuit = |i| desired.circuits().keys().any(|id| id.0 == circuit_id(i));
        let model = |i| self.view.as_ref().is_some_and(|view| view.model(model_name(i)).is_some());
        let key = |i| desired.keys().keys().any(|id| id.as_str() == key_id(i));
        let there = [[circuit(0), circuit(1)], [model(0), model(1)], [key(0), key(1)]];
        let from_now = |deadline: Deadline| {
            let millis = deadline.at.since(self.now.moment).as_millis();
            (deadline.reason, u64::try_from(millis).unwrap_or(u64::MAX))
        };
        Standing::new(self.wait.map(from_now), there, Content::of(desired, self.view.as_ref()), from)
    }
}

/// The ack that a ticket is about.
fn ack(about: &str) -> Ack {
    let known = (0..2).flat_map(|i| {
        [
            (format!("1 circuit(s), first {}", circuit_id(i)), Ack::Circuit(i)),
            (format!("model {}", model_name(i)), Ack::Model(i)),
            (format!("key {}", key_id(i)), Ack::Key(i)),
        ]
    });
    let ack = known.into_iter().find(|(words, _)| words == about).map(|(_, ack)| ack);
    ack.unwrap_or_else(|| panic!("an ack about {about}"))
}
