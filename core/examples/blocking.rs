//! A whole ROUTER worker without a runtime: threads, blocking sockets of the standard library, and the core.
//!
//! It joins a development coordinator, serves a request with the key published there, and leaves. `ask`, the fixtures'
//! little HTTP client, stands where your HTTP library would; without a bus, changes come by pull.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a shell does what the core asks for")]
use std::error::Error;
use std::net::Ipv4Addr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use appproxy_core::access::address::Peer;
use appproxy_core::config::{self, worker::WorkerConfig};
use appproxy_core::exchange::{FailStage::Connect, Failure::Broke, *};
use appproxy_core::seed::{Draws, Seed};
use appproxy_core::serving::{ServingSettings, ServingView};
use appproxy_core::time::{Moment, Now, UnixMillis};
use appproxy_core::worker::*;
use appproxy_fixtures::stage::{Demo, Mode, Prepared, ask, ask_http};
use appproxy_fixtures::{Request, Response};

/// What the control loop and the requests share: the state in force, swapped whole.
struct Shell {
    began: Instant,
    config: WorkerConfig,
    rules: ExchangeRules,
    in_force: RwLock<(Arc<ServingView>, Control)>,
    states: States,
}

impl Shell {
    fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
        let moment = Moment::from_millis(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX));
        Now { moment, wall: UnixMillis(i64::try_from(wall).unwrap_or(i64::MAX)) }
    }

    /// The control plane: one input, then all outputs, then wait.
    fn control(&self, mut worker: Worker, inbox: Receiver<Input>, outbox: &Sender<Input>) {
        let mut input = Input::Started;
        loop {
            worker.handle_input(input, self.now());
            let deadline = loop {
                match worker.poll_output() {
                    Output::Wait(deadline) => break deadline,
                    Output::Command(Command::Stop) => return,
                    Output::Command(Command::Apply(apply)) => {
                        self.in_force.write().unwrap_or_else(PoisonError::into_inner).0 = apply.view.clone();
                        drop(outbox.send(Input::Applied(apply.view.generation)));
                    }
                    Output::Command(Command::Call(call)) => {
                        let (outbox, config) = (outbox.clone(), self.config.clone());
                        thread::spawn(move || {
                            drop(outbox.send(Input::CallEnded(call.perform(|ask| carry(&config, ask)))))
                        });
                    }
                    // Without a bus nothing is acked; probes are off below; an abandoned call ends unheard.
                    Output::Event(_) | Output::Command(_) => {}
                }
            };
            let control = Control::Worker { authority: "demo".into(), standing: worker.standing() };
            self.in_force.write().unwrap_or_else(PoisonError::into_inner).1 = control;
            let wait = deadline.map_or(Duration::MAX, |deadline| deadline.at.since(self.now().moment));
            input = inbox.recv_timeout(wait).unwrap_or(Input::Tick);
        }
    }

    /// Lets one step of an exchange see this node, whole and unchanging.
    fn see<T>(&self, step: impl FnOnce(Node<'_>) -> T) -> T {
        let (view, control) = self.in_force.read().unwrap_or_else(PoisonError::into_inner).clone();
        step(Node { rules: &self.rules, view: &view, control: &control, now: self.now(), file_refused: false })
    }

    /// The data plane: a request through its states, by value, one after the other. An error is an answer of our own.
    fn request(&self, request: &Request, outbox: &Sender<Input>) -> Result<Response, Box<Answer>> {
        let (parts, body) = request.to_http().into_parts();
        let from = Connection::new(Peer::Ip(Ipv4Addr::LOCALHOST.into()), false);
        let gate = self.see(|seen| Gate::open(parts, from, seen, &mut self.states.draws()))?;
        let key = gate.ledger_key().cloned();
        let mut ledger = key.as_ref().map(|key| self.states.ledger(key));
        let gated = self.see(|seen| gate.pass(ledger.as_deref_mut(), seen))?;
        drop(ledger);
        let admitted = self.see(|seen| gated.route(body.into(), seen))?;
        let mut choosing = self.see(|seen| admitted.begin(&mut self.states.budget(), seen));
        loop {
            thread::sleep(choosing.not_before().map_or(Duration::ZERO, |at| at.since(self.now().moment)));
            let pool = choosing.pool().clone();
            let chosen = self.see(|seen| choosing.choose(&mut self.states.selection(&pool), seen))?;
            choosing = match chosen {
                Chosen::Elsewhere(next) => next,
                Chosen::Queue(queued) => queued.again(),
                Chosen::Send(attempt) => match ask_http(attempt.request().map(|body| body.into_frames().concat())) {
                    Ok((head, body)) => match self.see(|seen| attempt.head(head, &mut self.states.budget(), seen))? {
                        Head::Commit(mut committed, head) => {
                            committed.passed(&body);
                            let outcome = committed.ended(EndOfBody::Complete);
                            outcome.ends().for_each(|end| drop(outbox.send(Input::ExchangeEnded(end.clone()))));
                            return Ok(Response { status: head.status.as_u16(), headers: head.headers, body });
                        }
                        Head::Again(next) => next,
                        Head::Explain(explained) => return Err(explained.body(Some(body.into()))),
                    },
                    Err(_) => self.see(|seen| attempt.failed(Connect, Broke, &mut self.states.budget(), seen))?,
                },
            };
            choosing.take_ended().into_iter().for_each(|end| drop(outbox.send(Input::ExchangeEnded(end))));
        }
    }
}

