//! Everything a worker lives among, on real sockets: a redis-server, the development coordinator, mock replicas,
//! and the worker's own program.

use std::time::Duration;

use appproxy_core::exchange::token_hash;
use appproxy_core::secret::Secret;
use appproxy_fixtures::coordinator::{Faults, Settings};
use appproxy_fixtures::http_message::percent_encoded;
use appproxy_shell_tokio::stage::{StageCoordinator, StageReplica};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::http::{Answer, Request};
use crate::process::Program;
use crate::redis::Redis;
use crate::setup::Setup;
use crate::wait::{self, PATIENCE};
use crate::wildcard::{JWT_SECRET, JWT_VARIABLE, LEGACY_LINES};
use crate::worker::Worker;

/// The authority of every world.
pub const AUTHORITY: &str = "e2e";
/// The environment variable that `api_secret` is taken from.
pub const SECRET_VARIABLE: &str = "E2E_API_SECRET";
/// The environment variable that the password of the bus is taken from.
pub const PASSWORD_VARIABLE: &str = "E2E_REDIS_PASSWORD";

/// A running world. Its parts end with it, the worker first.
#[derive(Debug)]
pub struct World {
    worker: Option<Worker>,
    data: Vec<String>,
    admin: String,
    /// The mock replicas, in the order they were started.
    pub replicas: Vec<StageReplica>,
    /// The development coordinator.
    pub coordinator: StageCoordinator,
    redis: Option<Redis>,
    setup: Setup,
    runtime: Runtime,
}

