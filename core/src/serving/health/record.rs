//! One backend by its probes: thresholds and warm-up (data-plane 4).

use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::Health;
use super::traffic::Traffic;
use crate::config::health::HealthChecks;
use crate::desired::Backend;
use crate::time::Moment;

/// What a probe says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeSign {
    /// An answer below 500; a 200 with a model list teaches the names the backend serves, in its order.
    Good(Option<Arc<[Arc<str>]>>),
    /// 503: not there yet.
    Unavailable,
    /// No answer in time, none at all, or another one from 500 on.
    Bad,
}

/// Where a backend is. A changed address is another process: its record starts clean.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Address {
    tls: bool,
    host: Arc<str>,
    port: u16,
    base_path: Arc<str>,
}

impl Address {
    fn of(backend: &Backend) -> Self {
        let Backend { tls, host, port, base_path, .. } = backend;
        Self { tls: *tls, host: host.clone(), port: *port, base_path: base_path.clone() }
    }

    fn is_of(&self, backend: &Backend) -> bool {
        (self.tls, self.port) == (backend.tls, backend.port)
            && self.host == backend.host
            && self.base_path == backend.base_path
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Probed {
    Unknown,
    Ready,
    WarmingUp { since: Moment },
    Down,
}

/// What is known of one backend.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record {
    address: Address,
    probed: Probed,
    good: u32,
    bad: u32,
    /// It warmed up for too long and has only said 503 since: it stays down.
    spent: bool,
    /// An operator took it out.
    #[serde(default)]
    pub(super) drained: bool,
    pub(super) traffic: Traffic,
    pub(super) served: Option<Arc<[Arc<str>]>>,
}

impl Record {
    pub(super) fn new(backend: &Backend) -> Self {
        Self {
            address: Address::of(backend),
            probed: Probed::Unknown,
            good: 0,
            bad: 0,
            spent: false,
            drained: false,
            traffic: Traffic::default(),
            served: None,
        }
    }

    pub(super) fn is_of(&self, backend: &Backend) -> bool {
        self.address.is_of(backend)
    }

    pub(super) const fn health(&self) -> Health {
        match self.probed {
            _ if self.drained => Health::Drained,
            Probed::Down => Health::Down,
            Probed::WarmingUp { .. } => Health::WarmingUp,
            Probed::Unknown | Probed::Ready if self.traffic.quarantined() => Health::Quarantined,
            Probed::Unknown => Health::Unknown,
            Probed::Ready => Health::Ready,
        }
    }

    /// It is probed no more.
    pub(super) const fn unasked(&mut self) {
        (self.probed, self.good, self.bad, self.spent) = (Probed::Unknown, 0, 0, false);
    }

    pub(super) fn take_sign(&mut self, sign: ProbeSign, now: Moment, checks: &HealthChecks) {
        match sign {
            ProbeSign::Good(served) => {
                (self.good, self.bad, self.spent) = (self.good.saturating_add(1), 0, false);
                self.probed = match self.probed {
                    Probed::Unknown | Probed::Ready => Probed::Ready,
                    waiting if self.good < checks.healthy_threshold => waiting,
                    Probed::WarmingUp { .. } | Probed::Down => Probed::Ready,
                };
                if served.is_some() {
                    self.served = served;
                }
            }
            ProbeSign::Unavailable => {
                self.good = 0;
                self.probed = match self.probed {
                    Probed::WarmingUp { since } if now.since(since) >= checks.max_warmup_duration => {
                        self.spent = true;
                        Probed::Down
                    }
                    Probed::WarmingUp { since } => {
                        self.bad = 0;
                        Probed::WarmingUp { since }
                    }
                    Probed::Down if self.spent => Probed::Down,
                    // It has served: one answer alone changes nothing.
                    Probed::Ready => {
                        if self.one_more_bad(checks) {
                            self.begin_warm_up(now)
                        } else {
                            Probed::Ready
                        }
                    }
                    Probed::Unknown | Probed::Down => self.begin_warm_up(now),
                };
            }
            ProbeSign::Bad => {
                (self.good, self.spent) = (0, false);
                if self.one_more_bad(checks) {
                    self.probed = Probed::Down;
                }
            }
        }
    }

    const fn begin_warm_up(&mut self, now: Moment) -> Probed {
        self.bad = 0;
        Probed::WarmingUp { since: now }
    }

    /// Whether that makes enough of them.
    const fn one_more_bad(&mut self, checks: &HealthChecks) -> bool {
        self.bad = self.bad.saturating_add(1);
        self.bad >= checks.unhealthy_threshold
    }

    /// Time from one probe to the next. One that warms up, or has begun to come back, is asked more often.
    pub(super) fn wait(&self, checks: &HealthChecks) -> Duration {
        match self.probed {
            Probed::WarmingUp { .. } => checks.warmup_check_interval,
            Probed::Down if self.good > 0 => checks.warmup_check_interval.min(checks.interval),
            Probed::Unknown | Probed::Ready | Probed::Down => checks.interval,
        }
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
