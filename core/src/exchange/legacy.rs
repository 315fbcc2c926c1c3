//! The way in to a wildcard worker: host, address, token, and what of the circuits a caller may use (worker-protocol
//! 4.4; 9, Legacy).

use core::net::IpAddr;
use http::header::{CONNECTION, UPGRADE};
use http::request::Parts;
use http::{Method, StatusCode};
use std::sync::Arc;

use super::answer::Answer;
use super::control::Node;
use super::cors;
use super::credential;
use super::denial::{Code, Denial};
use super::explain::{AccessToken, Question};
use super::gate::lost;
use super::holder::{Granted, Holder, forbidden, not_found};
use super::pages;
use super::passage::Carried;
use super::rendezvous::mix;
use super::surface::{self, Destination};
use crate::access::host::{self, Hosts, Place};
use crate::access::key_store::KeyRecord;
use crate::access::token::{self, Claims, TokenRefusal, TokenVerifier};
use crate::config::worker::LegacyMode;
use crate::defects::{Defect, has};
use crate::serving::{CircuitModel, ModelPool, ServedCircuit};
use crate::trie::Spread as _;
use crate::wire::ids::CircuitId;
use crate::worker::defects as control;

/// Seconds until a node that has not pulled yet may have.
const PULL_RETRY_AFTER: u32 = 5;

/// What the configuration says of hosts and tokens.
#[derive(Debug, Clone)]
pub struct Doors {
    hosts: Hosts,
    tokens: TokenVerifier,
}

impl Doors {
    /// Of a legacy worker that clients reach under `hostname`.
    #[must_use]
    pub fn new(mode: &LegacyMode, hostname: &str) -> Self {
        let further = mode.aggregation_hosts.iter().map(String::as_str);
        Self {
            hosts: Hosts::new(&mode.wildcard_domain, further, hostname),
            tokens: TokenVerifier::new(&mode.jwt_secret, mode.jwt_leeway),
        }
    }
}

/// Who asks, and what opens to them. Judged anew at every step, in the view of that moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Caller {
    /// The circuit whose host was asked; `None` on the aggregation surface.
    pinned: Option<CircuitId>,
    client: Option<IpAddr>,
    claims: Result<Claims, TokenRefusal>,
    /// On the aggregation surface: static models are for these alone.
    operator: Option<KeyRecord>,
}

/// Why a circuit does not open to a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closed {
    Address,
    Token(TokenRefusal),
}

/// Takes a request in by its host.
pub(super) fn enter(
    mut passage: Carried,
    doors: &Doors,
    client: Option<IpAddr>,
    node: Node<'_>,
) -> Result<Carried, Box<Answer>> {
    let parts = &passage.parts;
    let place = match host::asked(parts) {
        Some(host) => doors.hosts.place(host),
        None => {
            let denial = Denial::new(Code::InvalidRequest, "The request has no Host line. Send one.");
            return Err(passage.refuse(&denial));
        }
    };
    let found = match place {
        Place::Label(label) => {
            let mut circuit = node.view.registry().at(&label).cloned();
            if has(Defect::AnyLabel) {
                circuit = circuit.or_else(|| node.view.registry().circuits().next().cloned());
            }
            if has(Defect::PagesEverywhere)
                && let Ok(Destination::Page(page)) = surface::destination(&parts.method, parts.uri.path())
            {
                return Err(pages::answer(page, passage.end(), node));
            }
            match at_circuit(parts, circuit.as_deref(), doors, client, node) {
                Ok(Passing::Preflight) => return Err(preflight(passage)),
                Ok(Passing::To(destination, caller)) => Ok((destination, caller)),
                Err(denial) => Err(denial),
            }
        }
        Place::Aggregation if cors::is_preflight(parts) => return Err(preflight(passage)),
        Place::Aggregation => aggregated(&mut passage, doors, client, node),
        Place::Node => match surface::destination(&parts.method, parts.uri.path()) {
            Ok(Destination::Page(page)) => return Err(pages::answer(page, passage.end(), node)),
            _ => Err(endpoint_not_found()),
        },
        Place::Elsewhere => Err(endpoint_not_found()),
    };
    match found {
        Ok((Destination::Page(page), _)) => Err(pages::answer(page, passage.end(), node)),
        Ok((destination, caller)) => {
            (passage.destination, passage.holder) = (destination, Holder::Caller(caller));
            Ok(passage)
        }
        Err(denial) => Err(passage.refuse(&denial)),
    }
}