/// The id of the endpoint (and of the one circuit) of this number.
#[must_use]
pub fn endpoint(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// The SHA-256 of a key, in hex.
#[must_use]
pub fn hash(key: &str) -> String {
    token_hash(&Secret::new(key)).0.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl World {
    #[track_caller]
    pub(crate) fn prepare(setup: Setup) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("tokio");
        let redis = setup.bus.then(|| match &setup.redis_password {
            Some(password) => Redis::start_with(&["--requirepass", password]),
            None => Redis::start(),
        });
        let url = redis.as_ref().map(|redis| bus_url(redis, setup.redis_password.as_deref()));
        let jwt_secret = JWT_SECRET.to_owned();
        let settings = Settings { dialect: setup.dialect, jwt_secret, ..Settings::new(&setup.api_secret) };
        let coordinator = runtime
            .block_on(StageCoordinator::start(settings, 1, url.as_deref()))
            .expect("the development coordinator");
        // What is made before the worker is there cannot be acked: nothing is to wait for it.
        coordinator.set_faults(Faults { bus_down: true, ..Faults::default() });
        let (data, admin) = (Vec::new(), String::new());
        Self { worker: None, data, admin, replicas: Vec::new(), coordinator, redis, setup, runtime }
    }

    /// Starts the worker and waits until it is ready.
    ///
    /// # Panics
    /// When it does not become ready.
    #[track_caller]
    pub fn start_worker(&mut self) {
        self.coordinator.set_faults(Faults::default());
        self.launch_worker();
        let address = self.data().to_owned();
        self.worker().wait_ready(&address, PATIENCE);
    }

    /// Starts the worker and waits only until it listens. The coordinator's faults stay as they are.
    ///
    /// # Panics
    /// When it does not listen.
    #[track_caller]
    pub fn launch_worker(&mut self) {
        let (worker, data, admin) = self.another_worker();
        (self.worker, self.data, self.admin) = (Some(worker), data, admin);
    }

    /// Starts a worker more on the same configuration, a further node of the authority; gives its data addresses and its
    /// admin address, once it listens.
    ///
    /// # Panics
    /// When it does not listen.
    #[must_use]
    #[track_caller]
    pub fn another_worker(&self) -> (Worker, Vec<String>, String) {
        let mut environment = vec![(SECRET_VARIABLE, self.setup.api_secret.as_str()), (JWT_VARIABLE, JWT_SECRET)];
        if let Some(password) = &self.setup.redis_password {
            environment.push((PASSWORD_VARIABLE, password));
        }
        environment.extend(self.setup.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let worker = match self.setup.shell.start(&self.config(), &environment) {
            Ok(worker) => worker,
            Err(e) => panic!("{e}"),
        };
        let (data, admin) = worker.addresses();
        (worker, data, admin)
    }

    /// The configuration file of the worker.
    #[must_use]
    pub fn config(&self) -> String {
        let setup = &self.setup;
        let indented = |lines: &[String]| lines.iter().map(|line| format!("  {line}\n")).collect::<String>();
        let has = |lines: &[String], key: &str| lines.iter().any(|line| line.starts_with(key));
        let binds: Vec<String> = setup.binds.iter().map(|bind| format!("\"{bind}\"")).collect();
        let mut text = format!("server:\n  bind_address: [{}]\n{}", binds.join(", "), indented(&setup.server));
        if !has(&setup.server, "drain_notice") {
            text.push_str("  drain_notice: \"0s\"\n");
        }
        text.push_str("admin:\n");
        if !has(&setup.admin, "bind_address") {
            text.push_str("  bind_address: \"127.0.0.1:0\"\n");
        }
        text.push_str(&indented(&setup.admin));
        let events = match &self.redis {
            Some(redis) => {
                let password = setup.redis_password.as_ref().map(|_| format!("${{{PASSWORD_VARIABLE}}}"));
                format!("redis_url: \"{}\"", bus_url(redis, password.as_deref()))
            }
            None => "events_enabled: false".to_owned(),
        };
        text.push_str(&format!(
            "{}:\n  enabled: true\n  coordinator_url: \"http://{}\"\n  api_secret: \"${{{SECRET_VARIABLE}}}\"\n  \
             authority: \"{AUTHORITY}\"\n  hostname: \"router.test\"\n  api_port: 8080\n  {events}\n  \
             heartbeat_period: \"{}\"\n  reconcile_interval: \"{}\"\n{}{}{}",
            if setup.legacy { "appproxy" } else { "appproxy_router" },
            self.coordinator.address(),
            setup.heartbeat,
            setup.reconcile,
            if setup.legacy { LEGACY_LINES } else { "" },
            indented(&setup.router),
            setup.top,
        ));
        text
    }

    /// The first data address, `host:port`.
    #[must_use]
    pub fn data(&self) -> &str {
        self.data.first().map_or("", String::as_str)
    }

    /// Whether a worker was started.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        self.worker.is_some()
    }

    /// All data addresses.
    #[must_use]
    pub fn all_data(&self) -> &[String] {
        &self.data
    }

    /// The admin address, `host:port`.
    #[must_use]
    pub fn admin(&self) -> &str {
        &self.admin
    }

    /// The worker.
    ///
    /// # Panics
    /// When it was not started.
    #[track_caller]
    pub fn worker(&mut self) -> &mut Worker {
        self.worker.as_mut().expect("the worker was started")
    }

    /// The worker's program.
    ///
    /// # Panics
    /// When it was not started.
    #[track_caller]
    pub fn program(&mut self) -> &mut Program {
        self.worker().program()
    }

    /// The bus.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn redis(&mut self) -> &mut Redis {
        self.redis.as_mut().expect("a world with a bus")
    }

    /// Starts a mock replica that serves `models` (none: any) and gives its port.
    ///
    /// # Panics
    /// When no port can be had.
    #[track_caller]
    pub fn replica(&mut self, name: &str, models: &[&str]) -> u16 {
        let replica = self.runtime.block_on(StageReplica::start(name, models)).expect("a mock replica");
        let port = replica.address().port();
        self.replicas.push(replica);
        port
    }

    /// Kills the replica of this index.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn kill_replica(&mut self, index: usize) {
        self.runtime.block_on(self.replicas.get_mut(index).expect("a replica").kill());
    }

    /// Starts the replica of this index again.
    ///
    /// # Panics
    /// When there is none, or its port is taken.
    #[track_caller]
    pub fn revive_replica(&mut self, index: usize) {
        self.runtime.block_on(self.replicas.get_mut(index).expect("a replica").revive()).expect("the same port");
    }

    /// Stops the coordinator: its calls are refused.
    pub fn kill_coordinator(&mut self) {
        self.runtime.block_on(self.coordinator.kill());
    }

    /// Starts the coordinator again with all it has stored.
    ///
    /// # Panics
    /// When its port is taken.
    #[track_caller]
    pub fn revive_coordinator(&mut self) {
        self.runtime.block_on(self.coordinator.revive()).expect("the same port");
    }

    /// One call to the coordinator; `Value::Null` sends no body.
    ///
    /// # Panics
    /// When it does not answer.
    #[track_caller]
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::new(method, path)
            .header("X-BackendAI-Token", &self.setup.api_secret)
            .header("Content-Type", "application/json")
            .body(text);
        let answer = request.send_within(&self.coordinator.address().to_string(), PATIENCE);
        let answer = answer.unwrap_or_else(|e| panic!("{method} {path}: {e}"));
        (answer.status(), serde_json::from_slice(&answer.body).unwrap_or_default())
    }

    /// As [`World::ask`], and it must succeed.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn done(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask(method, path, body);
        assert_eq!(status, 200, "{method} {path}: {answer}");
        answer
    }

    /// Makes the circuit of endpoint `number` with replicas at these loopback ports. Before the worker runs, nobody is
    /// told; afterwards this waits for its ack.
    ///
    /// # Panics
    /// When the coordinator refuses.
    #[track_caller]
    pub fn circuit(&self, number: u32, ports: &[u16]) -> Value {
        let live = self.worker.is_some();
        self.done(
            "POST",
            "/dev/circuits",
            &json!({"authority": AUTHORITY, "id": endpoint(number), "endpoint_id": endpoint(number),
                    "routes": routes(ports), "announce": live, "wait": live}),
        )
    }

    /// Replaces the replicas of endpoint `number`.
    ///
    /// # Panics
    /// When the coordinator refuses.
    #[track_caller]
    pub fn set_routes(&self, number: u32, ports: &[u16]) {
        self.done("PUT", &format!("/dev/circuits/{}/routes", endpoint(number)), &json!({"routes": routes(ports)}));
    }

    /// Publishes `model` over endpoints by ratio; the answer's `status`.
    ///
    /// # Panics
    /// When the coordinator refuses.
    #[track_caller]
    pub fn publish(&self, model: &str, aliases: &[&str], endpoints: &[(u32, f64)]) -> String {
        let mappings: Vec<Value> =
            endpoints.iter().map(|(number, ratio)| json!({"endpoint_id": endpoint(*number), "ratio": ratio})).collect();
        status(&self.done("PUT", &model_path(model), &json!({"aliases": aliases, "mappings": mappings})))
    }

    /// Unpublishes `model`; the answer's `status`.
    ///
    /// # Panics
    /// When the coordinator refuses.
    #[track_caller]
    pub fn unpublish(&self, model: &str) -> String {
        status(&self.done("DELETE", &model_path(model), &Value::Null))
    }

    /// Makes or replaces the key `id`, whose secret is `key`, with these fields besides; the answer's `status`.
    ///
    /// # Panics
    /// When the coordinator refuses.
    #[track_caller]
    pub fn key(&self, id: &str, key: &str, mut fields: Value) -> String {
        fields["token_hash"] = hash(key).into();
        status(&self.done("PUT", &key_path(id), &fields))
    }

    /// Revokes the key `id`; the whole answer.
    ///
    /// # Panics
    /// When the coordinator refuses.
    #[track_caller]
    pub fn revoke(&self, id: &str, strict: bool) -> Value {
        let query = if strict { "?strict=true" } else { "" };
        self.done("DELETE", &format!("{}{query}", key_path(id)), &Value::Null)
    }

    /// What the coordinator knows of the authority.
    ///
    /// # Panics
    /// When it does not answer.
    #[must_use]
    #[track_caller]
    pub fn state(&self) -> Value {
        self.done("GET", "/dev/state", &Value::Null)["authorities"][AUTHORITY].take()
    }

    /// A chat request of this key for this model.
    ///
    /// # Panics
    /// When the worker does not answer.
    #[track_caller]
    pub fn chat(&self, key: &str, model: &str) -> Answer {
        self.send(&chat(model).bearer(key))
    }

    /// Sends any request to the worker's first listener.
    ///
    /// # Panics
    /// When it does not answer.
    #[track_caller]
    pub fn send(&self, request: &Request) -> Answer {
        request.send(self.data()).unwrap_or_else(|e| panic!("{}: {e}", request.method()))
    }

    /// Waits until a chat of this key for this model is answered with `status`.
    ///
    /// # Panics
    /// When it is not within `allowed`.
    #[track_caller]
    pub fn wait_chat(&self, key: &str, model: &str, status: u16, allowed: Duration) {
        wait::until(&format!("{status} for {model}"), allowed, || self.chat(key, model).status() == status);
    }

    /// A page of the data listener, as JSON.
    ///
    /// # Panics
    /// When the worker does not answer.
    #[must_use]
    #[track_caller]
    pub fn page(&self, path: &str) -> Value {
        serde_json::from_slice(&self.send(&Request::get(path)).body).unwrap_or_default()
    }

    /// The whole metrics export.
    ///
    /// # Panics
    /// When the worker does not answer.
    #[must_use]
    #[track_caller]
    pub fn metrics(&self) -> String {
        metrics_of(&self.admin)
    }

    /// The value of one series, named as exported (`name{label="value"}`); 0 when it is not there.
    ///
    /// # Panics
    /// As [`World::metrics`].
    #[must_use]
    #[track_caller]
    pub fn metric(&self, series: &str) -> f64 {
        metric_of(&self.admin, series)
    }
}

