//! The records of all backends.

use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::record::{ProbeSign, Record};
use super::traffic::ExchangeEnded;
use super::{Health, HealthChange, HealthCounts, Roster};
use crate::config::health::{HealthChecks, Passive};
use crate::desired::Backend;
use crate::time::Moment;

/// What the view shows of a record.
#[derive(Debug, Clone, Default)]
pub(in crate::serving) struct Known {
    pub(in crate::serving) health: Health,
    /// `None`: no list was seen yet.
    pub(in crate::serving) served: Option<Arc<[Arc<str>]>>,
}

/// One record for each backend of the view, static ones included.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Book {
    checks: HealthChecks,
    passive: Passive,
    records: BTreeMap<Arc<str>, Record>,
    /// Ends of quarantines.
    releases: BTreeSet<(Moment, Arc<str>)>,
    counts: HealthCounts,
    /// Backends whose form in the view differs from their record.
    stale: BTreeSet<Arc<str>>,
    news: Vec<HealthChange>,
    roster: Roster,
}

impl Book {
    pub(in crate::serving) fn new(checks: HealthChecks, passive: Passive) -> Self {
        Self { checks, passive, ..Self::default() }
    }

    pub(in crate::serving) const fn checks(&self) -> &HealthChecks {
        &self.checks
    }

    pub(in crate::serving) const fn passive(&self) -> &Passive {
        &self.passive
    }

    /// Judges otherwise from now on. `wanted` and `wants` say for whom probes were wanted, and for whom they are. Other
    /// checks begin a round of their own; what is not asked any more is not held to what it answered.
    pub(in crate::serving) fn configure(
        &mut self,
        checks: HealthChecks,
        passive: Passive,
        wanted: impl Fn(&Arc<str>) -> bool,
        wants: impl Fn(&Arc<str>) -> bool,
    ) {
        let others = self.checks != checks;
        let was_on = core::mem::replace(&mut self.checks, checks).enabled;
        self.passive = passive;
        let names: Vec<Arc<str>> = self.records.keys().cloned().collect();
        for name in names {
            let (before, now) = (was_on && wanted(&name), self.checks.enabled && wants(&name));
            if before && (others || !now) && !self.roster.came.remove(&name) {
                self.roster.gone.insert(name.clone());
            }
            if now && (others || !before) {
                self.roster.came.insert(name.clone());
            }
            if before && !now {
                let from = self.known(&name).health;
                if let Some(record) = self.records.get_mut(&name) {
                    record.unasked();
                }
                self.settle(&name, from, "not_probed");
            }
        }
    }

    pub(in crate::serving) const fn counts(&self) -> HealthCounts {
        self.counts
    }

    /// What is known of a backend that is in the view from now on; `probed`: whether probes are wanted for it.
    pub(in crate::serving) fn admit(&mut self, backend: &Backend, probed: bool) -> Known {
        if self.records.get(&backend.name).is_some_and(|record| !record.is_of(backend)) {
            let from = self.drop_record(&backend.name);
            if from != Health::Unknown {
                let (backend, to) = (backend.name.clone(), Health::Unknown);
                self.news.push(HealthChange { backend, from, to, why: "moved".into() });
            }
        }
        if !self.records.contains_key(&backend.name) {
            self.records.insert(backend.name.clone(), Record::new(backend));
            *self.counts.place(Health::Unknown) += 1;
            if probed && self.checks.enabled {
                self.roster.came.insert(backend.name.clone());
            }
        }
        self.known(&backend.name)
    }

    pub(in crate::serving) fn known(&self, name: &str) -> Known {
        let known = |record: &Record| Known { health: record.health(), served: record.served.clone() };
        self.records.get(name).map(known).unwrap_or_default()
    }

    /// The backend left the view.
    pub(in crate::serving) fn forget(&mut self, name: &Arc<str>) {
        if self.records.contains_key(name) {
            self.drop_record(name);
        }
    }

    /// Takes in a probe's result; the time until the next one. `None`: the backend is not here any more.
    pub(in crate::serving) fn take_sign(&mut self, name: &str, sign: ProbeSign, now: Moment) -> Option<Duration> {
        let (name, record) = entry(&mut self.records, name)?;
        let (from, served) = (record.health(), record.served.clone());
        record.take_sign(sign, now, &self.checks);
        let wait = record.wait(&self.checks);
        if record.served != served {
            self.stale.insert(name.clone());
        }
        self.settle(&name, from, "probe");
        Some(wait)
    }