/// Who would ask as `question` says, and what was taken for granted of the token: for people's questions.
pub(super) fn imagined(
    question: &Question,
    doors: &Doors,
    node: Node<'_>,
    assumed: &mut Option<String>,
) -> Result<Caller, Denial> {
    if !node.control.has_pulled() {
        return Err(not_pulled());
    }
    let client = question.client;
    let mut token_of =
        |unsaid: AccessToken, circuit: Option<&ServedCircuit>| match (question.access_token.unwrap_or(unsaid), circuit)
        {
            (AccessToken::Of(id), _) => Ok(Claims::imagined(id)),
            (AccessToken::Good, Some(circuit)) => {
                *assumed = Some(format!("a good access token of circuit {}", circuit.id.0));
                Ok(Claims::imagined(circuit.id))
            }
            (AccessToken::Good | AccessToken::Absent, _) => Err(TokenRefusal::Missing),
        };
    match question.host.as_deref().map(|host| doors.hosts.place(host.as_bytes())) {
        Some(Place::Label(label)) => {
            let circuit = node.view.registry().at(&label).ok_or_else(endpoint_not_found)?;
            let claims = if circuit.open_to_public {
                Err(TokenRefusal::Missing)
            } else {
                token_of(AccessToken::Good, Some(circuit))
            };
            let caller = Caller { pinned: Some(circuit.id), client, claims, operator: None };
            caller.judge(circuit).map_err(closed)?;
            Ok(caller)
        }
        None | Some(Place::Aggregation) => {
            let serving = node.view.registry().serving(&question.model);
            let private = serving.filter(|circuit| !circuit.open_to_public);
            let best = private.min_by_key(|circuit| (!circuit.addresses.allows(client), !circuit.pool.can_serve()));
            let unsaid = if question.key_id.is_some() { AccessToken::Absent } else { AccessToken::Good };
            let claims = token_of(unsaid, best.map(|circuit| &**circuit));
            let named = question.key_id.as_deref().map(|id| credential::operator_named(id, node));
            let operator = named.transpose()?;
            Ok(Caller { pinned: None, client, claims, operator })
        }
        Some(Place::Node | Place::Elsewhere) => Err(endpoint_not_found()),
    }
}

/// How a request to a circuit goes on.
enum Passing {
    Preflight,
    To(Destination, Caller),
}

fn at_circuit(
    parts: &Parts,
    circuit: Option<&ServedCircuit>,
    doors: &Doors,
    client: Option<IpAddr>,
    node: Node<'_>,
) -> Result<Passing, Denial> {
    if !node.control.has_pulled() {
        return Err(not_pulled());
    }
    let circuit = circuit.ok_or_else(endpoint_not_found)?;
    let mut caller = Caller { pinned: Some(circuit.id), client, claims: Err(TokenRefusal::Missing), operator: None };
    // The address comes before all that a credential could say; a browser's question carries none.
    if caller.judge(circuit) == Err(Closed::Address) {
        return Err(closed(Closed::Address));
    }
    if cors::is_preflight(parts) || (parts.method == Method::OPTIONS && has(Defect::OptionsNeedNothing)) {
        return Ok(Passing::Preflight);
    }
    if !circuit.open_to_public {
        caller.claims = claims(parts, doors, node);
        caller.judge(circuit).map_err(closed)?;
    }
    let destination = match surface::destination(&parts.method, parts.uri.path()) {
        Ok(aware @ (Destination::BodyModel | Destination::PathModel { .. })) => match circuit.model {
            CircuitModel::Known { .. } => aware,
            CircuitModel::Opaque if has(Defect::OpaqueHeld) => return Err(not_ready()),
            CircuitModel::Held if !has(Defect::HeldServes) => return Err(not_ready()),
            CircuitModel::Held | CircuitModel::Opaque => raw(parts),
        },
        _ => raw(parts),
    };
    Ok(Passing::To(destination, caller))
}

fn aggregated(
    passage: &mut Carried,
    doors: &Doors,
    client: Option<IpAddr>,
    node: Node<'_>,
) -> Result<(Destination, Caller), Denial> {
    let parts = &passage.parts;
    let destination = surface::destination(&parts.method, parts.uri.path()).map_err(lost)?;
    let claims = claims(parts, doors, node);
    let mut caller = Caller { pinned: None, client, claims, operator: None };
    if matches!(destination, Destination::Page(_)) {
        return Ok((destination, caller));
    }
    if !node.control.has_pulled() {
        return Err(not_pulled());
    }
    caller.operator = credential::operator(passage, node)?;
    Ok((destination, caller))
}

