//! A serving state with its desired state, and a clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use appproxy_core::desired::{Desired, Rules};
use appproxy_core::serving::{
    AttemptEnd, ExchangeEnded, Health, ModelPool, ProbeSign, Serving, ServingSettings, ServingView, StaticBackend,
    Update,
};
use appproxy_core::time::Moment;

use crate::states::{circuit_id, desired};
use appproxy_core::wire::circuit::Circuit;
use appproxy_core::wire::publication::Publication;

pub(crate) struct Stage {
    pub(crate) desired: Desired,
    pub(crate) serving: Serving,
    pub(crate) now: Moment,
}

impl Stage {
    pub(crate) fn new(circuits: Vec<Circuit>, publications: Vec<Publication>, statics: Vec<StaticBackend>) -> Self {
        let settings = ServingSettings { rules: Rules::Router, backends: statics, ..ServingSettings::default() };
        let (desired, serving) = (desired(circuits, publications), Serving::new(&settings));
        let mut stage = Self { desired, serving, now: Moment::from_millis(1) };
        stage.update();
        stage
    }

    pub(crate) fn update(&mut self) -> Option<Update> {
        let touched = self.desired.take_touched();
        self.serving.update(&self.desired, &touched)
    }

    pub(crate) fn view(&self) -> &Arc<ServingView> {
        self.serving.view()
    }

    pub(crate) fn sign(&mut self, backend: &str, sign: ProbeSign) -> Option<Update> {
        self.serving.take_sign(backend, sign, self.now);
        self.update()
    }

    pub(crate) fn end(&mut self, backend: &str, end: AttemptEnd) -> Option<Update> {
        let ended = ExchangeEnded { backend: backend.into(), began: self.now, end };
        self.serving.take_end(&self.desired, &ended, self.now);
        self.update()
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
        self.serving.release_due(self.now);
        self.update();
    }

    /// Three bad probes.
    pub(crate) fn fell(&mut self, backend: &str) {
        (0..3).for_each(|_| drop(self.sign(backend, ProbeSign::Bad)));
    }

    /// Three failed attempts, a moment later.
    pub(crate) fn broke(&mut self, backend: &str) {
        self.pass(Duration::from_millis(1));
        (0..3).for_each(|_| drop(self.end(backend, AttemptEnd::Broke)));
    }

    pub(crate) fn pool(&self, model: &str) -> Arc<ModelPool> {
        self.view().model(model).or_else(|| self.view().static_model(model)).unwrap().clone()
    }

    /// The health of a model's replicas, by name.
    pub(crate) fn health(&self, model: &str) -> BTreeMap<String, Health> {
        let pool = self.pool(model);
        pool.candidates().map(|one| (one.backend.name.to_string(), one.health)).collect()
    }

    /// The replicas that a model keeps asking in quarantine, by name.
    pub(crate) fn kept(&self, model: &str) -> Vec<String> {
        let pool = self.pool(model);
        pool.candidates().filter(|one| one.kept).map(|one| one.backend.name.to_string()).collect()
    }

    /// Shares in hundredths, in pool order.
    pub(crate) fn shares(&self, model: &str) -> Vec<u32> {
        self.pool(model).shares().iter().map(|(_, share)| (share * 100.0).round() as u32).collect()
    }
}

/// The backend of route `route` of circuit `circuit`.
pub(crate) fn name(circuit: u128, route: u128) -> String {
    format!("appproxy-{}-r{}", circuit_id(circuit), crate::states::route(route, 1.0).route_id.unwrap())
}

pub(crate) fn list(names: &[&str]) -> ProbeSign {
    ProbeSign::Good(Some(names.iter().map(|name| Arc::from(*name)).collect()))
}
