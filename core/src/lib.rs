//! The deterministic core of an inference worker for Backend.AI's AppProxy: it is told what happened and answers what
//! to do, and touches nothing. No I/O, no clock, no randomness, no threads, no async.
//!
//! # The loop
//!
//! One [`worker::Worker`] is one node. Feed it one [`worker::Input`], then poll outputs until it says
//! [`worker::Output::Wait`]. This is a whole shell for the control plane, with threads and no runtime:
//!
//! ```
//! # #[cfg(feature = "appproxy-router")] {
//! use appproxy_core::{time::{Moment, Now, UnixMillis}, worker::*};
//! use std::{sync::mpsc::{Receiver, Sender}, thread, time::{Duration, Instant, SystemTime}};
//!
//! /// What this shell can do in the world: make a call, ask a replica, publish on the bus, show requests a new state.
//! # #[derive(Clone, Copy)]
//! struct World {
//!     call: fn(&CallRequest) -> CallOutcome,
//!     probe: fn(Probe) -> ProbeEnded,
//!     publish: fn(&[u8]),
//!     show: fn(&Apply),
//! }
//!
//! fn run(mut worker: Worker, world: World, inbox: &Receiver<Input>, outbox: &Sender<Input>) {
//!     let began = Instant::now();
//!     let mut input = Input::Started;
//!     loop {
//!         let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis();
//!         let moment = Moment::from_millis(began.elapsed().as_millis() as u64);
//!         worker.handle_input(input, Now { moment, wall: UnixMillis(wall as i64) });
//!         let deadline = loop {
//!             match worker.poll_output() {
//!                 Output::Wait(deadline) => break deadline,
//!                 Output::Event(event) => println!("{event:?}"),
//!                 Output::Command(Command::Stop) => return,
//!                 Output::Command(Command::Apply(apply)) => {
//!                     (world.show)(&apply); // requests see it from here on: only now may acks go
//!                     outbox.send(Input::Applied(apply.view.generation)).expect("we hold the inbox");
//!                 }
//!                 Output::Command(Command::Call(call)) => {
//!                     let outbox = outbox.clone(); // a call is a ticket: its answer is made from it
//!                     thread::spawn(move || outbox.send(Input::CallEnded(call.perform(world.call))));
//!                 }
//!                 Output::Command(Command::SendAck(ack)) => {
//!                     (world.publish)(&ack.message);
//!                     outbox.send(Input::AckSent(ack.id)).expect("we hold the inbox");
//!                 }
//!                 Output::Command(Command::Probe(probe)) => {
//!                     let outbox = outbox.clone(); // so is a probe: a GET to a replica
//!                     thread::spawn(move || outbox.send(Input::ProbeEnded((world.probe)(probe))));
//!                 }
//!                 Output::Command(Command::Subscribe) => outbox.send(Input::BusUp).expect("we hold the inbox"),
//!                 Output::Command(Command::Unsubscribe | Command::Abandon(_) | Command::AbandonProbe(_)) => {}
//!             }
//!         };
//!         let wait = deadline.map_or(Duration::MAX, |deadline| deadline.at.since(moment));
//!         input = inbox.recv_timeout(wait).unwrap_or(Input::Tick);
//!     }
//! }
//! # // A coordinator that knows one model; the worker joins it, serves, and leaves.
//! # use appproxy_core::{config::worker::*, secret::Secret, seed::Seed, serving::ServingSettings};
//! # use std::sync::{atomic::{AtomicUsize, Ordering}, mpsc::channel};
//! # static SHOWN: AtomicUsize = AtomicUsize::new(0);
//! # let config = WorkerConfig {
//! #     mode: Mode::Router(RouterMode::default()), coordinator_url: "http://coordinator:10200".into(),
//! #     api_secret: Secret::new("secret"), redis_url: Some(Secret::new("redis://valkey:6379/4")), ca_file: None,
//! #     authority: "authority-1".into(), hostname: "router.example.com".into(), tls_listen: false,
//! #     tls_advertised: true, api_port: 8080, traffic_port: 443, heartbeat_period: Duration::from_secs(10),
//! #     reconcile_interval: Duration::from_secs(15), events_enabled: true, event_dialect: EventDialect::Both,
//! #     call_timeout: Duration::from_secs(10), pull_timeout: Duration::from_secs(30), max_staleness: None,
//! # };
//! # let world = World {
//! #     call: |request| {
//! #         let body = match request.path_and_query.rsplit('/').next() {
//! #             Some("worker") => r#"{"id":"0a0a0a0a-0000-4000-8000-000000000001"}"#,
//! #             Some("circuits") => r#"{"circuits":[]}"#,
//! #             Some("router-config") => r#"{"revision":"1","models":[{"model":"m"}],"api_keys":[]}"#,
//! #             _ => r#"{"success":true}"#,
//! #         };
//! #         CallOutcome::Answered(CallResponse { status: 200, body: CallBody(body.into()) })
//! #     },
//! #     probe: |probe| probe.failed(TransportFailure::Refused),
//! #     publish: |_| {},
//! #     show: |apply| { assert!(apply.view.model("m").is_some()); SHOWN.fetch_add(1, Ordering::SeqCst); },
//! # };
//! # let (outbox, inbox) = channel();
//! # let now = Now { moment: Moment::START, wall: UnixMillis(0) };
//! # let worker = Worker::new(config, &ServingSettings::default(), Seed::from_number(1), now);
//! # let leave = outbox.clone();
//! # thread::spawn(move || {
//! #     while SHOWN.load(Ordering::SeqCst) == 0 { thread::yield_now(); }
//! #     leave.send(Input::Drained)
//! # });
//! # run(worker, world, &inbox, &outbox);
//! # assert_eq!(SHOWN.load(Ordering::SeqCst), 1);
//! # }
//! ```
//!
//! # What is where
//!
//! | floor | module | what it is |
//! |---|---|---|
//! | 7 | [`telemetry`] | what an operator gets to see: counts, access lines, the admin listener's answers |
//! | 6 | [`worker`], [`exchange`] | the control plane, one input at a time; one proxied request, states by value |
//! | 5 | [`serving`] | the immutable view that requests read, and how it follows from the desired state |
//! | 4 | [`access`] | keys, rate ledger, address lists, client address, host names and tokens of circuits |
//! | 3 | [`desired`] | circuits x publications -> backends, pure and independent of order |
//! | 2 | [`wire`] | bytes to types and back |
//! | 1 | [`time`] [`seed`] [`limits`] [`backoff`] [`secret`] [`config`] | what everything stands on |
//!
//! # What always holds
//!
//! - The same inputs, times and seed give the same outputs, byte for byte.
//! - Apply, then ack: an ack is handed out only after the shell has said that its view is in force.
//! - A request reads one [`serving::ServingView`]: it never sees half of a change.
//! - A removed key is refused from the moment its removal event, or a pull without it, is applied.
//! - Nothing an outsider sends makes it panic; what is malformed is counted and costs only itself.
//! - Secrets are types that do not print.
//!
//! # The book
//!
//! [`guide`] has the chapters: [how it works](guide::how_it_works), [deploying a ROUTER worker](guide::deploy_router) or
//! [a wildcard worker](guide::deploy_legacy), [several nodes](guide::high_availability), [security](guide::security),
//! [troubleshooting](guide::troubleshooting), [replaying an incident](guide::replaying_an_incident),
//! [compatibility](guide::compatibility) and [every key of the configuration](guide::configuration).
//!
//! # What is not here
//!
//! Sockets, timers, TLS and Redis belong to the driver and its runtime; log lines are written there, from [`worker::Event`]s.
//! No chunk of an answer is kept here. [`embedding`] is the chapter for a shell of your own.

pub mod access;
pub mod backoff;
pub mod command;
pub mod config;
pub mod defects;
pub mod desired;
#[doc = include_str!("../embedding.md")]
pub mod embedding {}
pub mod exchange;
pub mod guide;
pub mod limits;
pub mod secret;
pub mod seed;
pub mod serving;
pub mod telemetry;
pub mod time;
mod trie;
pub mod wire;
#[cfg(feature = "appproxy-common")]
pub mod worker;
