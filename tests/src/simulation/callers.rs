//! Callers of legacy workers, asking any node through the real gate and the real selection: with good tokens, other
//! circuits', old, ended, forged and no tokens, from inside and outside, at circuits' hosts and at the apex.
//!
//! What must hold of every request: none without a valid credential ever reaches a private circuit's replica, or a
//! fallback.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use appproxy_core::access::address::Peer;
use appproxy_core::config::worker::LegacyMode;
use appproxy_core::desired::circuit_of_name;
use appproxy_core::exchange::{
    Chosen, Code, Connection, Doors, Entrance, ExchangeRules, FailStage, Failure, Fallbacks, Gate, KeyGate,
    Node as Stand, RetryBudget,
};
use appproxy_core::secret::Secret;
use appproxy_fixtures::wire::token;
use bytes::Bytes;
use http::request::Parts;
use serde_json::json;
use uuid::Uuid;

use super::broken::{Broken, broken, must};
use super::changes::MODELS;
use super::node::{Node, STATIC};
use super::state::{Circuit, State};
use super::wildcard::{INSIDE, LABELS};
use super::world::World;

/// What coordinator and workers share for access tokens.
pub const JWT_SECRET: &str = "simulated-jwt-secret";

/// How many ask.
pub const CALLERS: usize = 24;

const LEEWAY: i64 = 60;
/// The end of tokens that do not end in any run.
const FAR: i64 = 9_999_999_999;
const HOSTNAME: &str = "router.example.com";

/// What only legacy workers are configured with.
#[must_use]
pub fn mode() -> LegacyMode {
    LegacyMode {
        jwt_secret: Secret::new(JWT_SECRET),
        jwt_leeway: Duration::from_secs(LEEWAY.cast_unsigned()),
        wildcard_domain: ".models.example.com".into(),
        aggregation_hosts: Vec::new(),
        model_names: Vec::new(),
    }
}

/// Everything the callers share.
#[derive(Debug)]
pub struct Callers {
    rules: ExchangeRules,
    turn: u64,
    /// The newest circuit of each label, and the one before it: their tokens are about.
    newest: [[Option<Uuid>; 2]; LABELS.len()],
    /// Tokens made already.
    minted: BTreeMap<Shown, Arc<str>>,
}

/// What a request shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Shown {
    Nothing,
    Forged(Uuid),
    /// A token of this circuit that ends at this second.
    Token(Uuid, i64),
}

/// One request.
#[derive(Debug)]
struct Call {
    /// `None` is the apex.
    label: Option<&'static str>,
    /// A path that needs no model.
    raw: bool,
    model: &'static str,
    inside: bool,
    shown: Shown,
    /// No replica can be reached, so that all that may stand in are asked, one after the other.
    all_fail: bool,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Became {
    Sent(Arc<str>),
    Refused(Option<Code>),
}

impl Callers {
    /// All of them.
    #[must_use]
    pub fn new() -> Self {
        let chains = MODELS.iter().map(|model| (Arc::from(*model), vec![Arc::from(STATIC)])).collect();
        let rules = ExchangeRules {
            key_gate: KeyGate::Published,
            entrance: Entrance::Circuits(Arc::new(Doors::new(&mode(), HOSTNAME))),
            fallbacks: Fallbacks::new(&chains),
            ..ExchangeRules::default()
        };
        Self { rules, turn: 0, newest: [[None; 2]; LABELS.len()], minted: BTreeMap::new() }
    }

    /// A circuit was made under a label.
    pub fn made(&mut self, id: Uuid, label: &str) {
        if let Some(place) = LABELS.iter().zip(&mut self.newest).find(|(it, _)| **it == label).map(|(_, place)| place) {
            *place = [Some(id), place[0]];
        }
    }

    /// The circuit whose token is shown by the holder of a label's newest (0) or former (1) token.
    fn id(&self, label: usize, age: usize) -> Uuid {
        self.newest.get(label % LABELS.len()).and_then(|ids| ids[age]).unwrap_or_default()
    }

