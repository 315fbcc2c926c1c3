//! Bus events: applied at once, remembered for the pull under way, acked when in force (worker-protocol 3.2, 3.3).

use core::time::Duration;
use std::sync::Arc;

use super::Worker;
use super::acks::KeyNotice;
use super::defects::{Defect, has};
use super::lifecycle::Lifecycle;
use super::output::{AckTicket, Command, Event, Severity, WakeReason};
use super::pull::Scope;
use crate::defects;
use crate::time::Moment;
use crate::wire::circuit::{AppMode, ReceivedCircuit};
use crate::wire::envelope::encode_ack;
use crate::wire::event::{Ack, BusEvent, EventKind};
use crate::wire::ids::{CircuitId, KeyId};
use crate::wire::publication::Publication;

/// The pause before an ack that could not be published is tried again.
const ACK_PAUSE: Duration = Duration::from_millis(500);

impl Worker {
    pub(super) fn bus_event(&mut self, event: BusEvent) {
        if self.lifecycle == Lifecycle::Left {
            return;
        }
        for malformed in event.malformed {
            self.outputs.event(Event::Malformed(malformed));
        }
        let label = event.kind.label();
        let request_id = event.request_id;
        let outcome = match event.kind {
            EventKind::CircuitsCreated(circuits) => self.circuits_created(circuits, request_id),
            EventKind::RouteUpdated(_) if defects::has(defects::Defect::RouteUpdateUnheard) => "ignored",
            EventKind::RouteUpdated(mut circuit) => {
                self.spoil_route_update(&mut circuit);
                self.guards.remove(circuit.id);
                self.pulls.heard_circuit(circuit.id, Some(&circuit));
                let id = circuit.id;
                let changed = self.desired.upsert_circuit(*circuit);
                self.desired.note_arrival(id);
                applied(changed)
            }
            EventKind::CircuitsRemoved(ids) => self.circuits_removed(&ids),
            EventKind::ModelUpdated(_)
            | EventKind::ModelRemoved(_)
            | EventKind::KeyUpdated(_)
            | EventKind::KeyRemoved(_)
                if !self.mode_has_router_config() =>
            {
                "ignored"
            }
            EventKind::ModelUpdated(publication) => self.model_updated(publication, request_id),
            EventKind::ModelRemoved(model) => self.model_removed(model, request_id),
            EventKind::KeyUpdated(key) => self.key_updated(key, request_id),
            EventKind::KeyRemoved(key) => self.key_removed(key, request_id),
        };
        self.outputs.event(Event::Heard { event: label.into(), outcome: outcome.into() });
        self.bound_heard();
    }

