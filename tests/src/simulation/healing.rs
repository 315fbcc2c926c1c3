//! After the faults: the stated bound, quiescence, and changes that must get through.

use std::collections::BTreeMap;
use std::sync::Arc;

use appproxy_core::desired::{Desired, StateDigest};
use appproxy_core::serving::Serving;
use appproxy_core::wire::circuit::parse_circuits_answer;
use appproxy_core::wire::snapshot::parse_snapshot;
use appproxy_fixtures::Request;

use super::broken::{Broken, broken, must};
use super::node::{Node, SECRET, settings};
use super::run::Kind;
use super::state::AUTHORITY;
use super::world::World;

impl World {
    /// The longest time from the end of the faults until every node is right: one deadline, then the reconcile interval
    /// or the longest back-off, then one pull (worker-protocol 3.3).
    #[must_use]
    pub fn bound(&self) -> u64 {
        let millis = |duration: core::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let deadline = self.config.pull_timeout.max(self.config.call_timeout);
        millis(deadline) + millis(self.config.reconcile_interval).max(30_000) + 1_000
    }

    /// Lets things happen until this time.
    fn live_until(&mut self, end: u64) -> Result<(), Broken> {
        while self.next_time().is_some_and(|next| next <= end) {
            self.step()?;
        }
        self.now = end;
        Ok(())
    }

    /// The faults end; checks what must follow.
    pub(super) fn heals(&mut self) -> Result<(), Broken> {
        self.heal()?;
        let end = self.now + self.bound();
        self.live_until(end)?;
        self.all_agree("every node serves the coordinator's state within the stated bound after the faults")?;
        self.manager.answers.clear();
        for _ in 0..4 {
            self.change();
            self.live_until(self.now + 600)?;
        }
        self.all_agree("without faults a change is everywhere at once")?;
        let late = self.manager.answers.values().find(|answer| {
            answer.status != 200 || answer.value().get("status").is_some_and(|status| status == "deferred")
        });
        if let Some(answer) = late {
            return broken("without faults every change is acked", answer.value().to_string());
        }
        // Some worlds go on for long enough to see what happens every ten minutes.
        if self.draws.below(32) == 0 {
            self.live_until(self.now + 11 * 60_000)?;
            self.all_agree("nothing changes by itself")?;
        }
        Ok(())
    }

    fn all_agree(&mut self, rule: &'static str) -> Result<(), Broken> {
        let Some(right) = self.right_digest() else {
            return broken(rule, "no node is registered".to_owned());
        };
        let now = self.clocks().moment;
        for (place, node) in self.nodes.iter().enumerate() {
            let Some(node) = node else { return broken(rule, format!("node {place} is not there")) };
            if node.view.digest() != right {
                let wanted = self.wanted();
                let difference = wanted.difference(&node.in_force).unwrap_or_default();
                return broken(rule, format!("node {place}, coordinator against node: {difference}"));
            }
            must(node.worker.standing().ready(now), rule, || format!("node {place} is not ready: {}", told(node)))?;
            must(node.worker.standing().registered, rule, || format!("node {place} is outside: {}", told(node)))?;
        }
        Ok(())
    }

    /// The digest of a fresh worker that is given the coordinator's state as its calls tell it.
    fn right_digest(&mut self) -> Option<StateDigest> {
        let worker = self.coordinator.worker_id(AUTHORITY)?;
        let (wall, legacy) = (self.wall().cast_unsigned(), self.kind == Kind::Legacy);
        let mut body = |what: &str| {
            let request = Request::get(format!("/api/worker/{worker}/{what}")).with_token(SECRET);
            Some(self.coordinator.handle(&request, self.now, wall).response?.body)
        };
        let circuits = parse_circuits_answer(&body("circuits")?).ok()?.good;
        let mut desired = Desired::new(AUTHORITY);
        desired.replace_circuits(circuits.into_iter().map(|it| (it.id, it)).collect());
        if legacy {
            return Some(desired.digest());
        }
        let snapshot = parse_snapshot(&body("router-config")?).ok()?;
        let publications = snapshot.models.good.into_iter().map(|it| (it.model.clone(), it));
        desired.replace_publications(publications.collect::<BTreeMap<Arc<str>, _>>());
        desired.replace_keys(snapshot.keys.good.into_iter().map(|it| (it.key_id.clone(), it)).collect());
        let mut serving = Serving::new(&settings());
        let touched = desired.take_touched();
        let _ = serving.update(&desired, &touched);
        Some(serving.view().digest())
    }
}

fn told(node: &Node) -> String {
    node.worker.standing().trouble.join("; ")
}
