//! A small world for the tests of this folder: a ROUTER worker with two published models, static backends and keys.
//!
//! Published: `m1` (alias `a1`) on one replica of vLLM, `org/c` on the same endpoint, `two` on two replicas, `empty` on
//! nothing. Static: `gpt` (alias `g`) on `openai`, `claude` on `anthropic`, `gemini` on `gemini`.

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request};
use std::sync::Arc;
use uuid::Uuid;

use super::operator_keys::hash_bytes;
use super::{
    Admitted, Answer, Attempt, Choosing, Chosen, Connection, Control, ExchangeRules, FailStage, Failure, Gate, Gated,
    Head, KeyGate, Node, OperatorKey, OperatorKeys, Payload, RetryBudget,
};
use crate::access::address::Peer;
use crate::access::rate_ledger::RateLedger;
use crate::desired::{BackendKind, Desired, Rules};
use crate::exchange::selection::Selection;
use crate::secret::Secret;
use crate::seed::{Draws, Seed};
use crate::serving::{Drain, RoutingWeights, Serving, ServingSettings, ServingView, StaticBackend, StaticModel};
use crate::time::{Moment, Now, UnixMillis};
use crate::wire::circuit::{AppMode, Circuit, Protocol, Ratio, Route};
use crate::wire::ids::{CircuitId, EndpointId, KeyId, NodeId, RouteId};
use crate::wire::key::ApiKey;
use crate::wire::publication::{ControlMode, Mapping, Publication};
use crate::worker::Standing;

pub(crate) const NAMES: [&str; 5] = ["a1", "empty", "m1", "org/c", "two"];
pub(crate) const ENDS: UnixMillis = UnixMillis(1_800_000_000_000);

pub(crate) type Sent = Result<(Attempt, Request<Payload>), Box<Answer>>;

pub(crate) struct World {
    pub(crate) rules: ExchangeRules,
    pub(crate) view: Arc<ServingView>,
    pub(crate) control: Control,
    pub(crate) now: Now,
    pub(crate) ledger: RateLedger,
    pub(crate) selection: Selection,
    pub(crate) draws: Draws,
    pub(crate) budget: RetryBudget,
    pub(crate) peer: Peer,
    pub(crate) file_refused: bool,
}

/// What a world shows to a request. No method: the world's other parts are changed meanwhile.
macro_rules! node {
    ($world:expr) => {
        Node {
            rules: &$world.rules,
            view: &$world.view,
            control: &$world.control,
            now: $world.now,
            file_refused: $world.file_refused,
        }
    };
}

/// The key whose text is `id`, with nothing special about it.
pub(crate) fn key(id: &str) -> ApiKey {
    ApiKey {
        key_id: KeyId::from(format!("id-of-{id}").as_str()),
        token_hash: hash_bytes(id.as_bytes()),
        allowed_models: Vec::new(),
        expires_at: None,
        rate_limit: None,
        allowed_client_ips: None,
    }
}

pub(crate) fn operator(id: &str) -> OperatorKey {
    OperatorKey {
        id: format!("id-of-{id}").into(),
        hash: hash_bytes(id.as_bytes()),
        allowed_models: Vec::new(),
        rate_limit: None,
        allowed_client_ips: None,
        expires_at: None,
    }
}

/// The keys of [`World::new`].
pub(crate) fn keys() -> Vec<ApiKey> {
    let allowed = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect();
    vec![
        key("all"),
        ApiKey { allowed_models: allowed(&["m1", "org/c", "not-published"]), ..key("some") },
        ApiKey { rate_limit: Some(3), ..key("three") },
        ApiKey { rate_limit: Some(0), ..key("zero") },
        ApiKey { allowed_client_ips: Some(vec!["10.0.0.0/8".to_owned()]), ..key("office") },
        ApiKey { expires_at: Some(ENDS), ..key("old") },
    ]
}

impl World {
    /// Keys: `all` (everything), `some` (`m1` and `org/c`), `three` (3 a minute), `zero`, `office` (10.0.0.0/8), `old`
    /// (expired at [`ENDS`]); operator key `root`.
    pub(crate) fn new() -> Self {
        Self::with_keys(keys())
    }

    pub(crate) fn with_keys(keys: Vec<ApiKey>) -> Self {
        let mut desired = desired();
        desired.replace_keys(keys.into_iter().map(|key| (key.key_id.clone(), key)).collect());
        let mut world = Self {
            rules: ExchangeRules {
                key_gate: KeyGate::Published,
                operator_keys: OperatorKeys::new([operator("root")]),
                ..ExchangeRules::default()
            },
            view: Arc::new(ServingView::default()),
            control: Control::Worker { authority: Arc::from("here"), standing: standing() },
            now: Now { moment: Moment::from_millis(5000), wall: UnixMillis(ENDS.0 - 1) },
            ledger: RateLedger::new(),
            selection: Selection::new(),
            draws: Draws::new(Seed::from_number(1)),
            budget: RetryBudget::new(),
            peer: Peer::Ip([192, 0, 2, 1].into()),
            file_refused: false,
        };
        world.show(&mut desired);
        world
    }

