//! A whole ROUTER worker without a runtime: threads, blocking sockets of the standard library, and the core.
//!
//! It joins a development coordinator, serves a request with the key published there, and leaves. `ask`, the few lines of
//! HTTP that the fixtures bring, stands where your HTTP library would; there is no bus, so changes come by pull.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this is a shell: it does what the core asks for"
)]

use std::error::Error;
use std::net::Ipv4Addr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use appproxy_core::access::address::Peer;
use appproxy_core::config::{self, Config};
use appproxy_core::exchange::*;
use appproxy_core::seed::{Draws, Seed};
use appproxy_core::serving::{ServingSettings, ServingView};
use appproxy_core::time::{Moment, Now, UnixMillis};
use appproxy_core::worker::*;
use appproxy_fixtures::stage::{Demo, Prepared, ask};
use appproxy_fixtures::{Request, Response};

/// What the control loop and the requests share: the state in force, swapped whole.
struct Shell {
    began: Instant,
    config: Config,
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
    fn control(&self, mut worker: Worker, inbox: &Receiver<Input>, outbox: &Sender<Input>) {
        let mut input = Input::Started;
        loop {
            worker.handle_input(input, self.now());
            let deadline = loop {
                match worker.poll_output() {
                    Output::Wait(deadline) => break deadline,
                    Output::Event(event) => println!("{event:?}"),
                    Output::Command(Command::Stop) => return,
                    Output::Command(Command::Apply(apply)) => {
                        self.in_force.write().unwrap_or_else(PoisonError::into_inner).0 = apply.view.clone();
                        drop(outbox.send(Input::Applied(apply.view.generation)));
                    }
                    Output::Command(Command::Call(call)) => {
                        let (outbox, config) = (outbox.clone(), self.config.clone());
                        // A call is a ticket: its answer is made from it.
                        thread::spawn(move || {
                            outbox.send(Input::CallEnded(call.perform(|asked| carry(&config, asked))))
                        });
                    }
                    // Without a bus nothing is acked; probes are off below; an abandoned call ends unheard.
                    Output::Command(_) => {}
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
        step(Node { rules: &self.rules, view: &view, control: &control, now: self.now() })
    }

    /// The data plane: a request through its states, by value, one after the other. An error is an answer of our own.
    fn request(&self, request: &Request, outbox: &Sender<Input>) -> Result<Response, Box<Answer>> {
        let mut parts = http::Request::new(()).into_parts().0;
        (parts.method, parts.headers) = (request.method.clone(), request.headers.clone());
        parts.uri = request.path_and_query.parse().unwrap_or_default();
        let from = Connection { peer: Peer::Ip(Ipv4Addr::LOCALHOST.into()), tls: false };
        let gate = self.see(|seen| Gate::open(parts, from, seen, &mut self.states.draws()))?;
        let gated = match gate.ledger_key().cloned() {
            Some(key) => self.see(|seen| gate.pass(Some(&mut self.states.ledger(&key)), seen))?,
            None => self.see(|seen| gate.pass(None, seen))?,
        };
        let admitted = self.see(|seen| gated.route(request.body.clone().into(), seen))?;
        let mut choosing = self.see(|seen| admitted.begin(&mut self.states.budget(), seen));
        loop {
            thread::sleep(choosing.not_before().map_or(Duration::ZERO, |at| at.since(self.now().moment)));
            let pool = choosing.pool().clone();
            let chosen = self.see(|seen| choosing.choose(&mut self.states.selection(&pool), seen))?;
            choosing = match chosen {
                Chosen::Elsewhere(next) => next,
                Chosen::Queue(queued) => queued.again(),
                Chosen::Send(attempt, request) => match send(request) {
                    Ok((head, body)) => match self.see(|seen| attempt.head(head, &mut self.states.budget(), seen))? {
                        Head::Commit(mut committed, head) => {
                            committed.passed(&body);
                            let outcome = committed.ended(EndOfBody::Complete);
                            // Health hears of every end; an access line could be written here.
                            outcome.ends().for_each(|end| drop(outbox.send(Input::ExchangeEnded(end.clone()))));
                            return Ok(Response { status: head.status.as_u16(), headers: head.headers, body });
                        }
                        Head::Again(next) => next,
                    },
                    Err(_) => self.see(|seen| {
                        attempt.failed(FailStage::Connect, Failure::Broke, &mut self.states.budget(), seen)
                    })?,
                },
            };
            choosing.take_ended().into_iter().for_each(|end| drop(outbox.send(Input::ExchangeEnded(end))));
        }
    }
}

/// One call to the coordinator.
fn carry(config: &Config, asked: &CallRequest) -> CallOutcome {
    let Some(worker) = &config.worker else { return CallOutcome::Failed(TransportFailure::Refused) };
    let mut request = Request::new(asked.method.clone(), &asked.path_and_query).with_token(worker.api_secret.expose());
    request.body = asked.body.clone().unwrap_or_default().into_bytes();
    match ask(worker.coordinator_url.trim_start_matches("http://"), request) {
        Ok(Response { status, body, .. }) => CallOutcome::Answered(CallResponse { status, body: CallBody(body) }),
        Err(_) => CallOutcome::Failed(TransportFailure::Refused),
    }
}

/// One request to a replica.
fn send(request: http::Request<Payload>) -> std::io::Result<(http::response::Parts, Vec<u8>)> {
    let (parts, payload) = request.into_parts();
    let peer = parts.uri.authority().map_or("", |peer| peer.as_str());
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let body = payload.into_frames().concat();
    let answer =
        ask(peer, Request { method: parts.method, path_and_query: path.into(), headers: parts.headers, body })?;
    let mut head = http::Response::new(()).into_parts().0;
    (head.status, head.headers) = (answer.status.try_into().map_err(std::io::Error::other)?, answer.headers);
    Ok((head, answer.body))
}

/// Joins, serves one request, leaves.
pub fn main() -> Result<(), Box<dyn Error>> {
    let Prepared { demo: _demo, configuration, .. } = Demo::prepare(0)?;
    let config = config::load(&(configuration + "health_checks: {enabled: false}\n"), &|_| None)?.config;
    let of_worker = config.worker.clone().ok_or("the demo's configuration has a worker")?;
    // A program that serves takes its seeds from the system.
    let worker = Worker::new(of_worker, &ServingSettings::from(&config), Seed::from_number(1), Now::default());
    let (rules, in_force) = (ExchangeRules::from(&config), RwLock::new((worker.view().clone(), Control::Unknown)));
    let states = States::new(Draws::new(Seed::from_number(2)));
    let shell = Shell { began: Instant::now(), config, rules, in_force, states };
    let (outbox, inbox) = channel();
    thread::scope(|scope| {
        scope.spawn(|| shell.control(worker, &inbox, &outbox));
        let chat = serde_json::json!({"model": "demo-chat", "messages": [{"role": "user", "content": "Hello"}]});
        let request = Request::post("/v1/chat/completions", &chat).with_header("authorization", "Bearer sk-demo");
        let answer = loop {
            match shell.request(&request, &outbox) {
                // The first pull is on its way.
                Err(refused) if refused.status == 503 => thread::sleep(Duration::from_millis(10)),
                answered => break answered,
            }
        };
        outbox.send(Input::Shutdown)?;
        outbox.send(Input::Drained)?;
        let answer = answer.map_err(|refused| format!("refused: {}", refused.status))?;
        println!("{} {}", answer.status, String::from_utf8_lossy(&answer.body));
        if answer.status == 200 { Ok(()) } else { Err("no answer of a replica".into()) }
    })
}
