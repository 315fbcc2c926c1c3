//! A wildcard worker's data plane: circuits, a caller, and what becomes of the request.
//!
//! Wildcard domain `.models.example.com`, aggregation host `all.example.com`, hostname `router.example.com`.

use std::sync::Arc;
use std::time::Duration;

use appproxy_core::access::address::Peer;
use appproxy_core::access::rate_ledger::{LedgerKey, RateFigures, RateLedger};
use appproxy_core::config::worker::LegacyMode;
use appproxy_core::desired::{Backend, BackendKind, Desired, Learned, Rules};
use appproxy_core::exchange::selection::{Ask, Selection};
use appproxy_core::exchange::{
    Answer, Attempt, Choosing, Chosen, Connection, Control, Doors, Entrance, ExchangeRules, Explanation, FailStage,
    Failure, Fallbacks, Figures, Gate, Head, Loads, Node, OperatorKey, OperatorKeys, Payload, Question, RetryBudget,
    explain, token_hash,
};
use appproxy_core::secret::Secret;
use appproxy_core::seed::{Draws, Seed};
use appproxy_core::serving::{ModelPool, Serving, ServingSettings, StaticBackend, StaticModel};
use appproxy_core::time::{Moment, Now, UnixMillis};
use appproxy_core::wire::circuit::Circuit;
use appproxy_core::wire::ids::NodeId;
use appproxy_core::worker::Standing;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use sha2::Sha256;

use crate::states::{circuit, circuit_id, endpoint_id, route};

pub(crate) const JWT_SECRET: &str = "dummy-jwt-secret";
const NOW: i64 = 1_800_000_000;

pub(crate) struct World {
    pub(crate) rules: ExchangeRules,
    pub(crate) desired: Desired,
    pub(crate) serving: Serving,
    pub(crate) control: Control,
    pub(crate) now: Now,
    pub(crate) peer: Peer,
    selection: Selection,
    draws: Draws,
    budget: RetryBudget,
    ledger: RateLedger,
}

/// A request at a replica.
#[derive(Debug)]
pub(crate) struct Reached {
    pub(crate) backend: String,
    pub(crate) method: String,
    pub(crate) uri: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

pub(crate) fn mode() -> LegacyMode {
    LegacyMode {
        jwt_secret: Secret::new(JWT_SECRET),
        jwt_leeway: Duration::from_secs(60),
        wildcard_domain: ".models.example.com".to_owned(),
        aggregation_hosts: vec!["all.example.com".to_owned()],
        model_names: Vec::new(),
    }
}

/// Circuit `number` of endpoint `number` at `<label>.models.example.com`, with as many replicas.
pub(crate) fn at(number: u128, label: &str, replicas: u128) -> Circuit {
    let routes = (0..replicas).map(|at| route(number * 10 + at, 1.0)).collect();
    Circuit { subdomain: Some(label.to_owned()), ..circuit(number, number, routes) }
}

pub(crate) fn open(circuit: Circuit) -> Circuit {
    Circuit { open_to_public: true, ..circuit }
}

pub(crate) fn signed(secret: &str, header: &str, claims: &str) -> String {
    let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let mut keyed = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    keyed.update(text.as_bytes());
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(keyed.finalize().into_bytes()))
}