    pub(crate) fn show(&mut self, desired: &mut Desired) {
        self.show_drained(desired, &[]);
    }

    /// The same, after an operator drained these backends.
    pub(crate) fn show_drained(&mut self, desired: &mut Desired, backends: &[Arc<str>]) {
        let before = self.view.generation;
        let mut serving = Serving::new(&settings());
        let touched = desired.take_touched();
        self.view = serving.update(desired, &touched).unwrap().view;
        for backend in backends {
            serving.drain(&Drain { backend: backend.clone(), out: true });
        }
        let touched = desired.take_touched();
        if let Some(update) = serving.update(desired, &touched) {
            self.view = update.view;
        }
        // A worker never numbers two views alike.
        let mut view = (*self.view).clone();
        view.generation.0 += before.0;
        self.view = Arc::new(view);
    }

    pub(crate) fn node(&self) -> Node<'_> {
        node!(self)
    }

    pub(crate) fn pass(&mut self, request: Parts) -> Result<Gated, Box<Answer>> {
        let node = node!(self);
        let gate = Gate::open(request, Connection::new(self.peer, false), node, &mut self.draws)?;
        let ledger = gate.ledger_key().is_some().then_some(&mut self.ledger);
        gate.pass(ledger, node)
    }

    pub(crate) fn admit(&mut self, request: Parts, body: &str) -> Result<Admitted, Box<Answer>> {
        let gated = self.pass(request)?;
        gated.route(Bytes::copy_from_slice(body.as_bytes()), self.node())
    }

    /// The first attempt of a chat with this model.
    pub(crate) fn first(&mut self, parts: Parts, model: &str) -> Sent {
        let admitted = self.admit(parts, &format!("{{\"model\":\"{model}\"}}"))?;
        self.begin(admitted)
    }

    pub(crate) fn begin(&mut self, admitted: Admitted) -> Sent {
        let node = node!(self);
        let choosing = admitted.begin(&mut self.budget, node);
        self.send(choosing)
    }

    /// The next attempt, at the time it asks for.
    pub(crate) fn send(&mut self, mut choosing: Choosing) -> Sent {
        loop {
            self.now.moment = self.now.moment.max(choosing.not_before().unwrap_or_default());
            let node = Node {
                rules: &self.rules,
                view: &self.view,
                control: &self.control,
                now: self.now,
                file_refused: false,
            };
            match choosing.choose(&mut self.selection, node)? {
                Chosen::Send(attempt) => {
                    let request = attempt.request();
                    assert_head(&attempt, &request);
                    return Ok((attempt, request));
                }
                Chosen::Elsewhere(next) => choosing = next,
                Chosen::Queue(queued) => panic!("has to wait: {queued:?}"),
            }
        }
    }

    /// What follows a failed attempt.
    pub(crate) fn fail(&mut self, attempt: Attempt, stage: FailStage, failure: Failure) -> Sent {
        let node = node!(self);
        let choosing = attempt.failed(stage, failure, &mut self.budget, node)?;
        self.send(choosing)
    }

    /// What follows an answer whose body passes unread, whatever its status.
    pub(crate) fn reply(&mut self, attempt: Attempt, status: u16) -> Result<Head, Box<Answer>> {
        let mut reply = http::Response::new(()).into_parts().0;
        reply.status = http::StatusCode::from_u16(status).unwrap();
        reply.headers = lines_of(&["content-type: text/plain"]);
        let node = node!(self);
        attempt.head(reply, &mut self.budget, node)
    }

    /// The answer that is made here.
    pub(crate) fn answer(&mut self, request: Parts, body: &str) -> Box<Answer> {
        match self.admit(request, body) {
            Ok(admitted) => panic!("let through: {admitted:?}"),
            Err(answer) => answer,
        }
    }

    /// `code` of the answer's status and OpenAI code, or `200`.
    pub(crate) fn verdict(&mut self, request: Parts, body: &str) -> String {
        match self.admit(request, body) {
            Ok(_) => "let through".to_owned(),
            Err(answer) => said(&answer),
        }
    }
}

