//! Applying a pull whose answers are all in, and the apply itself (worker-protocol 3.3).

use core::time::Duration;
use std::collections::BTreeSet;

use super::Worker;
use super::defects::{Defect, has};
use super::heard::{HeardCircuits, HeardConfig};
use super::merge::{self, TargetCircuits, TargetConfig};
use super::output::{Apply, Command, Event, Severity, WakeReason};
use super::pull::{ConfigAnswer, Flight, Leg, Scope, SnapshotCopy};
use super::report::Trouble;
use crate::serving::Reconfigured;
use crate::time::Moment;
use crate::wire::event::Ack;
use crate::wire::ids::{KeyId, Revision};

impl Worker {
    pub(super) fn apply_pull(&mut self, flight: Flight) {
        let (mut heard_circuits, mut heard_config) = (flight.heard_circuits, flight.heard_config);
        if let Some((circuits, config)) = &self.pulls.early {
            (heard_circuits, heard_config) = (circuits.clone(), config.clone());
        }
        let modified = !matches!(flight.config, Leg::Answered(ConfigAnswer::NotModified));
        if has(Defect::NoOverlapReplay) {
            (heard_circuits, heard_config) = Default::default();
        }
        if matches!(flight.config, Leg::Answered(ConfigAnswer::NotModified)) {
            self.spoil_not_modified();
        }
        let circuits = match flight.circuits {
            Leg::Answered(answer) => {
                Some(merge::circuits(answer, &heard_circuits, &self.guards, flight.sent, &self.desired))
            }
            Leg::NotAsked | Leg::Asked(_) => None,
        };
        let mut refused_keys = RefusedKeys::default();
        let config = match flight.config {
            Leg::Answered(ConfigAnswer::Snapshot(snapshot)) => {
                refused_keys = RefusedKeys {
                    ids: snapshot.keys.skipped_ids.iter().map(|id| KeyId::from(id.as_str())).collect(),
                    unreadable: snapshot.keys.unreadable,
                };
                let target = merge::config(snapshot.models, snapshot.keys, &heard_config, &self.desired);
                Some((snapshot.revision, target))
            }
            Leg::Answered(ConfigAnswer::NotModified) | Leg::NotAsked | Leg::Asked(_) => None,
        };
        let torn = merge::strands(
            &self.desired,
            circuits.as_ref().map(|target| &target.circuits),
            config.as_ref().map(|(_, target)| &target.publications),
        );
        if torn && !flight.confirming {
            self.outputs.event(Event::Pull { scope: flight.scope.label().into(), outcome: "torn".into() });
            // Whatever called for a pull meanwhile is covered by this one.
            self.send_pull(if has(Defect::TornAskedAsPartial) { flight.scope } else { Scope::Full }, true);
            return;
        }

        // Events heard before the first pull was sent overrule its answer although they may be older: one more pull
        // says what is true now.
        let overruled = heard_circuits.len() + heard_config.len() > 0 && self.pulls.early.is_some();
        let mut again = if overruled { Some(Scope::Full) } else { flight.again };
        if let Some(target) = circuits {
            self.apply_circuits(target, &heard_circuits);
        }
        if let Some((revision, target)) = config {
            if self.answer_notices(flight.number, &target, &refused_keys, &heard_config) {
                again = Some(again.map_or(Scope::Config, |again| again.with(Scope::Config)));
            }
            self.apply_config(revision, target, flight.sent);
        }
        self.pull_applied(flight.scope, flight.subscription, modified);
        if let Some(again) = again {
            self.pull(again);
        }
    }

    fn apply_circuits(&mut self, target: TargetCircuits, heard: &HeardCircuits) {
        self.say_if_emptied("circuits", target.circuits.len(), self.desired.circuits().len());
        self.desired.replace_circuits(target.circuits);
        self.desired.settle_arrivals(|id| heard.holds(id));
        self.drop_acks_of_absent_circuits();
        if let Some(end) = target.overruled_until.filter(|_| !has(Defect::NoPullAfterGuard)) {
            // Requests sent up to the end are mistrusted: the next one goes right after it.
            self.timers.arm_later(WakeReason::GuardEnd, end.after(Duration::from_millis(1)));
        }
    }

