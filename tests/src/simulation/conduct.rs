//! How a worker behaves towards its coordinator and the bus: what it sends, when, and what it must not send
//! (worker-protocol 1; 3.3, rules 2, 4, 6 to 9).

use appproxy_core::config::worker::WorkerConfig;

use super::broken::{Broken, must};
use super::reference::Reference;

/// What a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// PUT.
    Register,
    /// PATCH.
    Heartbeat,
    /// GET circuits.
    Circuits,
    /// GET router-config.
    Config,
    /// DELETE.
    Leave,
}

impl Purpose {
    /// What a request is for.
    #[must_use]
    pub fn of(method: &str, path_and_query: &str) -> Self {
        match method {
            "PUT" => Self::Register,
            "PATCH" => Self::Heartbeat,
            "DELETE" => Self::Leave,
            _ if path_and_query.contains("/router-config") => Self::Config,
            _ => Self::Circuits,
        }
    }
}

/// What became of a call, as far as conduct goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// 200 (or 304) with a body that can be used.
    Good,
    /// The coordinator does not know the worker.
    NotFound,
    /// Nothing but an operator can mend it: 401, 403, and 400, 422 to a PUT.
    Hopeless,
    /// The connection was refused.
    Refused,
    /// Anything else.
    Bad,
}

/// The shortest wait after `tries` failures of a back-off up to `longest`, in milliseconds.
fn shortest_wait(tries: u32, longest: u64) -> u64 {
    (500_u64 << tries.saturating_sub(1).min(16)).min(longest) / 2
}

const LONGEST_REGISTER: u64 = 30_000;

/// What one process has done so far, and what it may do next. Times in milliseconds.
#[derive(Debug)]
pub struct Conduct {
    started: u64,
    subscribe_asked: bool,
    bus_was_up: bool,
    puts: u64,
    put_failures: u32,
    /// Why a PUT may be sent, and from when on; `None`: it may not.
    put_from: Option<u64>,
    rejoins: u32,
    rejoin_from: u64,
    /// Since when the worker is registered, as far as it knows.
    pub registered_at: Option<u64>,
    config_applied: bool,
    deleted: bool,
    may_delete: bool,
    beat_sent: u64,
    pull_sent: u64,
    pull_waits: bool,
    guard_due: Option<u64>,
    resubscribed_due: Option<u64>,
    bus_failures: u32,
    bus_up_at: Option<u64>,
    subscribe_from: u64,
    call_timeout: u64,
    pull_timeout: u64,
    heartbeat: u64,
    reconcile: u64,
}

impl Conduct {
    /// A process that starts now.
    #[must_use]
    pub fn new(config: &WorkerConfig, now: u64) -> Self {
        let millis = |duration: core::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self {
            started: now,
            subscribe_asked: false,
            bus_was_up: false,
            puts: 0,
            put_failures: 0,
            put_from: Some(now),
            rejoins: 0,
            rejoin_from: 0,
            registered_at: None,
            config_applied: false,
            deleted: false,
            may_delete: true,
            beat_sent: 0,
            pull_sent: 0,
            pull_waits: false,
            guard_due: None,
            resubscribed_due: None,
            bus_failures: 0,
            bus_up_at: None,
            subscribe_from: now,
            call_timeout: millis(config.call_timeout),
            pull_timeout: millis(config.pull_timeout),
            heartbeat: millis(config.heartbeat_period),
            reconcile: millis(config.reconcile_interval),
        }
    }

    /// The worker subscribes.
    ///
    /// # Errors
    /// When it does so too soon.
    pub fn subscribes(&mut self, now: u64) -> Result<(), Broken> {
        self.subscribe_asked = true;
        let from = self.subscribe_from;
        must(now >= from, "the bus is asked again with a growing back-off", || format!("at {now}, not before {from}"))
    }

    /// The subscription stands.
    pub const fn bus_up(&mut self, now: u64) {
        if self.bus_was_up {
            self.resubscribed_due = Some(now + 1_000);
        }
        self.bus_was_up = true;
        self.bus_up_at = Some(now);
    }

    /// The subscription is gone, or was not made.
    pub fn bus_lost(&mut self, now: u64) {
        if self.bus_up_at.take().is_some_and(|at| now >= at + 10_000) {
            self.bus_failures = 0;
        }
        self.bus_failures += 1;
        self.subscribe_from = now + shortest_wait(self.bus_failures, 10_000);
        self.resubscribed_due = None;
    }

