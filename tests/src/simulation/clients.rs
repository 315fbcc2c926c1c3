//! Twenty clients, asking any node through the real gate and the real selection, and what they must be told.

use std::sync::Arc;

use appproxy_core::access::address::Peer;
use appproxy_core::desired::circuit_of_name;
use appproxy_core::exchange::{
    Chosen, Connection, ExchangeRules, Gate, KeyGate, Node as Stand, OperatorKey, OperatorKeys, RetryBudget, token_hash,
};
use appproxy_core::secret::Secret;
use bytes::Bytes;
use http::request::Parts;

use super::broken::{Broken, broken, must};
use super::changes::{KEYS, MODELS};
use super::node::{Node, STATIC};
use super::run::Kind;
use super::state::{Publication, State};
use super::world::World;

/// How many ask.
pub const CLIENTS: usize = 20;

const OPERATOR: &str = "operator-secret";

/// What a client must be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Served,
    NotReady,
    BadKey,
    NotAllowed,
    NotFound,
    Unavailable,
}

/// Everything the clients share.
#[derive(Debug)]
pub struct Clients {
    rules: ExchangeRules,
    requests: Vec<Request>,
    turn: usize,
}

#[derive(Debug)]
struct Request {
    /// The key's id; `None` is the operator's.
    key: Option<&'static str>,
    /// The secret that `parts` shows.
    shown: String,
    hash: [u8; 32],
    model: String,
    parts: Parts,
    body: Bytes,
}

impl Request {
    fn new(client: usize) -> Self {
        let key = KEYS.get(client % (KEYS.len() + 1)).copied();
        let model = match (key, client % 7) {
            (None, _) => STATIC.to_owned(),
            (_, 6) => "never-published".to_owned(),
            (_, 5) => format!("{}-alias", MODELS[client % 3]),
            (_, number) => MODELS[number % MODELS.len()].to_owned(),
        };
        let body = Bytes::from(format!("{{\"model\": \"{model}\", \"messages\": []}}"));
        let mut request = Self { key, shown: String::new(), hash: [0; 32], model, parts: parts("none"), body };
        request.show(if key.is_some() { "unknown" } else { OPERATOR });
        request
    }

    fn show(&mut self, secret: &str) {
        secret.clone_into(&mut self.shown);
        self.hash = token_hash(&Secret::new(secret)).0;
        self.parts = parts(secret);
    }
}

fn parts(secret: &str) -> Parts {
    let request = http::Request::post("/v1/chat/completions")
        .header("host", "router.example.com")
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {secret}"))
        .body(());
    request.map_or_else(|_| http::Request::new(()).into_parts().0, |request| request.into_parts().0)
}

impl Clients {
    /// All of them.
    #[must_use]
    pub fn new() -> Self {
        let operator = OperatorKey {
            id: "operator".into(),
            hash: token_hash(&Secret::new(OPERATOR)),
            allowed_models: Vec::new(),
            rate_limit: None,
            allowed_client_ips: None,
            expires_at: None,
        };
        let rules = ExchangeRules {
            key_gate: KeyGate::Published,
            operator_keys: OperatorKeys::new([operator]),
            ..ExchangeRules::default()
        };
        Self { rules, requests: (0..CLIENTS).map(Request::new).collect(), turn: 0 }
    }
}

impl Default for Clients {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    /// The next clients ask, each another node.
    pub(super) fn clients_ask(&mut self) -> Result<(), Broken> {
        if self.kind == Kind::Legacy {
            return self.callers_ask();
        }
        for _ in 0..2 {
            self.clients.turn += 1;
            let (client, node) = (self.clients.turn % CLIENTS, self.clients.turn % self.nodes.len());
            // A client uses the newest secret of its key, every fourth time only: in between it may use a revoked one.
            if self.clients.turn.is_multiple_of(4) {
                self.renew(client);
            }
            self.client_asks(client, node)?;
        }
        Ok(())
    }

    /// Every client asks one node, whose view has just changed.
    pub(super) fn everybody_asks(&mut self, node: usize) -> Result<(), Broken> {
        if self.kind == Kind::Legacy {
            return self.every_caller_asks(node);
        }
        (0..CLIENTS).try_for_each(|client| {
            // Half of them always know the newest secret of their key.
            if client.is_multiple_of(2) {
                self.renew(client);
            }
            self.client_asks(client, node)
        })
    }

    fn renew(&mut self, client: usize) {
        let Some(request) = self.clients.requests.get_mut(client) else { return };
        if let Some((secret, _)) = request.key.and_then(|key| self.manager.secrets.get(key))
            && *secret != request.shown
        {
            request.show(secret);
        }
    }

