//! The control loop: carries out what the core asks for, and tells it what happened. It decides nothing.

use core::future::pending;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use appproxy_core::exchange::{Control as Situation, ExchangeRules};
use appproxy_core::serving::{Reconfigured, Testimony};
use appproxy_core::worker::journal::shown;
use appproxy_core::worker::{Apply, CallId, Command, Deadline, Input, Output, ProbeId, TransportFailure, Worker};
use async_channel::{Receiver, Sender, unbounded};
use futures_util::FutureExt;

use crate::bus::{Bus, Subscription};
use crate::calls::Coordinator;
use crate::journal::Journal;
use crate::node::Node;
use crate::observe::Observer;
use crate::part::or;
use crate::prober::Prober;
use crate::publish::Publisher;
use crate::runtime::{Runtime, Timer};

/// Whom the worker speaks to.
pub(crate) struct Peers<R> {
    /// The coordinator, and the authority that is served for it; `None` in a plain router.
    pub(crate) coordinator: Option<(Coordinator, Arc<str>)>,
    pub(crate) bus: Option<Bus>,
    pub(crate) prober: Prober<R>,
}

/// What is under way, by name.
#[derive(PartialEq, Eq, Hash)]
enum Ticket {
    Call(CallId),
    Probe(ProbeId),
}

/// What this process tells its control loop.
pub(crate) enum Order {
    /// That it leaves, and that it has drained.
    Tell(Input),
    /// That the configuration is another one; hung up on when it is in force.
    Configure(Box<Reconfigured>, Arc<ExchangeRules>, Sender<()>),
}

/// The core's worker and everything that waits for it.
pub(crate) struct Control<R: Runtime> {
    worker: Worker,
    node: Arc<Node<R>>,
    peers: Peers<R>,
    subscription: Option<Subscription<R>>,
    publisher: Option<Publisher<R>>,
    /// Calls and probes under way. The core bounds their number: one call per purpose, and likewise probes.
    tasks: HashMap<Ticket, R::Task<()>>,
    /// How both end.
    ended: (Sender<Input>, Receiver<Input>),
    /// What requests met at the backends.
    said: Receiver<Testimony>,
    orders: Receiver<Order>,
    /// Rules that go into force with the next view, or without one if nothing in it changes.
    rules: Option<Arc<ExchangeRules>>,
    /// Inputs that follow from carrying out commands, fed before anything else.
    pending: VecDeque<Input>,
    /// Who is asked last, the next time: neither of two floods keeps the other out.
    turn: bool,
    observer: Observer,
    journal: Option<Journal>,
}

impl<R: Runtime> Control<R> {
    /// Puts the parts together; nothing runs yet.
    pub(crate) fn new(
        worker: Worker,
        node: Arc<Node<R>>,
        peers: Peers<R>,
        said: Receiver<Testimony>,
        orders: Receiver<Order>,
        journal: Option<Journal>,
    ) -> Self {
        let publisher = peers.bus.as_ref().map(Publisher::start);
        Self {
            worker,
            node,
            peers,
            subscription: None,
            publisher,
            tasks: HashMap::new(),
            ended: unbounded(),
            said,
            orders,
            rules: None,
            pending: VecDeque::from([Input::Started]),
            turn: false,
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
                    let (ticket, made) = (Ticket::Call(call.id()), coordinator.clone().make::<R>(call));
                    self.start(ticket, async { Input::CallEnded(made.await) });
                }
                None => {
                    let failure = TransportFailure::Other("there is no coordinator".to_owned());
                    self.pending.push_back(Input::CallEnded(call.failed(failure)));
                }
            },
            Command::Probe(probe) => {
                let (ticket, made) = (Ticket::Probe(probe.id()), self.peers.prober.clone().make(probe));
                self.start(ticket, async { Input::ProbeEnded(made.await) });
            }
            Command::Abandon(id) => drop(self.tasks.remove(&Ticket::Call(id))),
            Command::AbandonProbe(id) => drop(self.tasks.remove(&Ticket::Probe(id))),
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

    /// A call or probe that is dropped, or whose task meets a fault, has no answer; the core's own deadline covers it.
    fn start(&mut self, ticket: Ticket, ends: impl Future<Output = Input> + Send + 'static) {
        let tell = self.ended.0.clone();
        self.tasks.insert(ticket, R::spawn(async move { drop(tell.try_send(ends.await)) }));
    }

    /// Waits for the next thing to happen.
    async fn next(&mut self, deadline: Option<Deadline>) -> Order {
        // The clock decides, not the timer: whatever else keeps us busy, a deadline that has come is told.
        let clock = self.node.clock;
        while deadline.is_none_or(|deadline| clock.moment() < deadline.at) {
            let due = deadline.map(|deadline| clock.instant(deadline.at));
            let timer = async {
                match due {
                    Some(due) => drop(R::Timer::at(due).await),
                    None => pending().await,
                }
                None
            };
            self.turn = !self.turn;
            let ended = told(&self.ended.1, Order::Tell);
            let said = told(&self.said, |said| Order::Tell(Input::from(said)));
            let heard = next_of(self.subscription.as_ref().map(Subscription::next));
            let sent = next_of(self.publisher.as_ref().map(Publisher::next));
            let input = either_way(self.turn, either_way(self.turn, ended, said), either_way(self.turn, heard, sent));
            let order = or(told(&self.orders, |order| order), input);
            let Some(order) = or(order.map(Some), timer).await else { continue };
            match &order {
                Order::Tell(Input::CallEnded(ended)) => drop(self.tasks.remove(&Ticket::Call(ended.id()))),
                Order::Tell(Input::ProbeEnded(ended)) => drop(self.tasks.remove(&Ticket::Probe(ended.id()))),
                Order::Tell(Input::BusLost(_)) => self.subscription = None,
                _ => {}
            }
            return order;
        }
        Order::Tell(Input::Tick)
    }
}

/// The first of two, asked in this order or the other way round.
async fn either_way<T>(turned: bool, a: impl Future<Output = T>, b: impl Future<Output = T>) -> T {
    if turned { or(b, a).await } else { or(a, b).await }
}

async fn told<T>(by: &Receiver<T>, order: impl Fn(T) -> Order) -> Order {
    match by.recv().await {
        Ok(told) => order(told),
        Err(_) => pending().await,
    }
}

async fn next_of(source: Option<impl Future<Output = Input>>) -> Order {
    match source {
        Some(next) => Order::Tell(next.await),
        None => pending().await,
    }
}