    /// A call is sent.
    ///
    /// # Errors
    /// When it may not be.
    pub fn sends(
        &mut self,
        purpose: Purpose,
        path: &str,
        now: u64,
        reference: &Reference,
        leaving: (bool, bool),
        notice_waits: bool,
    ) -> Result<(), Broken> {
        let (shutdown, drained) = leaving;
        let after_delete = self.deleted && purpose != Purpose::Leave;
        must(!after_delete, "nothing is sent after the DELETE", || format!("{purpose:?} {path}"))?;
        match purpose {
            Purpose::Register => {
                if self.puts == 0 {
                    let waited = self.subscribe_asked && (self.bus_was_up || now >= self.started + 2_000);
                    must(waited, "at start the bus comes first, for two seconds at most", || format!("PUT at {now}"))?;
                }
                must(!shutdown, "no PUT from shutdown on", || format!("at {now}"))?;
                let from = self.put_from;
                must(from.is_some(), "no PUT without need", || format!("at {now}"))?;
                let waits = from.is_some_and(|from| now >= from);
                must(waits, "registrations have a growing back-off", || format!("at {now}, not before {from:?}"))?;
                self.puts += 1;
                self.put_from = None;
            }
            Purpose::Heartbeat => self.beat_sent = now,
            Purpose::Circuits => self.pull_sent = now,
            Purpose::Config => {
                self.pull_sent = now;
                if let Some((_, revision)) = path.split_once("known_revision=") {
                    self.conditional(revision, now, reference, notice_waits)?;
                }
            }
            Purpose::Leave => {
                must(drained, "DELETE comes after the last request has ended", || format!("at {now}"))?;
                must(self.may_delete, "one DELETE, and again only if the connection was refused", || {
                    format!("at {now}")
                })?;
                (self.deleted, self.may_delete) = (true, false);
            }
        }
        Ok(())
    }

    fn conditional(&self, revision: &str, now: u64, reference: &Reference, notice_waits: bool) -> Result<(), Broken> {
        let rule = "known_revision is sent only while the state is that snapshot and no key notice waits";
        let is_that = reference.clean.as_deref() == Some(revision);
        must(is_that && !notice_waits, rule, || format!("{revision} against {:?}", reference.clean))?;
        must(self.config_applied, "the first pull of a registration is unconditional", || revision.to_owned())?;
        let whole = reference.whole_at + 600_000;
        must(now < whole, "at least every ten minutes the parameter is left out", || format!("at {now}"))
    }

    /// A pull is under way.
    pub fn pulls(&mut self, full: bool, circuits: bool, now: u64) {
        self.pull_waits = false;
        if full {
            self.resubscribed_due = None;
        }
        if circuits && self.guard_due.is_some_and(|due| now >= due) {
            self.guard_due = None;
        }
    }

    /// A call that somebody waits for has ended.
    pub fn ended(&mut self, purpose: Purpose, ending: Ending, now: u64) {
        match (purpose, ending) {
            (Purpose::Register, Ending::Good) => {
                (self.put_failures, self.put_from) = (0, None);
                self.registered_at = Some(now);
                self.config_applied = false;
                (self.beat_sent, self.pull_sent) = (now, now);
            }
            (Purpose::Register, ending) => {
                self.put_failures += 1;
                let hopeless = ending == Ending::Hopeless;
                let tries = if hopeless { u32::MAX } else { self.put_failures };
                self.put_from = Some(now + shortest_wait(tries, LONGEST_REGISTER));
            }
            (Purpose::Leave, ending) => self.may_delete = ending == Ending::Refused,
            (_, Ending::NotFound) => {
                let planned = self.rejoin_from.max(now);
                self.rejoins += 1;
                self.rejoin_from = planned + shortest_wait(self.rejoins, LONGEST_REGISTER);
                self.put_from = Some(planned);
                self.registered_at = None;
                (self.guard_due, self.pull_waits) = (None, false);
            }
            _ => {}
        }
    }

    /// A pull came to nothing.
    pub const fn pull_failed(&mut self) {
        self.pull_waits = true;
    }

    /// A pull was applied.
    pub fn pull_applied(&mut self, full: bool, config: bool, guarded_until: Option<u64>, now: u64) {
        self.config_applied |= config;
        if full {
            self.rejoins = 0;
        }
        if let Some(until) = guarded_until {
            self.guard_due = self.guard_due.max(Some(now.max(until + 1)));
        }
    }

    /// The input at hand is over.
    ///
    /// # Errors
    /// When something that was due has not been sent.
    pub fn check_due(&self, now: u64, flying: bool, notice: bool, drained: bool) -> Result<(), Broken> {
        let Some(since) = self.registered_at.filter(|_| !drained && !self.deleted) else { return Ok(()) };
        let beat = self.beat_sent + self.heartbeat.max(self.call_timeout) + self.heartbeat + 1_000;
        must(now <= beat, "heartbeats go on, whatever fails", || format!("last one at {}", self.beat_sent))?;
        let pull = self.pull_sent + self.pull_timeout + 2 * self.reconcile + 1_000;
        must(now <= pull, "pulls go on, whatever fails", || format!("last one at {}", self.pull_sent))?;
        if flying || self.pull_waits {
            return Ok(());
        }
        must(!notice, "a key notice triggers a pull", || format!("{self:?}"))?;
        let overdue = |due: Option<u64>| due.is_some_and(|due| now > due.max(since) + 1);
        must(!overdue(self.guard_due), "a pull follows a guard that overruled an answer", || format!("{self:?}"))?;
        must(!overdue(self.resubscribed_due), "a full pull follows every later subscription", || format!("{self:?}"))
    }
}