    fn client_asks(&mut self, client: usize, place: usize) -> Result<(), Broken> {
        let now = self.clocks();
        let (Some(request), Some(node)) =
            (self.clients.requests.get(client), self.nodes.get_mut(place).and_then(Option::as_mut))
        else {
            return Ok(());
        };
        self.totals.asked += 1;
        let expected = request.verdict(&node.in_force, now.wall.0);
        let (verdict, backend) = request.ask(node, &self.clients.rules, now);
        match verdict {
            Verdict::Served => self.totals.served += 1,
            Verdict::NotFound => self.totals.not_found += 1,
            _ => self.totals.refused += 1,
        }
        if verdict != expected {
            let rule = match (verdict, expected) {
                (Verdict::Served, Verdict::BadKey) => "a key that is gone or expired is never admitted",
                (Verdict::Served, _) => "nothing unpublished is served, and no request sees half of a change",
                _ if request.key.is_none() => "static backends stay untouched",
                _ => "a request is judged by the state in force",
            };
            return broken(rule, format!("{request:?}: {verdict:?} instead of {expected:?}"));
        }
        let Some(backend) = backend else { return Ok(()) };
        let state = &node.in_force;
        let right = match circuit_of_name(&backend) {
            None => request.key.is_none() && &*backend == STATIC,
            Some(id) => state.circuits.get(&id.0).is_some_and(|circuit| {
                let mut mapped = request.claims(state).flat_map(|it| &it.mappings);
                mapped.any(|(endpoint, _)| *endpoint == circuit.endpoint)
            }),
        };
        must(right, "a request goes only to a replica that is published for its model", || {
            format!("{} to {backend}", request.model)
        })
    }
}

impl Request {
    fn claims<'a>(&'a self, state: &'a State) -> impl Iterator<Item = &'a Arc<Publication>> {
        state
            .publications
            .iter()
            .filter(|(name, it)| **name == self.model || it.aliases.contains(&self.model))
            .map(|(_, it)| it)
    }

    /// What the state in force says.
    fn verdict(&self, state: &State, wall: i64) -> Verdict {
        if self.key.is_none() {
            return Verdict::Served;
        }
        if !state.keys_loaded {
            return Verdict::NotReady;
        }
        let mut valid = state.keys.values().filter(|key| key.hash == self.hash);
        let Some(key) = valid.find(|key| key.expires_at.is_none_or(|at| wall < at)) else { return Verdict::BadKey };
        if self.claims(state).next().is_none() {
            return Verdict::NotFound;
        }
        if !key.allowed.is_empty() && !key.allowed.contains(&self.model) {
            return Verdict::NotAllowed;
        }
        let serves = |endpoint| state.circuits.values().any(|it| it.endpoint == endpoint && !it.ports.is_empty());
        let served = self.claims(state).any(|it| it.mappings.iter().any(|(endpoint, _)| serves(*endpoint)));
        if served { Verdict::Served } else { Verdict::Unavailable }
    }

    /// What the node says, and where it sends the request.
    fn ask(
        &self,
        node: &mut Node,
        rules: &ExchangeRules,
        now: appproxy_core::time::Now,
    ) -> (Verdict, Option<Arc<str>>) {
        let stand = Stand { rules, view: &node.view, control: &node.control, now, file_refused: false };
        let connection = Connection::new(Peer::Ip([127, 0, 0, 1].into()), false);
        let (selection, ledger) = (&mut node.selection, &mut node.ledger);
        let result = Gate::open(self.parts.clone(), connection, stand, &mut node.draws)
            .and_then(|gate| gate.pass(Some(ledger), stand))
            .and_then(|gated| gated.route(self.body.clone(), stand))
            .and_then(|admitted| admitted.begin(&mut RetryBudget::default(), stand).choose(selection, stand));
        match result {
            Ok(Chosen::Elsewhere(_) | Chosen::Queue(_)) => unreachable!("neither chains nor bounds are configured"),
            Ok(Chosen::Send(attempt)) => {
                let backend = attempt.backend().name.clone();
                let _ = attempt.gone();
                (Verdict::Served, Some(backend))
            }
            Err(answer) => {
                use appproxy_core::exchange::Code;
                let verdict = match answer.outcome.denial {
                    Some(Code::NotReady) => Verdict::NotReady,
                    Some(Code::ModelNotFound) => Verdict::NotFound,
                    Some(Code::ModelNotAllowed) => Verdict::NotAllowed,
                    Some(Code::ModelUnavailable) => Verdict::Unavailable,
                    _ => Verdict::BadKey,
                };
                (verdict, None)
            }
        }
    }
}
