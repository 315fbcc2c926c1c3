//! A plain router over mock replicas that can fail: no coordinator, no bus, no keys.

use std::time::Duration;

use appproxy_fixtures::stage::StageReplica;
use serde_json::Value;

use crate::http::{Answer, Request};
use crate::shell::Shell;
use crate::wait::{self, PATIENCE};
use crate::worker::Worker;

/// Nobody is asked how it is.
pub const NO_PROBES: &str = "health_checks: {enabled: false}\n";
/// Live traffic takes nobody out.
pub const NO_QUARANTINE: &str = "passive: {failures: 1000}\n";

/// A running plain router. Its parts end with it, the worker first.
#[derive(Debug)]
pub struct Plain {
    worker: Worker,
    data: String,
    admin: String,
    /// The mock replicas, as they were named.
    pub replicas: Vec<StageReplica>,
}

impl Plain {
    /// Starts mock replicas, each given by its name and the one model it serves, as backends `b0`, `b1`, ..., and the
    /// worker over them; `more` is further configuration.
    ///
    /// # Panics
    /// When a part of it does not start.
    #[must_use]
    #[track_caller]
    pub fn start(shell: Shell, replicas: &[(&str, &str)], more: &str) -> Self {
        Self::start_with(shell, replicas, "", more)
    }

    /// As [`Plain::start`], with these entries of `backends` besides (two spaces in front, a line each).
    ///
    /// # Panics
    /// When a part of it does not start.
    #[must_use]
    #[track_caller]
    pub fn start_with(shell: Shell, replicas: &[(&str, &str)], backends: &str, more: &str) -> Self {
        Self::start_given(shell, replicas, backends, more, &[])
    }

    /// As [`Plain::start_with`], with these variables in the worker's environment.
    ///
    /// # Panics
    /// When a part of it does not start.
    #[must_use]
    #[track_caller]
    pub fn start_given(
        shell: Shell,
        replicas: &[(&str, &str)],
        backends: &str,
        more: &str,
        variables: &[(&str, &str)],
    ) -> Self {
        let mut text = format!(
            "server: {{bind_address: \"127.0.0.1:0\", drain_notice: 0s, shutdown_timeout: 200ms}}\n\
             admin: {{bind_address: \"127.0.0.1:0\"}}\n{more}backends:\n{backends}"
        );
        let mut started = Vec::new();
        for (number, (name, model)) in replicas.iter().enumerate() {
            let replica = StageReplica::start(name, &[model]).expect("a mock replica");
            text += &format!("  - {{name: b{number}, url: \"http://{}\", models: [{model}]}}\n", replica.address());
            started.push(replica);
        }
        let mut worker = shell.start(&text, variables).expect("the worker starts");
        let (data, admin) = worker.addresses();
        let data = data.into_iter().next().expect("a data address");
        worker.wait_ready(&data, PATIENCE);
        Self { worker, data, admin, replicas: started }
    }

    /// The data address.
    #[must_use]
    pub fn data(&self) -> &str {
        &self.data
    }

    /// The worker.
    pub fn worker(&mut self) -> &mut Worker {
        &mut self.worker
    }

    /// Sends a request.
    ///
    /// # Panics
    /// When the worker does not answer.
    #[track_caller]
    pub fn send(&self, request: &Request) -> Answer {
        request.send(&self.data).unwrap_or_else(|e| panic!("{}: {e}", request.method()))
    }

    /// A chat for this model.
    ///
    /// # Panics
    /// As [`Plain::send`].
    #[track_caller]
    pub fn ask(&self, model: &str) -> Answer {
        self.send(&crate::world::chat(model))
    }

    /// Which replica answered a chat for this model; empty when none did.
    ///
    /// # Panics
    /// As [`Plain::send`].
    #[track_caller]
    pub fn served_by(&self, model: &str) -> String {
        let answer: Value = serde_json::from_slice(&self.ask(model).body).unwrap_or_default();
        answer["served_by"].as_str().unwrap_or_default().to_owned()
    }

    /// The value of one series; 0 when it is not there.
    ///
    /// # Panics
    /// When the worker does not answer.
    #[must_use]
    #[track_caller]
    pub fn metric(&self, series: &str) -> f64 {
        crate::world::metric_of(&self.admin, series)
    }

    /// Waits until a series has this value.
    ///
    /// # Panics
    /// When it has not within `allowed`.
    #[track_caller]
    pub fn wait_metric(&self, series: &str, value: f64, allowed: Duration) {
        wait::until(&format!("{series} {value}"), allowed, || self.metric(series) == value);
    }

    /// Kills the replica of this index.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn kill(&mut self, index: usize) {
        self.replicas.get_mut(index).expect("a replica").kill();
    }

    /// Starts the replica of this index again.
    ///
    /// # Panics
    /// When there is none, or its port is taken.
    #[track_caller]
    pub fn revive(&mut self, index: usize) {
        self.replicas.get_mut(index).expect("a replica").revive().expect("the same port");
    }
}