/// Both ways to a request's head say the same.
pub(crate) fn assert_head(attempt: &Attempt, request: &Request<Payload>) {
    let mut written = Vec::new();
    attempt.write_head(request.body(), &mut written);
    let mut lines = [httparse::EMPTY_HEADER; 64];
    let mut read = httparse::Request::new(&mut lines);
    let ended = read.parse(&written).unwrap();
    assert_eq!(ended, httparse::Status::Complete(written.len()), "{}", written.escape_ascii());
    assert_eq!(read.method, Some(request.method().as_str()));
    assert_eq!(read.path, request.uri().path_and_query().map(|path| path.as_str()));
    let mut lines: Vec<(&str, &[u8])> = read.headers.iter().map(|line| (line.name, line.value)).collect();
    lines.retain(|line| !attempt.is_chunked() || *line != ("transfer-encoding", b"chunked"));
    let mut wanted: Vec<(&str, &[u8])> =
        request.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    // The order of lines of one name counts, that of names does not.
    lines.sort_by_key(|line| line.0);
    wanted.sort_by_key(|line| line.0);
    assert_eq!(lines, wanted);
}

/// Status and code of an answer.
pub(crate) fn said(answer: &Answer) -> String {
    let code = answer.outcome.denial.map_or("", |code| code.label());
    format!("{} {code}", answer.status.as_u16()).trim_end().to_owned()
}

/// A request with `Host`, and headers given as `name: value` lines.
pub(crate) fn request(method: &str, path: &str, lines: &[&str]) -> Parts {
    let mut parts = Request::builder().method(method).uri(path).body(()).unwrap().into_parts().0;
    parts.headers = lines_of(lines);
    parts.headers.entry("host").or_insert(HeaderValue::from_static("models.example.com"));
    parts
}

pub(crate) fn lines_of(lines: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap();
        headers.append(name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap());
    }
    headers
}

/// A chat request of the key whose text is `key`.
pub(crate) fn chat(key: &str) -> Parts {
    request("POST", "/v1/chat/completions", &[&format!("authorization: Bearer {key}")])
}

pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
}

pub(crate) fn standing() -> Standing {
    Standing {
        node_id: NodeId(Uuid::from_u128(9)),
        worker_id: None,
        registered: true,
        bus_up: Some(true),
        last_full_pull: Some(Moment::START),
        revision: None,
        leaving: false,
        max_staleness: None,
        max_key_staleness: None,
        trouble: Vec::new(),
    }
}

fn settings() -> ServingSettings {
    let backend = |name: &str, kind, model: &str, aliases: &[&str]| StaticBackend {
        name: name.into(),
        kind,
        tls: true,
        host: format!("{name}.example.com").into(),
        port: 443,
        base_path: Arc::from("/v1"),
        credential: Some(Secret::new("backend-secret")),
        weight: 1,
        models: vec![StaticModel {
            name: model.into(),
            aliases: aliases.iter().map(|alias| Arc::from(*alias)).collect(),
        }],
        probed: true,
    };
    ServingSettings {
        rules: Rules::Router,
        weights: RoutingWeights::Normalised,
        backends: vec![
            backend("openai", BackendKind::OpenAi, "gpt", &["g"]),
            backend("anthropic", BackendKind::Anthropic, "claude", &[]),
            backend("gemini", BackendKind::Gemini, "gemini", &[]),
        ],
        ..ServingSettings::default()
    }
}

pub(crate) fn desired() -> Desired {
    let mut desired = Desired::new("here");
    for (endpoint, replicas) in [(1, 1), (2, 2)] {
        desired.upsert_circuit(circuit(endpoint, replicas));
    }
    let published =
        [("m1", &["a1"][..], Some(1)), ("org/c", &[], Some(1)), ("two", &[], Some(2)), ("empty", &[], None)];
    for (model, aliases, endpoint) in published {
        desired.upsert_publication(Publication {
            model: model.into(),
            aliases: aliases.iter().map(|alias| Arc::from(*alias)).collect(),
            mappings: endpoint
                .map(|id: u128| Mapping { endpoint_id: EndpointId(Uuid::from_u128(id)), ratio: Ratio(1.0) })
                .into_iter()
                .collect(),
            control_mode: ControlMode::Manual,
        });
    }
    desired
}

fn circuit(endpoint: u128, replicas: u16) -> Circuit {
    let route = |index: u16| Route {
        route_id: Some(RouteId(Uuid::from_u128(endpoint * 100 + u128::from(index)))),
        index: index.into(),
        session_id: None,
        kernel_host: Some("10.9.9.9".to_owned()),
        kernel_port: 9000 + index,
        protocol: Protocol::Http,
        traffic_ratio: Ratio(1.0),
        replica_group_id: None,
    };
    Circuit {
        id: CircuitId(Uuid::from_u128(endpoint * 10)),
        app: None,
        protocol: Protocol::Http,
        app_mode: AppMode::Inference,
        open_to_public: false,
        allowed_client_ips: None,
        subdomain: None,
        endpoint_id: Some(EndpointId(Uuid::from_u128(endpoint))),
        runtime_variant: Some("vllm".to_owned()),
        created_at: None,
        routes: (0..replicas).map(route).collect(),
        replica_groups: Vec::new(),
    }
}
