//! What one worker, or a part of it, has counted.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::series::{Durations, Family, Text};
use super::table;
use crate::exchange::{Outcome, Usage};
use crate::serving::ServingView;

/// Counters: plain data. A shell that counts from many threads keeps one for each part of its work, and [adds](Self::add)
/// them up when they are asked for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counts {
    requests: BTreeMap<Request, u64>,
    refusals: Family<1>,
    first_byte: BTreeMap<Arc<str>, Durations>,
    duration: BTreeMap<Arc<str>, Durations>,
    tokens: BTreeMap<Served, Usage>,
    retries: u64,
    fallbacks: u64,
    cut: Family<1>,
    connections_cut: Family<1>,
    reloads: Family<1>,
    credentials_refused: u64,
    ends_lost: u64,
    pub(super) events: Family<2>,
    pub(super) malformed: Family<1>,
    pub(super) pulls: Family<2>,
    pub(super) calls: Family<2>,
    pub(super) notices: Family<1>,
    pub(super) acks: Family<1>,
    pub(super) probes: Family<1>,
    pub(super) ejections: u64,
    pub(super) apply: Durations,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Served {
    backend: Arc<str>,
    model: Arc<str>,
}

impl Served {
    fn is_of(&self, backends: &[Arc<str>], names: &[Arc<str>]) -> bool {
        backends.contains(&self.backend) || names.contains(&self.model)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    served: Served,
    status: u16,
}

impl Counts {
    /// An exchange has ended. `view`: the one in force, whose names alone become labels: what a client sent, or what is
    /// gone, must not add series for ever.
    pub fn exchange(&mut self, outcome: &Outcome, first_byte: Option<Duration>, took: Duration, view: &ServingView) {
        let trail = &outcome.trail;
        let model = match trail.known_model() {
            Some(model) if view.names_model(model) => model.clone(),
            Some(_) => "removed".into(),
            None => "-".into(),
        };
        let backend = match trail.backend() {
            Some(backend) if view.backend(backend).is_some() => backend.clone(),
            Some(_) => "removed".into(),
            None => "-".into(),
        };
        if let Some(first_byte) = first_byte {
            self.first_byte.entry(model.clone()).or_default().observe(first_byte);
        }
        self.duration.entry(model.clone()).or_default().observe(took);
        let served = Served { backend, model };
        if let Some(usage) = outcome.usage {
            self.tokens.entry(served.clone()).or_default().add(usage);
        }
        *self.requests.entry(Request { served, status: outcome.status.as_u16() }).or_default() += 1;
        self.retries += u64::from(trail.attempts().saturating_sub(1));
        self.fallbacks += u64::from(trail.fallback().is_some());
        self.credentials_refused += u64::from(trail.credential_refused().is_some());
        if let Some(code) = outcome.denial {
            self.refused(code.label());
        }
        let end = outcome.end.label();
        if end != "complete" {
            self.cut.count([end.into()], 1);
        }
    }

    /// A request was refused; [`Self::exchange`] counts the refusals that are outcomes.
    pub fn refused(&mut self, reason: &'static str) {
        self.refusals.count([reason.into()], 1);
    }

    /// This worker ended a client's connection.
    pub fn connection_cut(&mut self, why: &'static str) {
        self.connections_cut.count([why.into()], 1);
    }

    pub(super) fn reloaded(&mut self, outcome: &'static str) {
        self.reloads.count([outcome.into()], 1);
    }

    /// The end of an attempt came too fast to be judged.
    pub fn end_lost(&mut self) {
        self.ends_lost += 1;
    }

    /// Drops the series of backends and names that are gone.
    pub fn forget(&mut self, backends: &[Arc<str>], names: &[Arc<str>]) {
        if backends.is_empty() && names.is_empty() {
            return;
        }
        self.requests.retain(|request, _| !request.served.is_of(backends, names));
        self.tokens.retain(|served, _| !served.is_of(backends, names));
        for name in names {
            self.first_byte.remove(name);
            self.duration.remove(name);
        }
    }

    /// Adds another part's counts to these.
    pub fn add(&mut self, other: &Self) {
        for (request, count) in &other.requests {
            *self.requests.entry(request.clone()).or_default() += count;
        }
        for (served, usage) in &other.tokens {
            self.tokens.entry(served.clone()).or_default().add(*usage);
        }
        for (own, others) in [(&mut self.first_byte, &other.first_byte), (&mut self.duration, &other.duration)] {
            others.iter().for_each(|(model, took)| own.entry(model.clone()).or_default().add(took));
        }
        for (own, others) in [
            (&mut self.refusals, &other.refusals),
            (&mut self.cut, &other.cut),
            (&mut self.connections_cut, &other.connections_cut),
            (&mut self.reloads, &other.reloads),
            (&mut self.malformed, &other.malformed),
            (&mut self.notices, &other.notices),
            (&mut self.acks, &other.acks),
            (&mut self.probes, &other.probes),
        ] {
            own.add(others);
        }
        self.events.add(&other.events);
        self.pulls.add(&other.pulls);
        self.calls.add(&other.calls);
        self.apply.add(&other.apply);
        self.retries += other.retries;
        self.fallbacks += other.fallbacks;
        self.credentials_refused += other.credentials_refused;
        self.ends_lost += other.ends_lost;
        self.ejections += other.ejections;
    }

    pub(super) fn write(&self, to: &mut Text) {
        to.begin(table::REQUESTS);
        for (Request { served: Served { backend, model }, status }, count) in &self.requests {
            let labels = [("model", &**model), ("backend", &**backend), ("status", &*status.to_string())];
            to.sample(table::REQUESTS, "_total", &labels, count);
        }
        self.refusals.write(table::REFUSALS, ["reason"], to);
        for (row, by_model) in [(table::FIRST_BYTE, &self.first_byte), (table::DURATION, &self.duration)] {
            to.begin(row);
            by_model.iter().for_each(|(model, took)| took.write(row, &[("model", model)], to));
        }
        to.begin(table::TOKENS);
        for (Served { backend, model }, usage) in &self.tokens {
            for (kind, tokens) in [("input", usage.input), ("output", usage.output)] {
                let labels = [("model", &**model), ("backend", &**backend), ("kind", kind)];
                to.sample(table::TOKENS, "_total", &labels, tokens);
            }
        }
        to.one(table::RETRIES, self.retries);
        to.one(table::FALLBACKS, self.fallbacks);
        self.cut.write(table::ABANDONED, ["by"], to);
        self.connections_cut.write(table::CONNECTIONS_CUT, ["why"], to);
        self.reloads.write(table::RELOADS, ["outcome"], to);
        self.events.write(table::EVENTS, ["event", "outcome"], to);
        self.malformed.write(table::MALFORMED, ["kind"], to);
        self.pulls.write(table::PULLS, ["scope", "outcome"], to);
        self.calls.write(table::CALLS, ["call", "outcome"], to);
        self.notices.write(table::NOTICES, ["code"], to);
        self.acks.write(table::ACKS, ["outcome"], to);
        to.one(table::CREDENTIALS_REFUSED, self.credentials_refused);
        self.probes.write(table::PROBES, ["outcome"], to);
        to.one(table::EJECTIONS, self.ejections);
        to.one(table::ENDS_LOST, self.ends_lost);
        to.begin(table::APPLY);
        self.apply.write(table::APPLY, &[], to);
    }
}