/// One call to the coordinator.
fn carry(config: &WorkerConfig, asked: &CallRequest) -> CallOutcome {
    let mut request = Request::new(asked.method.clone(), &asked.path_and_query).with_token(config.api_secret.expose());
    request.body = asked.body.clone().unwrap_or_default().into_bytes();
    match ask(config.coordinator_url.trim_start_matches("http://"), request) {
        Ok(Response { status, body, .. }) => CallOutcome::Answered(CallResponse { status, body: CallBody(body) }),
        Err(_) => CallOutcome::Failed(TransportFailure::Refused),
    }
}

/// Joins, serves one request, leaves.
pub fn main() -> Result<(), Box<dyn Error>> {
    let Prepared { demo: _demo, configuration, .. } = Demo::prepare(0, Mode::Router)?;
    let loaded = config::load(&(configuration + "health_checks: {enabled: false}\n"), &|_| None)?.config;
    let (rules, settings) = (ExchangeRules::from(&loaded), ServingSettings::from(&loaded));
    let config = loaded.worker.ok_or("no worker is configured")?;
    let worker = Worker::new(config.clone(), &settings, Seed::from_number(1), Now::default()); // take a random one
    let in_force = RwLock::new((worker.view().clone(), Control::Unknown));
    let (began, states) = (Instant::now(), States::new(Draws::new(Seed::from_number(2))));
    let shell = Shell { began, config, rules, in_force, states };
    let (outbox, inbox) = channel();
    thread::scope(|scope| {
        scope.spawn(|| shell.control(worker, inbox, &outbox));
        let chat = serde_json::json!({"model": "demo-chat", "messages": []});
        let request = Request::post("/v1/chat/completions", &chat)
            .with_header("authorization", "Bearer sk-demo")
            .with_header("host", "demo");
        let mut answer = shell.request(&request, &outbox);
        while matches!(&answer, Err(refused) if refused.status == 503) {
            thread::sleep(Duration::from_millis(10)); // the first pull is on its way
            answer = shell.request(&request, &outbox);
        }
        outbox.send(Input::Drained)?;
        let answer = answer.map_err(|refused| format!("refused: {}", refused.status))?;
        println!("{} {}", answer.status, answer.value());
        answer.value().get("choices").map(|_| ()).ok_or_else(|| "no answer of a replica".into())
    })
}