/// What passes untouched; a WebSocket may be asked for on the way.
fn raw(parts: &Parts) -> Destination {
    let names = |header, wanted: &[u8]| {
        let lines = parts.headers.get_all(header).iter();
        let mut words = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
        words.any(|word| word.trim_ascii().eq_ignore_ascii_case(wanted))
    };
    // No other protocol: an upgrade to HTTP/2 would hide further requests from us.
    let upgrade = parts.method == Method::GET && names(CONNECTION, b"upgrade") && names(UPGRADE, b"websocket");
    let upgrade = upgrade && !has(Defect::UpgradesRefused);
    Destination::Raw { upgrade }
}

fn claims(parts: &Parts, doors: &Doors, node: Node<'_>) -> Result<Claims, TokenRefusal> {
    doors.tokens.read(token::shown(&parts.headers).ok_or(TokenRefusal::Missing)?, node.now.wall)
}

fn preflight(passage: Carried) -> Box<Answer> {
    let headers = cors::preflight(&passage.parts.headers, cors::EVERY_METHOD);
    Answer::empty(passage.end(), StatusCode::NO_CONTENT, headers)
}

impl Caller {
    /// Whether a circuit opens to this caller: the one decision behind every way to a circuit's replicas.
    fn judge(&self, circuit: &ServedCircuit) -> Result<(), Closed> {
        if control::has(control::Defect::ChainBeforeToken) && !circuit.pool.can_serve() {
            return Ok(());
        }
        if !circuit.addresses.allows(self.client) && !control::has(control::Defect::AddressesNotAsked) {
            return Err(Closed::Address);
        }
        if circuit.open_to_public {
            return Ok(());
        }
        let claims = self.claims.map_err(Closed::Token)?;
        if claims.opens(circuit.id) || control::has(control::Defect::TokenOfAnyCircuit) {
            Ok(())
        } else {
            Err(Closed::Token(TokenRefusal::Mismatch))
        }
    }

    pub(super) const fn operator(&self) -> Option<&KeyRecord> {
        self.operator.as_ref()
    }

    /// The circuit whose host was asked; `None` on the aggregation surface.
    pub(super) const fn circuit(&self) -> Option<CircuitId> {
        self.pinned
    }

    /// The token that an imagined caller shows, in words.
    pub(super) fn shown_token(&self) -> String {
        match self.claims.as_ref().map(Claims::circuit) {
            Ok(Some(circuit)) => format!("a good one of circuit {}", circuit.0),
            Ok(None) => "a good one of no circuit".to_owned(),
            Err(_) => "none is shown; public circuits need none".to_owned(),
        }
    }

    /// Whether only one circuit is asked, as its own clients know it: every API passes, and a model that it does not
    /// list becomes its canonical one.
    pub(super) const fn is_pinned(&self) -> bool {
        self.pinned.is_some()
    }

    /// As [`Holder::asks_unseen`].
    pub(super) fn asks_unseen(&self, id: CircuitId, node: Node<'_>) -> bool {
        let circuit = node.view.registry().circuit(id);
        self.is_pinned() && circuit.is_some_and(|circuit| !matches!(circuit.model, CircuitModel::Known { .. }))
    }

