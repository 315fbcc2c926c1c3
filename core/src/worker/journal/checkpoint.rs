//! A worker between two inputs, as the head of a later part keeps it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::super::Worker;
use super::super::acks::{Acks, KeyNotices};
use super::super::answers::{Answers, hide_hashes, mask, mask_all};
use super::super::bus::Bus;
use super::super::calls::Calls;
use super::super::guards::Guards;
use super::super::heartbeat::Heartbeat;
use super::super::lifecycle::Lifecycle;
use super::super::mode::Kept;
use super::super::probes::Probes;
use super::super::pull::{Pulls, SnapshotCopy};
use super::super::report::Troubles;
use super::super::timers::Timers;
use super::record::drop_echoes;
use crate::backoff::Backoff;
use crate::desired::{Arrivals, Learned, pseudonymised};
use crate::seed::Draws;
use crate::serving::{Book, Generation};
use crate::time::{Moment, Now};
use crate::wire::circuit::Circuit;
use crate::wire::event::Ack;
use crate::wire::ids::{EndpointId, NodeId};
use crate::wire::key::ApiKey;
use crate::wire::publication::Publication;

/// Everything a drained worker is, without secrets.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    node_id: NodeId,
    draws: Draws,
    now: Now,
    timers: Timers,
    calls: Calls,
    bus: Bus,
    lifecycle: Lifecycle,
    register_backoff: Backoff,
    rejoin_backoff: Backoff,
    rejoin_not_before: Moment,
    heartbeat: Heartbeat,
    pulls: Pulls,
    snapshot: SnapshotCopy,
    guards: Guards,
    acks: Acks,
    notices: KeyNotices,
    probes: Probes,
    kept: Kept,
    health: Book,
    circuits: Vec<Circuit>,
    arrivals: Arrivals,
    learned: BTreeMap<EndpointId, Learned>,
    publications: Vec<Publication>,
    /// Nothing while no key set ever came.
    keys: Option<Vec<ApiKey>>,
    issued: Generation,
    applied: Generation,
    last_full_pull: Option<Moment>,
    troubles: Troubles,
    shutdown: bool,
    drained: bool,
}

impl Checkpoint {
    /// `worker` as it is; its outputs have been drained.
    ///
    /// # Errors
    /// When an ack's echo cannot be replaced.
    pub fn of(worker: &Worker) -> serde_json::Result<Self> {
        let desired = &worker.desired;
        let mut checkpoint = Self {
            node_id: worker.node_id,
            draws: worker.draws.clone(),
            now: worker.now,
            timers: worker.timers.clone(),
            calls: worker.calls.clone(),
            bus: worker.bus.clone(),
            lifecycle: worker.lifecycle,
            register_backoff: worker.register_backoff.clone(),
            rejoin_backoff: worker.rejoin_backoff.clone(),
            rejoin_not_before: worker.rejoin_not_before,
            heartbeat: worker.heartbeat.clone(),
            pulls: worker.pulls.clone(),
            snapshot: worker.snapshot.clone(),
            guards: worker.guards.clone(),
            acks: worker.acks.clone(),
            notices: worker.notices.clone(),
            probes: worker.probes.clone(),
            kept: worker.kept.clone(),
            health: worker.serving.book().clone(),
            circuits: desired.circuits().values().cloned().collect(),
            arrivals: desired.arrivals().clone(),
            learned: desired.learned().clone(),
            publications: desired.publications().values().map(|publication| (**publication).clone()).collect(),
            keys: desired.keys_loaded().then(|| desired.keys().values().cloned().collect()),
            issued: worker.issued,
            applied: worker.applied,
            last_full_pull: worker.last_full_pull,
            troubles: worker.troubles.clone(),
            shutdown: worker.shutdown,
            drained: worker.drained,
        };
        if worker.answers == Answers::Coordinator {
            checkpoint.hide_secrets(&worker.config.authority)?;
        }
        Ok(checkpoint)
    }

    fn hide_secrets(&mut self, authority: &str) -> serde_json::Result<()> {
        for ack in self.acks.each_mut() {
            if let Ack::Circuits(circuits) = ack {
                drop_echoes(circuits)?;
            }
        }
        let (circuits, snapshot) = self.pulls.answered();
        if let Some(answer) = circuits {
            mask_all(&mut answer.malformed);
        }
        if let Some(snapshot) = snapshot {
            hide_hashes(snapshot, authority);
        }
        for key in self.keys.iter_mut().flatten() {
            key.token_hash = pseudonymised(authority, &key.token_hash);
        }
        for text in self.troubles.values_mut() {
            *text = mask(text);
        }
        Ok(())
    }

    /// Makes a new worker of the same configuration this one.
    pub(super) fn resume(self, worker: &mut Worker) {
        let desired = &mut worker.desired;
        desired.replace_circuits(self.circuits.into_iter().map(|circuit| (circuit.id, circuit)).collect());
        desired.resume_arrivals(self.arrivals);
        for (endpoint, learned) in self.learned {
            desired.learn(endpoint, Some(learned));
        }
        let publications = self.publications.into_iter();
        desired
            .replace_publications(publications.map(|publication| (publication.model.clone(), publication)).collect());
        if let Some(keys) = self.keys {
            desired.replace_keys(keys.into_iter().map(|key| (key.key_id.clone(), key)).collect());
        }
        drop(desired.take_touched());
        worker.serving.resume(desired, self.health, self.issued);
        worker.node_id = self.node_id;
        worker.draws = self.draws;
        worker.now = self.now;
        worker.timers = self.timers;
        worker.calls = self.calls;
        worker.bus = self.bus;
        worker.lifecycle = self.lifecycle;
        worker.register_backoff = self.register_backoff;
        worker.rejoin_backoff = self.rejoin_backoff;
        worker.rejoin_not_before = self.rejoin_not_before;
        worker.heartbeat = self.heartbeat;
        worker.pulls = self.pulls;
        worker.snapshot = self.snapshot;
        worker.guards = self.guards;
        worker.acks = self.acks;
        worker.notices = self.notices;
        worker.probes = self.probes;
        worker.kept = self.kept;
        worker.issued = self.issued;
        worker.applied = self.applied;
        worker.last_full_pull = self.last_full_pull;
        worker.troubles = self.troubles;
        worker.shutdown = self.shutdown;
        worker.drained = self.drained;
    }
}
