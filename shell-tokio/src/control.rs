//! The control loop: carries out what the core asks for, and tells it what happened. It decides nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use appproxy_core::exchange::{Control as Situation, ExchangeRules};
use appproxy_core::serving::{Reconfigured, Testimony};
use appproxy_core::worker::journal::shown;
use appproxy_core::worker::{
    Apply, CallEnded, CallId, Command, Deadline, Input, Output, ProbeEnded, ProbeId, TransportFailure, Worker,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep_until;

use crate::bus::{Bus, Subscription};
use crate::coordinator::Coordinator;
use crate::journal::Journal;
use crate::node::Node;
use crate::observe::Observer;
use crate::prober::Prober;
use crate::publish::Publisher;

/// Whom the worker speaks to.
pub(crate) struct Peers {
    /// The coordinator, and the authority that is served for it; `None` in a plain router.
    pub(crate) coordinator: Option<(Coordinator, Arc<str>)>,
    pub(crate) bus: Option<Bus>,
    pub(crate) prober: Prober,
}

/// What this process tells its control loop.
pub(crate) enum Order {
    /// That it leaves, and that it has drained.
    Tell(Input),
    /// That the configuration is another one; hung up on when it is in force.
    Configure(Box<Reconfigured>, Arc<ExchangeRules>, oneshot::Sender<()>),
}

/// The core's worker and everything that waits for it.
pub(crate) struct Control {
    worker: Worker,
    node: Arc<Node>,
    peers: Peers,
    subscription: Option<Subscription>,
    publisher: Option<Publisher>,
    /// Calls under way. Their number is bounded by the core: one per purpose.
    calls: JoinSet<CallEnded>,
    running: HashMap<CallId, AbortHandle>,
    /// Probes under way, bounded by the core as well.
    probes: JoinSet<ProbeEnded>,
    probing: HashMap<ProbeId, AbortHandle>,
    /// What requests met at the backends.
    said: mpsc::Receiver<Testimony>,
    orders: mpsc::Receiver<Order>,
    /// Rules that go into force with the next view, or without one if nothing in it changes.
    rules: Option<Arc<ExchangeRules>>,
    /// Inputs that follow from carrying out commands, fed before anything else.
    pending: VecDeque<Input>,
    observer: Observer,
    journal: Option<Journal>,
}

impl Control {
    /// Puts the parts together; nothing runs yet.
    pub(crate) fn new(
        worker: Worker,
        node: Arc<Node>,
        peers: Peers,
        said: mpsc::Receiver<Testimony>,
        orders: mpsc::Receiver<Order>,
        journal: Option<Journal>,
    ) -> Self {
        let publisher = peers.bus.as_ref().map(Publisher::start);
        Self {
            worker,
            node,
            peers,
            subscription: None,
            publisher,
            calls: JoinSet::new(),
            running: HashMap::new(),
            probes: JoinSet::new(),
            probing: HashMap::new(),
            said,
            orders,
            rules: None,
            pending: VecDeque::from([Input::Started]),
            observer: Observer::default(),
            journal,
        }
    }

    /// Runs until the core says stop.
    pub(crate) async fn run(mut self) {
        let mut configured = None;
        while let Some(deadline) = self.settle() {
            drop(configured.take());
            match self.next(deadline).await {
                Order::Tell(input) => self.feed(input),
                Order::Configure(settings, rules, done) => {
                    (self.rules, configured) = (Some(rules), Some(done));
                    self.feed(Input::Configured(settings));
                }
            }
        }
    }

    fn feed(&mut self, input: Input) {
        let now = self.node.clock.now();
        if let Some(wrong) = self.journal.as_mut().and_then(|journal| journal.record(&self.worker, &input, now)) {
            self.observer.journal_failed(&wrong, &self.node.metrics);
        }
        self.worker.handle_input(input, now);
    }

    /// Drains the core, feeding what follows at once, until it waits; `None` when it is done for good.
    fn settle(&mut self) -> Option<Option<Deadline>> {
        loop {
            let wait = loop {
                let output = self.worker.poll_output();
                if tracing::enabled!(tracing::Level::TRACE) {
                    tracing::trace!("output {}", shown::output(&output));
                }
                match output {
                    Output::Command(Command::Stop) => return None,
                    Output::Command(command) => self.carry_out(command),
                    Output::Event(event) => {
                        self.observer.event(&event, &self.node.metrics, self.node.clock.moment());
                    }
                    Output::Wait(deadline) => break deadline,
                }
            };
            let standing = self.worker.standing();
            self.node.set_situation(match &self.peers.coordinator {
                Some((_, authority)) => Situation::Worker { authority: authority.clone(), standing },
                None => Situation::Alone { leaving: standing.leaving },
            });
            match self.pending.pop_front() {
                Some(input) => self.feed(input),
                None => {
                    self.rules.take().into_iter().for_each(|rules| self.node.rule(rules, None));
                    self.journal.iter().for_each(Journal::flush);
                    return Some(wait);
                }
            }
        }
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Apply(Apply { view, changes }) => {
                let (began, generation) = (Instant::now(), view.generation);
                self.node.apply(&view, self.rules.take(), &changes);
                self.node.metrics.counts().applied(began.elapsed());
                self.observer.applied(&view, &changes);
                self.pending.push_back(Input::Applied(generation));
            }
            Command::Call(call) => match &self.peers.coordinator {
                Some((coordinator, _)) => {
                    let id = call.id();
                    let task = self.calls.spawn(coordinator.clone().make(call));
                    self.running.insert(id, task);
                }
                None => {
                    let failure = TransportFailure::Other("there is no coordinator".to_owned());
                    self.pending.push_back(Input::CallEnded(call.failed(failure)));
                }
            },
            Command::Abandon(id) => {
                if let Some(task) = self.running.remove(&id) {
                    task.abort();
                }
            }
            Command::Probe(probe) => {
                let id = probe.id();
                let task = self.probes.spawn(self.peers.prober.clone().make(probe));
                self.probing.insert(id, task);
            }
            Command::AbandonProbe(id) => {
                if let Some(task) = self.probing.remove(&id) {
                    task.abort();
                }
            }
            Command::SendAck(ticket) => {
                let (id, publisher) = (ticket.id, self.publisher.as_ref());
                self.pending
                    .extend(publisher.map_or(Some(Input::AckFailed(id)), |publisher| publisher.publish(ticket)));
            }
            Command::Subscribe => self.subscription = self.peers.bus.as_ref().map(Bus::subscribe),
            Command::Unsubscribe => self.subscription = None,
            // `settle` ends at it before it comes here.
            Command::Stop => {}
        }
    }

    /// Waits for the next thing to happen.
    async fn next(&mut self, deadline: Option<Deadline>) -> Order {
        let due = deadline.map(|deadline| self.node.clock.instant(deadline.at));
        loop {
            // The clock decides, not the timer: whatever else keeps us busy, a deadline that has come is told.
            if deadline.is_some_and(|deadline| self.node.clock.moment() >= deadline.at) {
                return Order::Tell(Input::Tick);
            }
            let input = tokio::select! {
                Some(order) = self.orders.recv() => return order,
                Some(ended) = self.calls.join_next(), if !self.calls.is_empty() => {
                    // A call that was aborted, or whose task panicked, has no answer; the core's own deadline covers it.
                    let Ok(ended) = ended else { continue };
                    self.running.remove(&ended.id());
                    Input::CallEnded(ended)
                }
                Some(ended) = self.probes.join_next(), if !self.probes.is_empty() => {
                    let Ok(ended) = ended else { continue };
                    self.probing.remove(&ended.id());
                    Input::ProbeEnded(ended)
                }
                Some(said) = self.said.recv() => said.into(),
                input = heard(&mut self.subscription) => {
                    if matches!(input, Input::BusLost(_)) {
                        self.subscription = None;
                    }
                    input
                }
                Some(result) = published(&mut self.publisher) => result,
                () = sleep_until(due.unwrap_or_else(tokio::time::Instant::now)), if due.is_some() => continue,
            };
            return Order::Tell(input);
        }
    }
}

async fn heard(subscription: &mut Option<Subscription>) -> Input {
    match subscription {
        Some(subscription) => subscription.next().await,
        None => std::future::pending().await,
    }
}

async fn published(publisher: &mut Option<Publisher>) -> Option<Input> {
    match publisher {
        Some(publisher) => publisher.next().await,
        None => std::future::pending().await,
    }
}
