//! The subscription: lost, asked for again, and what follows when it stands (worker-protocol 3.3, rules 4, 5).
//!
//! Noticing that it is lost (a closed stream, pings without an answer) is the shell's part; when to try again is ours.

use core::time::Duration;

use super::Worker;
use super::defects::{Defect, has};
use super::lifecycle::Lifecycle;
use super::output::{Command, Severity, WakeReason};
use super::pull::Scope;
use super::report::Trouble;
use crate::backoff::Backoff;

/// A subscription must stand this long before its back-off starts over.
const SETTLED: Duration = Duration::from_secs(10);
/// The longest wait before subscribing again.
const LONGEST: Duration = Duration::from_secs(10);
/// The pull after a subscription is spread over this, so that the nodes of an authority do not all ask at once.
const PULL_JITTER: Duration = Duration::from_secs(1);

/// The subscription's state.
#[derive(Debug)]
pub(super) struct Bus {
    pub(super) up: bool,
    /// Counts subscriptions: a pull sent under one of them may have seen what it will never say again.
    pub(super) subscription: u64,
    backoff: Backoff,
}

impl Bus {
    pub(super) const fn new() -> Self {
        Self { up: false, subscription: 0, backoff: Backoff::new(LONGEST) }
    }
}

impl Worker {
    pub(super) fn bus_up(&mut self) {
        if self.bus.up || self.lifecycle == Lifecycle::Left {
            return;
        }
        self.bus.up = true;
        self.bus.subscription += 1;
        if has(Defect::BusBackoffStartsOver) {
            self.bus.backoff.reset();
        }
        self.timers.cancel(WakeReason::Resubscribe);
        self.timers.arm(WakeReason::BusSettled, self.now.moment.after(SETTLED));
        self.trouble_over(Trouble::Bus);
        if self.lifecycle == Lifecycle::AwaitingBus {
            self.timers.cancel(WakeReason::BusWait);
            self.register();
        } else if !has(Defect::NoPullAfterSubscription) {
            let jitter = self.draws.duration_below(PULL_JITTER);
            self.timers.arm(WakeReason::ResubscribedPull, self.now.moment.after(jitter));
        }
    }

    pub(super) fn bus_lost(&mut self, why: &str) {
        if self.lifecycle == Lifecycle::Left || !self.config.events_enabled {
            return;
        }
        self.bus.up = false;
        self.timers.cancel(WakeReason::BusSettled);
        self.timers.cancel(WakeReason::ResubscribedPull);
        self.acks.bus_lost();
        let wait = self.bus.backoff.next(&mut self.draws);
        self.timers.arm(WakeReason::Resubscribe, self.now.moment.after(wait));
        let text = format!("the event bus is lost: {why}; changes come by pull, at most reconcile_interval late");
        self.trouble(Trouble::Bus, Severity::Warning, text);
    }

    pub(super) fn bus_timer(&mut self, reason: WakeReason) {
        match reason {
            WakeReason::BusWait if self.lifecycle == Lifecycle::AwaitingBus => self.register(),
            WakeReason::Resubscribe if !self.bus.up => self.outputs.command(Command::Subscribe),
            WakeReason::BusSettled => self.bus.backoff.reset(),
            WakeReason::ResubscribedPull => self.pull(Scope::Full),
            _ => {}
        }
    }
}