/// The metrics export of the worker with this admin address.
///
/// # Panics
/// When it does not answer.
#[must_use]
#[track_caller]
pub fn metrics_of(admin: &str) -> String {
    let answer = Request::get("/metrics").send(admin).expect("the admin listener answers");
    assert_eq!(answer.status(), 200, "{}", answer.text());
    answer.text()
}

/// The value of one series, named as exported; 0 when it is not there.
///
/// # Panics
/// As [`metrics_of`].
#[must_use]
#[track_caller]
pub fn metric_of(admin: &str, series: &str) -> f64 {
    let text = metrics_of(admin);
    let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0.0)
}

/// A chat request without a key.
#[must_use]
pub fn chat(model: &str) -> Request {
    let body = json!({"model": model, "messages": [{"role": "user", "content": "hi"}]});
    Request::post_json("/v1/chat/completions", &body.to_string())
}

/// The same, asking for a stream.
#[must_use]
pub fn streamed_chat(model: &str) -> Request {
    let body = json!({"model": model, "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    Request::post_json("/v1/chat/completions", &body.to_string())
}

fn routes(ports: &[u16]) -> Vec<Value> {
    ports.iter().map(|port| json!({"kernel_host": "127.0.0.1", "kernel_port": port})).collect()
}

fn model_path(model: &str) -> String {
    format!("/v2/routers/{AUTHORITY}/models/{}", percent_encoded(model))
}

fn key_path(id: &str) -> String {
    format!("/v2/routers/{AUTHORITY}/api-keys/{}", percent_encoded(id))
}

fn status(answer: &Value) -> String {
    answer["status"].as_str().unwrap_or_default().to_owned()
}

fn bus_url(redis: &Redis, password: Option<&str>) -> String {
    let user = password.map(|password| format!(":{password}@")).unwrap_or_default();
    format!("redis://{user}127.0.0.1:{}/4", redis.port())
}