/// A token of circuit `number` that ends `ends` seconds from now.
pub(crate) fn token_until(number: u128, ends: i64) -> String {
    let claims = format!(r#"{{"id":"{}","exp":{}}}"#, circuit_id(number), NOW + ends);
    signed(JWT_SECRET, r#"{"alg":"HS256","typ":"JWT"}"#, &claims)
}

pub(crate) fn bearer(number: u128) -> String {
    format!("authorization: Bearer {}", token_until(number, 600))
}

/// A request to `host`, with headers given as `name: value` lines.
pub(crate) fn request(method: &str, host: &str, path: &str, lines: &[&str]) -> Parts {
    let mut parts = Request::builder().method(method).uri(path).body(()).unwrap().into_parts().0;
    parts.headers.insert("host", HeaderValue::from_str(host).unwrap());
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap();
        parts.headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    parts
}

pub(crate) fn chat(host: &str, lines: &[&str]) -> Parts {
    request("POST", host, "/v1/chat/completions", lines)
}

pub(crate) fn said(answer: &Answer) -> String {
    let code = answer.outcome.denial.map_or("", |code| code.label());
    format!("{} {code}", answer.status.as_u16()).trim_end().to_owned()
}

/// What a world shows to a request. No method: the world's other parts are changed meanwhile.
macro_rules! node {
    ($world:expr) => {
        Node {
            rules: &$world.rules,
            view: $world.serving.view(),
            control: &$world.control,
            now: $world.now,
            file_refused: false,
        }
    };
}

impl World {
    pub(crate) fn new(circuits: Vec<Circuit>) -> Self {
        let backend = StaticBackend {
            name: "spare".into(),
            kind: BackendKind::Generic,
            tls: false,
            host: "spare.example.com".into(),
            port: 80,
            base_path: Arc::default(),
            credential: None,
            weight: 1,
            models: vec![StaticModel { name: "spare-model".into(), aliases: Vec::new() }],
            probed: false,
        };
        let settings = ServingSettings { rules: Rules::Legacy, backends: vec![backend], ..ServingSettings::default() };
        let operator = OperatorKey {
            id: "root".into(),
            hash: token_hash(&Secret::new("sk-root")),
            allowed_models: Vec::new(),
            rate_limit: Some(2),
            allowed_client_ips: None,
            expires_at: None,
        };
        let mut world = Self {
            rules: ExchangeRules {
                entrance: Entrance::Circuits(Arc::new(Doors::new(&mode(), "router.example.com"))),
                operator_keys: OperatorKeys::new([operator]),
                ..ExchangeRules::default()
            },
            desired: Desired::new("here"),
            serving: Serving::new(&settings),
            control: Control::Unknown,
            now: Now { moment: Moment::from_millis(5000), wall: UnixMillis(NOW * 1000) },
            peer: Peer::Ip([192, 0, 2, 1].into()),
            selection: Selection::new(),
            draws: Draws::new(Seed::from_number(1)),
            budget: RetryBudget::new(),
            ledger: RateLedger::new(),
        };
        world.pulled(true);
        for circuit in circuits {
            world.desired.upsert_circuit(circuit);
        }
        world.show();
        world
    }

    pub(crate) fn pulled(&mut self, pulled: bool) {
        let standing = Standing {
            node_id: NodeId("9a9a9a9a-0000-4000-8000-000000000001".parse().unwrap()),
            worker_id: None,
            registered: true,
            bus_up: Some(true),
            last_full_pull: pulled.then_some(Moment::START),
            revision: None,
            leaving: false,
            max_staleness: None,
            max_key_staleness: None,
            trouble: Vec::new(),
        };
        self.control = Control::Worker { authority: Arc::from("here"), standing };
    }

    /// The models of endpoint `number`.
    pub(crate) fn list(mut self, number: u128, names: &[&str]) -> Self {
        self.desired.learn(endpoint_id(number), Learned::of_list(names.iter().map(|name| Arc::from(*name))));
        self.show();
        self
    }

    pub(crate) fn opaque(mut self, number: u128) -> Self {
        self.desired.learn(endpoint_id(number), Some(Learned::Opaque));
        self.show();
        self
    }

    /// Fallback chains.
    pub(crate) fn chain(mut self, model: &str, then: &[&str]) -> Self {
        let chain = then.iter().map(|name| Arc::from(*name)).collect::<Vec<_>>();
        self.rules.fallbacks = Fallbacks::new(&[(Arc::from(model), chain)].into_iter().collect());
        self
    }

    pub(crate) fn show(&mut self) {
        let touched = self.desired.take_touched();
        let _ = self.serving.update(&self.desired, &touched);
    }

    fn node(&self) -> Node<'_> {
        node!(self)
    }

    /// Whatever replicas say of the request in turn, until it is answered here, taken, or out of candidates.
    pub(crate) fn admit(&mut self, parts: Parts, body: &str) -> Result<Choosing, Box<Answer>> {
        let node = node!(self);
        let gate = Gate::open(parts, Connection::new(self.peer, false), node, &mut self.draws)?;
        let ledger = gate.ledger_key().is_some().then_some(&mut self.ledger);
        let gated = gate.pass(ledger, node)?;
        let admitted = gated.route(Bytes::copy_from_slice(body.as_bytes()), node)?;
        Ok(admitted.begin(&mut self.budget, node))
    }

    pub(crate) fn choose(&mut self, mut choosing: Choosing) -> Result<(Attempt, Request<Payload>), Box<Answer>> {
        loop {
            self.now.moment = self.now.moment.max(choosing.not_before().unwrap_or_default());
            let node = node!(self);
            match choosing.choose(&mut self.selection, node)? {
                Chosen::Send(attempt) => {
                    let request = attempt.request();
                    return Ok((attempt, request));
                }
                Chosen::Elsewhere(next) => choosing = next,
                Chosen::Queue(queued) => panic!("has to wait: {queued:?}"),
            }
        }
    }

    pub(crate) fn fail(&mut self, attempt: Attempt, stage: FailStage) -> Result<Choosing, Box<Answer>> {
        let node = node!(self);
        attempt.failed(stage, Failure::Broke, &mut self.budget, node)
    }

    /// The first replica's request.
    #[track_caller]
    pub(crate) fn reach(&mut self, parts: Parts, body: &str) -> Reached {
        match self.try_reach(parts, body) {
            Ok((reached, _)) => reached,
            Err(answer) => panic!("refused: {}", said(&answer)),
        }
    }

    pub(crate) fn try_reach(&mut self, parts: Parts, body: &str) -> Result<(Reached, Attempt), Box<Answer>> {
        let choosing = self.admit(parts, body)?;
        let (attempt, request) = self.choose(choosing)?;
        Ok((reached(&attempt, request), attempt))
    }

    /// `status code` of an answer made here, or the backend that was reached.
    pub(crate) fn verdict(&mut self, parts: Parts, body: &str) -> String {
        match self.try_reach(parts, body) {
            Ok((reached, _)) => reached.backend,
            Err(answer) => said(&answer),
        }
    }

    /// Every backend that is reached when none can be connected to, and the answer.
    pub(crate) fn all_fail(&mut self, parts: Parts, body: &str) -> (Vec<String>, String) {
        let mut tried = Vec::new();
        let mut choosing = match self.admit(parts, body) {
            Ok(choosing) => choosing,
            Err(answer) => return (tried, said(&answer)),
        };
        loop {
            let failed = self.choose(choosing).and_then(|(attempt, _)| {
                tried.push(attempt.backend().name.to_string());
                self.fail(attempt, FailStage::Connect)
            });
            choosing = match failed {
                Ok(choosing) => choosing,
                Err(answer) => return (tried, said(&answer)),
            };
        }
    }

    /// What the client gets of a replica's answer.
    pub(crate) fn reply(&mut self, attempt: Attempt, status: u16, lines: &[&str]) -> Result<Head, Box<Answer>> {
        let mut reply = http::Response::new(()).into_parts().0;
        reply.status = StatusCode::from_u16(status).unwrap();
        reply.headers = request("GET", "x", "/", lines).headers;
        reply.headers.remove("host");
        let node = node!(self);
        attempt.head(reply, &mut self.budget, node)
    }

    /// What is told of a question, by the decisions of a request.
    pub(crate) fn explain(&mut self, question: &Question) -> Explanation {
        let now = self.now.moment;
        let node = node!(self);
        explain(question, node, &mut Held { ledger: &mut self.ledger, selection: &self.selection, now })
    }

    pub(crate) fn page(&self, page: appproxy_core::exchange::Page) -> serde_json::Value {
        appproxy_core::exchange::page(page, self.node()).1
    }
}

struct Held<'a> {
    ledger: &'a mut RateLedger,
    selection: &'a Selection,
    now: Moment,
}

impl Figures for Held<'_> {
    fn rate(&mut self, key: &LedgerKey, limit: u32) -> RateFigures {
        self.ledger.look(key, limit, self.now)
    }

    fn next(&mut self, pool: &ModelPool, ask: &Ask<'_>) -> Option<Arc<Backend>> {
        self.selection.look_ahead(pool, ask)
    }

    fn loads(&self) -> &Loads {
        self.selection.loads()
    }
}

pub(crate) fn reached(attempt: &Attempt, request: Request<Payload>) -> Reached {
    let (parts, payload) = request.into_parts();
    Reached {
        backend: attempt.backend().name.to_string(),
        method: parts.method.to_string(),
        uri: parts.uri.to_string(),
        headers: parts.headers,
        body: String::from_utf8(payload.into_frames().concat()).unwrap(),
    }
}

/// The name of replica `at` of circuit `number`.
pub(crate) fn replica(number: u128, at: u128) -> String {
    format!("appproxy-{}-r{}", circuit_id(number), route(number * 10 + at, 1.0).route_id.unwrap())
}