    fn apply_config(&mut self, revision: Revision, target: TargetConfig, sent: Moment) {
        let number = |revision: &Revision| revision.0.parse::<u64>().ok();
        if has(Defect::RevisionByOrder) && number(&revision) < self.snapshot.revision.as_ref().and_then(number) {
            return;
        }
        self.say_if_emptied("publications", target.publications.len(), self.desired.publications().len());
        self.say_if_emptied("model API keys", target.keys.len(), self.desired.keys().len());
        self.desired.replace_publications(target.publications);
        self.desired.replace_keys(target.keys);
        self.snapshot = SnapshotCopy { revision: Some(revision), clean: !target.heard_changed, whole_at: sent };
    }

    /// An empty list after a re-registration is applied like any other, with the loudest notice we have (rule 8): it
    /// may be a reset database.
    fn say_if_emptied(&mut self, what: &str, listed: usize, known: usize) {
        if listed == 0 && known > 0 && self.pulls.new_registration {
            let text = format!("after a new registration the coordinator lists no {what}: all {known} are taken out");
            self.notice(Severity::Error, "emptied", text);
        }
    }

    /// Key notices that this answer settles become acks. Returns whether one needs another answer at once (rule 5).
    fn answer_notices(&mut self, pull: u64, target: &TargetConfig, refused: &RefusedKeys, heard: &HeardConfig) -> bool {
        let mut ask_again = false;
        for (key, notice) in self.notices.take_answered(pull) {
            if heard.removed(&key) {
                // The answer was overruled: what the key is now, only the next one can say.
                ask_again = true;
                self.notices.put_back(key, notice);
            } else if refused.covers(&key, target) && !has(Defect::AckOnMalformedKey) {
                self.outputs.event(Event::AckDropped { why: "malformed".into() });
            } else {
                self.promise(Ack::Key(key), notice.request_id, notice.heard_at);
            }
        }
        ask_again
    }

    fn pull_applied(&mut self, scope: Scope, subscription: Option<u64>, modified: bool) {
        let outcome = if modified { "ok" } else { "not_modified" };
        self.outputs.event(Event::Pull { scope: scope.label().into(), outcome: outcome.into() });
        self.pulls.settled();
        self.trouble_over(Trouble::Pull);
        if scope != Scope::Full {
            return;
        }
        self.pulls.early = None;
        self.pulls.new_registration = false;
        self.last_full_pull = Some(self.now.moment);
        self.rejoin_backoff.reset();
        self.timers.arm(WakeReason::Reconcile, self.now.moment.after(self.config.reconcile_interval));
        self.acks.full_pull_applied(self.bus.up && subscription == Some(self.bus.subscription));
    }

    /// Takes another configuration in: one view holds all of it.
    pub(super) fn configured(&mut self, fresh: Reconfigured) {
        self.flush_changes();
        self.remake = self.serving.configure(fresh);
    }

    /// Hands out the view of what changed, if anything did.
    pub(super) fn flush_changes(&mut self) {
        let mut touched = self.desired.take_touched();
        self.mode_touched(&touched);
        touched.endpoints.extend(self.desired.take_touched().endpoints);
        if core::mem::take(&mut self.remake) {
            touched = self.desired.everything();
        }
        let Some(update) = self.serving.update(&self.desired, &touched) else { return };
        for report in update.reports {
            self.notice(Severity::Warning, report.code(), report.to_string());
        }
        self.issued = update.view.generation;
        self.outputs.command(Command::Apply(Apply { view: update.view, changes: update.changes }));
    }
}

/// Keys that an answer listed and that could not be read.
#[derive(Debug, Default)]
struct RefusedKeys {
    ids: BTreeSet<KeyId>,
    unreadable: bool,
}

impl RefusedKeys {
    /// Whether `key` may be one of them: then its notice is not acked.
    fn covers(&self, key: &KeyId, target: &TargetConfig) -> bool {
        self.ids.contains(key) || (self.unreadable && !target.keys.contains_key(key))
    }
}
