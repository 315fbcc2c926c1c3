//! The control loop: carries out what the core asks for, and tells it what happened. It decides nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use appproxy_core::exchange::Control as Situation;
use appproxy_core::worker::{Apply, CallEnded, CallId, Command, Deadline, Input, Output, Worker};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep_until;

use crate::bus::{Bus, Subscription};
use crate::coordinator::Coordinator;
use crate::node::Node;
use crate::observe::Observer;
use crate::publish::Publisher;

/// The core's worker and everything that waits for it.
pub(crate) struct Control {
    worker: Worker,
    node: Arc<Node>,
    authority: Arc<str>,
    coordinator: Coordinator,
    bus: Option<Bus>,
    subscription: Option<Subscription>,
    publisher: Option<Publisher>,
    /// Calls under way. Their number is bounded by the core: one per purpose.
    calls: JoinSet<CallEnded>,
    running: HashMap<CallId, AbortHandle>,
    /// What this process tells the core: that it leaves, and that it has drained.
    orders: mpsc::Receiver<Input>,
    /// Inputs that follow from carrying out commands, fed before anything else.
    pending: VecDeque<Input>,
    observer: Observer,
}

impl Control {
    /// Puts the parts together; nothing runs yet.
    pub(crate) fn new(
        worker: Worker,
        node: Arc<Node>,
        authority: Arc<str>,
        coordinator: Coordinator,
        bus: Option<Bus>,
        orders: mpsc::Receiver<Input>,
    ) -> Self {
        let publisher = bus.as_ref().map(Publisher::start);
        Self {
            worker,
            node,
            authority,
            coordinator,
            bus,
            subscription: None,
            publisher,
            calls: JoinSet::new(),
            running: HashMap::new(),
            orders,
            pending: VecDeque::from([Input::Started]),
            observer: Observer::default(),
        }
    }

    /// Runs until the core says stop.
    pub(crate) async fn run(mut self) {
        while let Some(deadline) = self.settle() {
            let input = self.next(deadline).await;
            self.feed(input);
        }
    }

    fn feed(&mut self, input: Input) {
        self.worker.handle_input(input, self.node.clock.now());
    }

    /// Drains the core, feeding what follows at once, until it waits; `None` when it is done for good.
    fn settle(&mut self) -> Option<Option<Deadline>> {
        loop {
            let wait = loop {
                match self.worker.poll_output() {
                    Output::Command(Command::Stop) => return None,
                    Output::Command(command) => self.carry_out(command),
                    Output::Event(event) => {
                        self.observer.event(&event, &self.node.metrics, self.node.clock.moment());
                    }
                    Output::Wait(deadline) => break deadline,
                }
            };
            let (authority, standing) = (self.authority.clone(), self.worker.standing());
            self.node.set_situation(Situation::Worker { authority, standing });
            match self.pending.pop_front() {
                Some(input) => self.feed(input),
                None => return Some(wait),
            }
        }
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Apply(Apply { view, changes }) => {
                let (began, generation) = (Instant::now(), view.generation);
                self.node.apply(&view, &changes);
                self.node.metrics.apply.observe(began.elapsed().as_secs_f64());
                self.pending.push_back(Input::Applied(generation));
            }
            Command::Call(call) => {
                let id = call.id();
                let task = self.calls.spawn(self.coordinator.clone().make(call));
                self.running.insert(id, task);
            }
            Command::Abandon(id) => {
                if let Some(task) = self.running.remove(&id) {
                    task.abort();
                }
            }
            Command::SendAck(ticket) => {
                let (id, publisher) = (ticket.id, self.publisher.as_ref());
                self.pending
                    .extend(publisher.map_or(Some(Input::AckFailed(id)), |publisher| publisher.publish(ticket)));
            }
            Command::Subscribe => self.subscription = self.bus.as_ref().map(Bus::subscribe),
            Command::Unsubscribe => self.subscription = None,
            // `settle` ends at it before it comes here.
            Command::Stop => {}
        }
    }

    /// Waits for the next thing to happen.
    async fn next(&mut self, deadline: Option<Deadline>) -> Input {
        let due = deadline.map(|deadline| self.node.clock.instant(deadline.at));
        loop {
            // The clock decides, not the timer: whatever else keeps us busy, a deadline that has come is told.
            if deadline.is_some_and(|deadline| self.node.clock.moment() >= deadline.at) {
                return Input::Tick;
            }
            tokio::select! {
                Some(order) = self.orders.recv() => return order,
                Some(ended) = self.calls.join_next(), if !self.calls.is_empty() => {
                    // A call that was aborted, or whose task panicked, has no answer; the core's own deadline covers it.
                    if let Ok(ended) = ended {
                        self.running.remove(&ended.id());
                        return Input::CallEnded(ended);
                    }
                }
                input = heard(&mut self.subscription) => {
                    if matches!(input, Input::BusLost(_)) {
                        self.subscription = None;
                    }
                    return input;
                }
                Some(result) = published(&mut self.publisher) => return result,
                () = sleep_until(due.unwrap_or_else(tokio::time::Instant::now)), if due.is_some() => {}
            }
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
