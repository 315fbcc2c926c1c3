//! What a legacy wildcard worker's world has besides: circuits under sub-domains, and access tokens.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::http::{Answer, Request};
use crate::wait::{self, PATIENCE};
use crate::world::{AUTHORITY, World, endpoint};

/// What the coordinator of every world signs access tokens with.
pub const JWT_SECRET: &str = "e2e-jwt-secret-0123456789abcdef";
/// The environment variable that `jwt_secret` is taken from.
pub const JWT_VARIABLE: &str = "E2E_JWT_SECRET";
/// The apex of the wildcard domain.
pub const APEX: &str = "models.test";
/// What the worker's section has beyond a ROUTER worker's.
pub(crate) const LEGACY_LINES: &str =
    "  jwt_secret: \"${E2E_JWT_SECRET}\"\n  wildcard_domain: \".models.test\"\n  aggregation_hosts: [\"all.test\"]\n";

/// Unix time in seconds.
#[must_use]
pub fn unix_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// The host of a circuit.
#[must_use]
pub fn host(label: &str) -> String {
    format!("{label}.{APEX}")
}

/// Claims that open the circuit of this number for ten minutes.
#[must_use]
pub fn claims(number: u32) -> Value {
    json!({"id": endpoint(number), "exp": unix_seconds() + 600})
}

/// A chat request without a model.
#[must_use]
pub fn any_chat() -> Request {
    Request::post_json("/v1/chat/completions", r#"{"messages":[{"role":"user","content":"hi"}]}"#)
}

impl World {
    /// Makes the circuit of endpoint `number` under `label`, public unless `more` says otherwise, with replicas at these
    /// loopback ports. Before the worker runs, nobody is told; afterwards this waits for its ack.
    ///
    /// # Panics
    /// When the coordinator refuses, or no ack comes.
    #[track_caller]
    pub fn wildcard(&self, number: u32, label: &str, ports: &[u16], more: Value) -> Value {
        let live = self.is_running();
        let routes: Vec<Value> =
            ports.iter().map(|port| json!({"kernel_host": "127.0.0.1", "kernel_port": port})).collect();
        let mut circuit = json!({
            "authority": AUTHORITY, "id": endpoint(number), "endpoint_id": endpoint(number), "app": label,
            "subdomain": label, "open_to_public": true, "routes": routes, "announce": live, "wait": live,
        });
        if let (Some(circuit), Value::Object(more)) = (circuit.as_object_mut(), more) {
            circuit.extend(more);
        }
        self.done("POST", "/dev/circuits", &circuit)
    }

    /// A token for the circuit of endpoint `number`, as the coordinator mints it, good for ten minutes.
    ///
    /// # Panics
    /// When the coordinator refuses.
    #[must_use]
    #[track_caller]
    pub fn token(&self, number: u32) -> String {
        let path = format!("/v2/endpoints/{}/token", endpoint(number));
        let answer = self.done("POST", &path, &json!({"exp": unix_seconds() + 600}));
        answer["token"].as_str().unwrap_or_default().to_owned()
    }

    /// Sends a request to the host of a circuit.
    ///
    /// # Panics
    /// When the worker does not answer.
    #[track_caller]
    pub fn at(&self, label: &str, request: Request) -> Answer {
        self.send(&request.header("Host", &host(label)))
    }

    /// Sends a request to the apex.
    ///
    /// # Panics
    /// When the worker does not answer.
    #[track_caller]
    pub fn at_apex(&self, request: Request) -> Answer {
        self.send(&request.header("Host", APEX))
    }

    /// Waits until the circuit under `label` answers a chat with something else than that its model is not known yet.
    /// `token` may be empty.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn wait_model(&self, label: &str, token: &str) {
        wait::until(&format!("the model of {label}"), PATIENCE, || {
            let request = if token.is_empty() { any_chat() } else { any_chat().bearer(token) };
            self.at(label, request).status() == 200
        });
    }
}