    /// What is shown, as a token; making one costs more than all the rest of a request.
    fn token(&mut self, shown: Shown) -> Option<Arc<str>> {
        let signed = |secret, id: Uuid, exp| token::mint(secret, &json!({"id": id.to_string(), "exp": exp}));
        if self.minted.len() > CALLERS * LABELS.len() {
            self.minted.clear();
        }
        let made = || match shown {
            Shown::Nothing => String::new(),
            Shown::Forged(id) => signed("another-secret", id, FAR),
            Shown::Token(id, exp) => signed(JWT_SECRET, id, exp),
        };
        (shown != Shown::Nothing).then(|| self.minted.entry(shown).or_insert_with(|| made().into()).clone())
    }

    /// The next call of a caller. Every combination comes up in turn.
    fn call(&mut self, caller: usize, wall: i64) -> Call {
        self.turn += 1;
        let turn = usize::try_from(self.turn).unwrap_or_default();
        let place = (caller + turn) % (LABELS.len() + 1);
        let now = wall / 1000;
        let shown = match turn / 3 % 8 {
            0 => Shown::Nothing,
            1 => Shown::Forged(self.id(place, 0)),
            2 => Shown::Token(self.id(place + 1, 0), FAR),
            3 => Shown::Token(self.id(place, 1), FAR),
            4 => Shown::Token(self.id(place, 0), now - LEEWAY - 1),
            5 => Shown::Token(self.id(place, 0), now - LEEWAY),
            _ => Shown::Token(self.id(place, 0), FAR),
        };
        Call {
            label: LABELS.get(place).copied(),
            raw: turn.is_multiple_of(2),
            model: MODELS[turn / 5 % MODELS.len()],
            inside: !turn.is_multiple_of(3),
            shown,
            all_fail: turn % 4 == 1,
        }
    }
}

impl Default for Callers {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    /// The next callers ask, each another node.
    pub(super) fn callers_ask(&mut self) -> Result<(), Broken> {
        for _ in 0..2 {
            let turn = usize::try_from(self.callers.turn).unwrap_or_default();
            self.caller_asks(turn % CALLERS, turn % self.nodes.len())?;
        }
        Ok(())
    }

    /// Every caller asks one node, whose view has just changed.
    pub(super) fn every_caller_asks(&mut self, node: usize) -> Result<(), Broken> {
        (0..CALLERS).try_for_each(|caller| self.caller_asks(caller, node))
    }

    fn caller_asks(&mut self, caller: usize, place: usize) -> Result<(), Broken> {
        let now = self.clocks();
        let call = self.callers.call(caller, now.wall.0);
        let Some(node) = self.nodes.get_mut(place).and_then(Option::as_mut) else { return Ok(()) };
        self.totals.asked += 1;
        let (became, asked) = call.ask(node, &mut self.callers, now);
        match &became {
            Became::Sent(_) => self.totals.served += 1,
            Became::Refused(Some(Code::EndpointNotFound | Code::ModelNotFound)) => self.totals.not_found += 1,
            Became::Refused(_) => self.totals.refused += 1,
        }
        let state = node.in_force.clone();
        for backend in &asked {
            self.totals.stood_in += u64::from(&**backend == STATIC);
            call.harmless(backend, &state, now.wall.seconds())?;
        }
        let pulled = node.worker.standing().last_full_pull.is_some();
        call.as_expected(&became, &state, now.wall.seconds(), pulled)
    }
}

impl Call {
    fn parts(&self, token: Option<&str>) -> Parts {
        let host =
            self.label.map_or_else(|| "models.example.com".to_owned(), |it| format!("{it}.Models.example.com:1"));
        let path = if self.raw && self.label.is_some() { "/any/path" } else { "/v1/chat/completions" };
        let request = http::Request::post(path).header("host", host).header("content-type", "application/json");
        let request = match token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        };
        request.body(()).map_or_else(|_| http::Request::new(()).into_parts().0, |request| request.into_parts().0)
    }