    /// Takes in what live traffic saw; whether it calls for a quarantine.
    pub(in crate::serving) fn take_end(&mut self, ended: &ExchangeEnded) -> bool {
        let Some((name, record)) = entry(&mut self.records, &ended.backend) else { return false };
        let (verdict, before) = (ended.end.verdict(), record.traffic.until());
        match record.health() {
            Health::Quarantined => {
                let after = record.traffic.note_meanwhile(verdict, ended.began, &self.passive);
                if let (Some(before), Some(after)) = (before, after)
                    && before != after
                {
                    self.releases.remove(&(before, name.clone()));
                    self.releases.insert((after, name.clone()));
                    // Which of several a model keeps goes by their ends.
                    self.stale.insert(name);
                }
                false
            }
            // What is out by its probes is judged by them alone.
            health => health.serves() && record.traffic.note(verdict, ended.began, &self.passive),
        }
    }

    pub(in crate::serving) fn quarantine(&mut self, name: &str, now: Moment) {
        let Some((name, record)) = entry(&mut self.records, name) else { return };
        let from = record.health();
        let until = record.traffic.eject(now, &self.passive);
        self.releases.insert((until, name.clone()));
        self.settle(&name, from, "traffic");
    }

    /// Ends the quarantines that are over.
    pub(in crate::serving) fn release_due(&mut self, now: Moment) {
        while let Some((_, name)) = self.releases.first().filter(|(until, _)| *until <= now).cloned() {
            self.release(&name, "quarantine_over");
        }
    }

    pub(in crate::serving) fn release(&mut self, name: &str, why: &'static str) {
        let Some((name, record)) = entry(&mut self.records, name) else { return };
        let (from, until) = (record.health(), record.traffic.until());
        record.traffic.release();
        if let Some(until) = until {
            self.releases.remove(&(until, name.clone()));
        }
        self.settle(&name, from, why);
    }

    /// An operator takes a backend out, or puts it back.
    pub(in crate::serving) fn drain(&mut self, name: &str, out: bool) {
        let Some((name, record)) = entry(&mut self.records, name) else { return };
        let from = record.health();
        record.drained = out;
        self.settle(&name, from, "operator");
    }

    /// When a quarantine ends; `None`: it is in none.
    pub(in crate::serving) fn released_at(&self, name: &str) -> Option<Moment> {
        self.records.get(name)?.traffic.until()
    }

    pub(in crate::serving) fn next_release(&self) -> Option<Moment> {
        self.releases.first().map(|(until, _)| *until)
    }

    pub(in crate::serving) fn take_stale(&mut self) -> BTreeSet<Arc<str>> {
        core::mem::take(&mut self.stale)
    }

    pub(in crate::serving) fn take_news(&mut self) -> Vec<HealthChange> {
        core::mem::take(&mut self.news)
    }

    pub(in crate::serving) fn take_roster(&mut self) -> Roster {
        core::mem::take(&mut self.roster)
    }

    fn settle(&mut self, name: &Arc<str>, from: Health, why: &'static str) {
        let to = self.known(name).health;
        if from != to {
            *self.counts.place(from) -= 1;
            *self.counts.place(to) += 1;
            self.stale.insert(name.clone());
            self.news.push(HealthChange { backend: name.clone(), from, to, why: why.into() });
        }
    }

    /// What it was.
    fn drop_record(&mut self, name: &Arc<str>) -> Health {
        let Some(record) = self.records.remove(name) else { return Health::Unknown };
        if let Some(until) = record.traffic.until() {
            self.releases.remove(&(until, name.clone()));
        }
        self.stale.remove(name);
        // One that came and went between two looks was never known to anybody.
        if !self.roster.came.remove(name) {
            self.roster.gone.insert(name.clone());
        }
        let health = record.health();
        *self.counts.place(health) -= 1;
        health
    }
}

fn entry<'a>(records: &'a mut BTreeMap<Arc<str>, Record>, name: &str) -> Option<(Arc<str>, &'a mut Record)> {
    let (held, _) = records.get_key_value(name)?;
    let held = held.clone();
    records.get_mut(name).map(|record| (held, record))
}