    /// What serves a request that asks for `asked` (`None`: for no model), or why nothing does. `spread` parts requests
    /// over circuits.
    pub(super) fn grant<'a>(
        &self,
        asked: Option<&Arc<str>>,
        spread: u64,
        node: Node<'a>,
    ) -> Result<Granted<'a>, Denial> {
        match (self.pinned, asked) {
            (Some(id), _) => self.grant_pinned(id, asked, node),
            (None, Some(asked)) => self.grant_any(asked, spread, node),
            (None, None) => Err(not_found("")),
        }
    }

    fn grant_pinned<'a>(&self, id: CircuitId, asked: Option<&Arc<str>>, node: Node<'a>) -> Result<Granted<'a>, Denial> {
        let circuit = node.view.registry().circuit(id).ok_or_else(endpoint_not_found)?;
        self.judge(circuit).map_err(closed)?;
        let model = match (&circuit.model, asked) {
            (CircuitModel::Known { .. }, Some(asked)) if circuit.lists(asked) || has(Defect::ModelNotPinned) => {
                asked.clone()
            }
            (CircuitModel::Known { canonical, .. }, _) => canonical.clone(),
            (CircuitModel::Held, Some(_)) => return Err(not_ready()),
            // It was known when the request came, and is not any more: what was asked stays.
            (CircuitModel::Opaque, Some(asked)) => asked.clone(),
            (CircuitModel::Held | CircuitModel::Opaque, None) => Arc::default(),
        };
        Ok(Granted { model, pool: &circuit.pool, siblings: Vec::new() })
    }

    fn grant_any<'a>(&self, asked: &Arc<str>, spread: u64, node: Node<'a>) -> Result<Granted<'a>, Denial> {
        if self.operator.as_ref().is_some_and(|record| !record.may_use(asked)) {
            let exists = node.view.names_model(asked);
            return Err(if exists { forbidden(asked, node) } else { not_found(asked) });
        }
        let mut open = Vec::new();
        let mut refused = None;
        for circuit in node.view.registry().serving(asked) {
            match self.judge(circuit) {
                Ok(()) => open.push(circuit),
                Err(_) if control::has(control::Defect::ApexOpensAll) => open.push(circuit),
                // A token opens what an address list does not, so it is the token that is worth speaking of.
                Err(why @ Closed::Token(_)) => refused = Some(why),
                Err(Closed::Address) => refused = refused.or(Some(Closed::Address)),
            }
        }
        // Those that can serve first, each as often as the next one.
        open.sort_by_key(|circuit| (!circuit.pool.can_serve(), mix(spread ^ circuit.id.0.spread())));
        let mut open = open.into_iter();
        if let Some(first) = open.next() {
            // Taken from the end.
            let siblings = open.rev().map(|circuit| circuit.pool.key.clone()).collect();
            return Ok(Granted { model: asked.clone(), pool: &first.pool, siblings });
        }
        if let Some(pool) = node.view.static_model(asked).filter(|_| self.operator.is_some()) {
            return Ok(Granted { model: asked.clone(), pool, siblings: Vec::new() });
        }
        Err(refused.map_or_else(|| not_found(asked), closed))
    }

    /// The pool of a circuit, while it is there and opens to this caller.
    pub(super) fn circuit_pool<'a>(&self, id: CircuitId, node: Node<'a>) -> Option<&'a Arc<ModelPool>> {
        let circuit = node.view.registry().circuit(id)?;
        self.judge(circuit).is_ok().then_some(&circuit.pool)
    }

    /// What stands in for a model of a chain: a circuit that opens to this caller (another one's token never does), else
    /// static backends. The operator configured the chain: whose key it is does not matter there.
    pub(super) fn stand_in<'a>(&self, model: &str, spread: u64, node: Node<'a>) -> Option<&'a Arc<ModelPool>> {
        let open = node.view.registry().serving(model).filter(|circuit| self.judge(circuit).is_ok());
        let circuit = open.min_by_key(|circuit| (!circuit.pool.can_serve(), mix(spread ^ circuit.id.0.spread())));
        circuit.map(|circuit| &circuit.pool).or_else(|| node.view.static_model(model))
    }

    /// Every name this caller may use on the aggregation surface, sorted.
    pub(super) fn models<'a>(&'a self, node: Node<'a>) -> Vec<&'a Arc<str>> {
        let registry = node.view.registry();
        let opens = |name: &&Arc<str>| registry.serving(name).any(|circuit| self.judge(circuit).is_ok());
        let statics = self.operator.is_some().then(|| node.view.static_models().map(|(name, _)| name));
        registry.models().filter(opens).chain(statics.into_iter().flatten()).collect()
    }
}

fn closed(why: Closed) -> Denial {
    match why {
        Closed::Address => Denial::new(
            Code::IpNotAllowed,
            "This endpoint may not be used from your network address. Use it from an allowed one.",
        ),
        Closed::Token(TokenRefusal::Missing) => Denial::new(
            Code::MissingToken,
            "This endpoint needs an access token. Send it as `Authorization: Bearer <token>`.",
        ),
        Closed::Token(TokenRefusal::Invalid) => {
            Denial::new(Code::InvalidToken, "The access token is not valid. Check it, or ask for another.")
        }
        Closed::Token(TokenRefusal::Expired) => {
            Denial::new(Code::ExpiredToken, "The access token has expired. Ask for another.")
        }
        Closed::Token(TokenRefusal::Mismatch) => {
            Denial::new(Code::TokenMismatch, "The access token is for another endpoint. Use the one for this endpoint.")
        }
    }
}

fn endpoint_not_found() -> Denial {
    Denial::new(Code::EndpointNotFound, "There is no endpoint at this host name. Check the address.")
}

fn not_ready() -> Denial {
    Denial::new(Code::ModelNotReady, "The model of this endpoint is not known yet: it is starting. Try again shortly.")
}

fn not_pulled() -> Denial {
    Denial::new(Code::NotReady, "This server does not know its endpoints yet. Try again shortly.")
        .retry_after(PULL_RETRY_AFTER)
}