    /// What became of it, and every backend that was asked.
    fn ask(&self, node: &mut Node, callers: &mut Callers, now: appproxy_core::time::Now) -> (Became, Vec<Arc<str>>) {
        let token = callers.token(self.shown);
        let stand = Stand { rules: &callers.rules, view: &node.view, control: &node.control, now, file_refused: false };
        let address = if self.inside { [10, 0, 0, 7] } else { [192, 0, 2, 7] };
        let connection = Connection::new(Peer::Ip(address.into()), false);
        let body = Bytes::from(format!("{{\"model\": \"{}\"}}", self.model));
        let (selection, ledger) = (&mut node.selection, &mut node.ledger);
        let mut next = Gate::open(self.parts(token.as_deref()), connection, stand, &mut node.draws)
            .and_then(|gate| gate.pass(Some(ledger), stand))
            .and_then(|gated| gated.route(body, stand))
            .map(|admitted| admitted.begin(&mut RetryBudget::default(), stand));
        let mut asked = Vec::new();
        loop {
            match next.and_then(|choosing| choosing.choose(selection, stand)) {
                Ok(Chosen::Send(attempt)) => {
                    asked.push(attempt.backend().name.clone());
                    if !self.all_fail {
                        let _ = attempt.gone();
                        break;
                    }
                    next = attempt.failed(FailStage::Connect, Failure::Broke, &mut RetryBudget::default(), stand);
                }
                Ok(Chosen::Elsewhere(choosing)) => next = Ok(choosing),
                Ok(Chosen::Queue(_)) => unreachable!("no bounds are configured"),
                Err(answer) if asked.is_empty() => return (Became::Refused(answer.outcome.denial), asked),
                Err(_) => break,
            }
        }
        let first = asked.first().cloned().unwrap_or_default();
        (Became::Sent(first), asked)
    }

    /// Whether a circuit opens to this call, and if not, what is said.
    fn judged(&self, id: Uuid, circuit: &Circuit, now: i64) -> Result<(), Code> {
        match circuit.addresses.as_deref() {
            None | Some(" ") => {}
            Some(INSIDE) if self.inside => {}
            Some(_) => return Err(Code::IpNotAllowed),
        }
        match self.shown {
            _ if circuit.public => Ok(()),
            Shown::Nothing => Err(Code::MissingToken),
            Shown::Forged(_) => Err(Code::InvalidToken),
            Shown::Token(_, exp) if exp < now - LEEWAY => Err(Code::ExpiredToken),
            Shown::Token(of, _) if of != id => Err(Code::TokenMismatch),
            Shown::Token(..) => Ok(()),
        }
    }

    /// The invariant, for whatever was sent to a backend.
    fn harmless(&self, backend: &str, state: &State, now: i64) -> Result<(), Broken> {
        let rule = "no request without a valid credential reaches a private circuit's replica or a fallback";
        let asked = |circuit: &Circuit| self.label.is_none_or(|label| circuit.label.as_deref() == Some(label));
        let mut open = state.circuits.iter().filter(|(id, circuit)| self.judged(**id, circuit, now).is_ok());
        let right = match circuit_of_name(backend) {
            Some(to) => open.any(|(id, circuit)| *id == to.0 && asked(circuit)),
            None => backend == STATIC && open.any(|(_, circuit)| asked(circuit)),
        };
        must(right, rule, || format!("{self:?} to {backend}: {:?}", state.circuits))
    }

    /// At a circuit's host the state in force says what must come of it; of two circuits with one label, either may.
    fn as_expected(&self, became: &Became, state: &State, now: i64, pulled: bool) -> Result<(), Broken> {
        let Some(label) = self.label else { return Ok(()) };
        let holders = state.circuits.iter().filter(|(_, circuit)| circuit.label.as_deref() == Some(label));
        let mut expected: Vec<_> = holders.map(|(id, it)| self.judged(*id, it, now).map(|()| it)).collect();
        if !pulled {
            expected = vec![Err(Code::NotReady)];
        } else if expected.is_empty() {
            expected = vec![Err(Code::EndpointNotFound)];
        }
        let fits = |expected: &Result<&Arc<Circuit>, Code>| match (expected, became) {
            (Err(code), Became::Refused(said)) => said.as_ref() == Some(code),
            (Ok(circuit), Became::Sent(backend)) => circuit.ports.is_empty() || circuit_of_name(backend).is_some(),
            // Until its model is known calls wait; what needs no model passes.
            (Ok(_), Became::Refused(Some(Code::ModelNotReady))) => !self.raw,
            (Ok(circuit), Became::Refused(said)) => circuit.ports.is_empty() && *said == Some(Code::ModelUnavailable),
            (Err(_), Became::Sent(_)) => false,
        };
        if expected.iter().any(fits) {
            return Ok(());
        }
        broken("a request is judged by the circuit in force", format!("{self:?}: {became:?} instead of {expected:?}"))
    }
}