    fn circuits_created(&mut self, circuits: Vec<ReceivedCircuit>, request_id: Option<String>) -> &'static str {
        let mut changed = false;
        let mut served = Vec::with_capacity(circuits.len());
        for received in circuits {
            let circuit = &received.circuit;
            self.guards.remove(circuit.id);
            self.pulls.heard_circuit(circuit.id, Some(circuit));
            changed |= self.desired.upsert_circuit(circuit.clone());
            self.desired.note_arrival(circuit.id);
            if circuit.app_mode == AppMode::Inference {
                served.push(received);
            } else {
                // A worker that said yes to this one would be lying.
                let text = format!("circuit {} is not an inference circuit: not served and not acked", circuit.id);
                self.notice(Severity::Warning, "circuit_not_served", text);
            }
        }
        if !served.is_empty() {
            self.promise(Ack::Circuits(served), request_id, self.now.moment);
        }
        applied(changed)
    }

    fn circuits_removed(&mut self, ids: &[CircuitId]) -> &'static str {
        let mut changed = false;
        for &id in ids {
            if !self.guards.add(id, self.now.moment) {
                // A guard had to go: what it guarded may come back, and must not stay longer than this.
                let end = self.now.moment.after(super::guards::GUARD);
                self.timers.arm_later(WakeReason::GuardEnd, end.after(Duration::from_millis(1)));
            }
            self.pulls.heard_circuit(id, None);
            changed |= self.desired.remove_circuit(id);
        }
        self.drop_acks_of_absent_circuits();
        applied(changed)
    }

    fn model_updated(&mut self, publication: Publication, request_id: Option<String>) -> &'static str {
        let model = publication.model.clone();
        self.pulls.heard_config(|heard| heard.publication(model.clone(), Some(publication.clone())));
        let changed = self.desired.upsert_publication(publication);
        self.dirty(changed);
        self.promise(Ack::Model(model), request_id, self.now.moment);
        applied(changed)
    }

    fn model_removed(&mut self, model: Arc<str>, request_id: Option<String>) -> &'static str {
        self.pulls.heard_config(|heard| heard.publication(model.clone(), None));
        let changed = self.desired.remove_publication(&model);
        self.dirty(changed);
        self.promise(Ack::Model(model), request_id, self.now.moment);
        applied(changed)
    }

    fn key_updated(&mut self, key: KeyId, request_id: Option<String>) -> &'static str {
        let notice = KeyNotice { request_id, heard_at: self.now.moment, heard_before_pull: self.pulls.number };
        if !self.notices.add(key, notice) {
            // No ack for this one; the pull must still be a whole one.
            self.dirty(true);
            self.outputs.event(Event::AckDropped { why: "overflow".into() });
        }
        self.pull(Scope::Config);
        "notice"
    }

    fn key_removed(&mut self, key: KeyId, request_id: Option<String>) -> &'static str {
        self.pulls.heard_config(|heard| heard.key_removed(key.clone()));
        let changed = !defects::has(defects::Defect::RevocationUnheard) && self.desired.remove_key(&key);
        self.dirty(changed);
        self.promise(Ack::Key(key), request_id, self.now.moment);
        applied(changed)
    }

    /// An event changed a publication or a key: the state is not the snapshot any more (rule 7).
    const fn dirty(&mut self, changed: bool) {
        if changed {
            self.snapshot.clean = false;
        }
    }

    /// Promises an ack; it goes when what it confirms is in force.
    pub(super) fn promise(&mut self, ack: Ack, request_id: Option<String>, heard_at: Moment) {
        if self.shutdown && !has(Defect::AckFromShutdownOn) {
            return;
        }
        if !self.acks.promise(ack, request_id, heard_at, self.bus.up) {
            self.outputs.event(Event::AckDropped { why: "overflow".into() });
        }
    }

    /// An ack is a promise to serve: not for what a later event or pull took away again. Should that come back, it will
    /// be in force only with a later view.
    pub(super) fn drop_acks_of_absent_circuits(&mut self) {
        for _ in 0..self.acks.drop_absent(|id| self.desired.circuits().contains_key(&id)) {
            self.outputs.event(Event::AckDropped { why: "gone".into() });
        }
    }

    /// Sends the acks that are true now.
    pub(super) fn release_acks(&mut self) {
        for _ in 0..self.acks.expire(self.now.moment) {
            self.outputs.event(Event::AckDropped { why: "expired".into() });
        }
        // Until the first pull is applied, what an event brought could still turn out to be half of the state.
        let withheld = defects::has(defects::Defect::AcksWithheld);
        if withheld || !self.bus.up || (self.shutdown && !has(Defect::AckFromShutdownOn)) || self.pulls.early.is_some()
        {
            return;
        }
        let in_force = if has(Defect::AckBeforeApply) { self.issued } else { self.applied };
        while let Some(held) = self.acks.take_ready(in_force) {
            let about = match &held.ack {
                _ if held.expired(self.now.moment) => Err("expired"),
                Ack::Circuits(circuits) => match circuits.first() {
                    Some(first) => Ok(format!("{} circuit(s), first {}", circuits.len(), first.circuit.id)),
                    None => Err("gone"),
                },
                Ack::Model(model) => Ok(format!("model {model}")),
                Ack::Key(key) => Ok(format!("key {key}")),
            };
            let about = match about {
                Ok(about) => about,
                Err(why) => {
                    self.outputs.event(Event::AckDropped { why: why.into() });
                    continue;
                }
            };
            let message = encode_ack(
                &held.ack,
                &self.config.authority,
                self.node_id,
                held.request_id.as_deref(),
                self.config.event_dialect,
            );
            self.outputs.command(Command::SendAck(AckTicket { id: held.id, about, message }));
            self.acks.sending(held);
        }
    }

    pub(super) fn ack_failed(&mut self, id: super::AckId) {
        if self.acks.failed(id) {
            self.timers.arm_sooner(WakeReason::AckRetry, self.now.moment.after(ACK_PAUSE));
        }
    }
}

const fn applied(changed: bool) -> &'static str {
    if changed { "applied" } else { "unchanged" }
}
