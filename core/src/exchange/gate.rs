//! The gate of a request, in the order of worker-protocol 5.3: key, address, rate, model.

use core::net::IpAddr;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use std::sync::Arc;

use super::answer::Answer;
use super::connection::Connection;
use super::control::Node;
use super::cors;
use super::credential;
use super::denial::{Code, Denial};
use super::facts::Facts;
use super::gated::Gated;
use super::headers::{self, X_FORWARDED_FOR};
#[cfg(feature = "appproxy-legacy")]
use super::legacy;
use super::models;
use super::multipart;
use super::outcome::Outcome;
use super::pages;
use super::passage::{Carried, Passage};
use super::rules::Entrance;
use super::surface::{self, Destination, Nowhere};
use super::unpack::Coding;
use crate::access::address::{Peer, client_address};
use crate::access::rate_ledger::{LedgerKey, RateLedger, Taken};
use crate::defects::{Defect, has};
use crate::seed::Draws;

/// Takes a request in where its host does not count: path table, key, expiry.
fn enter(mut passage: Carried, node: Node<'_>) -> Result<Carried, Box<Answer>> {
    let Passage { parts, trail, .. } = &*passage;
    if trail.cors.is_some() && cors::is_preflight(parts) {
        let headers = cors::preflight(&parts.headers, cors::OWN_METHODS);
        return Err(Answer::empty(passage.end(), StatusCode::NO_CONTENT, headers));
    }
    passage.destination = match surface::destination(&parts.method, parts.uri.path()) {
        Ok(Destination::Page(page)) => return Err(pages::answer(page, passage.end(), node)),
        Ok(destination) => destination,
        Err(nowhere) => return Err(passage.refuse(&lost(nowhere))),
    };
    match credential::take(&mut passage).and_then(|hash| credential::judge(hash, node)) {
        Ok(holder) => passage.holder = holder,
        Err(denial) => return Err(passage.refuse(&denial)),
    }
    Ok(passage)
}

/// A request whose path and key are good. Its address and rate come next.
#[derive(Debug)]
#[must_use = "a request goes on by `pass`"]
pub struct Gate {
    passage: Carried,
    client: Option<IpAddr>,
}

impl Gate {
    /// Takes a request's head in: path table, key, expiry.
    ///
    /// # Errors
    /// The answer made here: a page about this node, a pre-flight's, or a refusal.
    pub fn open(parts: Parts, connection: Connection, node: Node<'_>, draws: &mut Draws) -> Result<Self, Box<Answer>> {
        let mut passage = Carried::new(parts, connection);
        let Passage { parts, facts, trail, .. } = &mut *passage;
        *facts = Facts::of(&parts.headers);
        let request_id = headers::request_id(&parts.headers, facts, draws);
        trail.begin(&parts.method, &parts.uri, request_id, node.now.moment);
        trail.cors = node.rules.allowed_origins.grant(&parts.headers);
        if let Err(denial) = sane_head(parts, facts) {
            return Err(passage.refuse(&denial));
        }
        let peer = passage.connection().peer();
        passage.trusted = node.rules.trusted_proxies.trusts(peer);
        let client = client_of(&passage.parts, peer, passage.trusted, node);
        let entered = match &node.rules.entrance {
            Entrance::Anywhere => enter(passage, node),
            #[cfg(feature = "appproxy-legacy")]
            Entrance::Circuits(doors) => legacy::enter(passage, doors, client, node),
        };
        let mut passage = entered?;
        passage.trail.key = passage.holder.ledger_key();
        passage.entropy = draws.next_u64();
        Ok(Self { passage, client })
    }

    /// Whose ledger entry [`Self::pass`] needs; `None` when the request has no rate limit, and no ledger is needed.
    #[must_use]
    pub fn ledger_key(&self) -> Option<&LedgerKey> {
        self.passage.holder.rate_limit().and(self.passage.trail.key.as_ref())
    }

    /// Judges the client's address, counts the request, and answers what needs no body: listings, and what can be refused by its head.
    ///
    /// # Errors
    /// The answer made here.
    pub fn pass(mut self, ledger: Option<&mut RateLedger>, node: Node<'_>) -> Result<Gated, Box<Answer>> {
        if let Err(denial) = self.count(ledger, node) {
            return Err(self.passage.refuse(&denial));
        }
        match &self.passage.destination {
            Destination::BodyModel => {}
            Destination::ListModels => return Err(models::list(self.passage, node)),
            Destination::GetModel(name) => {
                let name = name.clone();
                return Err(models::get(self.passage, &name, node));
            }
            Destination::PathModel { model, .. } => {
                let model = model.clone();
                // The path says it all: nothing of the body needs to come before a refusal.
                self.passage.trail.name_model(&Arc::from(model.as_str()));
                if !self.passage.holder.is_pinned()
                    && let Err(denial) = models::path_model(&self.passage, &model, node)
                {
                    return Err(self.passage.refuse(&denial));
                }
            }
            Destination::Unsupported | Destination::Page(_) => {
                let denial = Denial::new(Code::NotSupported, "This path is not supported by this server yet.");
                return Err(self.passage.refuse(&denial));
            }
            Destination::Raw { .. } => {
                return match fitting_length(&self.passage.facts, node.rules.max_body_size) {
                    Ok(()) => Ok(Gated::new(self.passage, node.rules.max_body_size)),
                    Err(denial) => Err(self.passage.refuse(&denial)),
                };
            }
        }
        match body_of(&self.passage, node.rules.max_body_size) {
            Ok((boundary, coding)) => (self.passage.boundary, self.passage.coding) = (boundary, coding),
            Err(denial) => return Err(self.passage.refuse(&denial)),
        }
        Ok(Gated::new(self.passage, node.rules.max_body_size))
    }

    /// The client went away.
    #[must_use]
    pub fn gone(self) -> Outcome {
        self.passage.gone()
    }

    fn count(&mut self, ledger: Option<&mut RateLedger>, node: Node<'_>) -> Result<(), Denial> {
        let (Some(limit), Some(key)) = (self.passage.holder.rate_limit(), &self.passage.trail.key) else {
            return self.address();
        };
        // Without its ledger a limited request cannot be judged, and is not let through.
        let Some(ledger) = ledger else { return Err(Denial::overloaded()) };
        let now = node.now.moment;
        // Clients list before each session; a small limit would be spent on it.
        let listing = matches!(self.passage.destination, Destination::ListModels | Destination::GetModel(_));
        if listing || !self.inside() {
            self.passage.trail.rate = Some(ledger.look(key, limit, now));
            return self.address();
        }
        let (figures, fits) = match ledger.take(key, limit, now) {
            Taken::Accepted(figures) => (figures, true),
            Taken::Refused(figures) => (figures, false),
        };
        self.passage.trail.rate = Some(figures);
        if fits { Ok(()) } else { Err(rate_denial(limit, figures.reset)) }
    }
}

impl Gate {
    fn inside(&self) -> bool {
        self.passage.holder.addresses().allows(self.client) || has(Defect::AddressesIgnored)
    }

    fn address(&self) -> Result<(), Denial> {
        if self.inside() {
            return Ok(());
        }
        Err(address_denial())
    }
}

pub(super) fn address_denial() -> Denial {
    Denial::new(
        Code::IpNotAllowed,
        "This API key may not be used from your network address. Use it from an allowed one.",
    )
}

pub(super) fn rate_denial(limit: u32, reset: u32) -> Denial {
    let denial = if limit == 0 {
        Denial::new(Code::RateLimitExceeded, "This API key has a limit of 0 requests a minute. Ask for a higher one.")
    } else {
        Denial::new(
            Code::RateLimitExceeded,
            format!("This API key's limit of {limit} requests a minute is used up. Try again in {reset} s."),
        )
    };
    denial.retry_after(reset)
}

fn client_of(parts: &Parts, peer: Peer, trusted: bool, node: Node<'_>) -> Option<IpAddr> {
    if !trusted {
        return peer.address();
    }
    // `GetAll` iterates from both ends; a `Vec` is only made for requests that carry the header.
    let lines: Vec<&[u8]> = parts.headers.get_all(X_FORWARDED_FOR).iter().map(HeaderValue::as_bytes).collect();
    client_address(peer, &node.rules.trusted_proxies, lines)
}

/// What makes two readers disagree about where a request ends, or whom it is for.
fn sane_head(parts: &Parts, facts: &Facts) -> Result<(), Denial> {
    let bad = |problem| Err(Denial::new(Code::InvalidRequest, problem));
    if facts.states_length() && facts.coded {
        return bad("The request has both Content-Length and Transfer-Encoding. Send one of them.");
    }
    if facts.lengths_differ {
        return bad("The request has two different Content-Length lines. Send one.");
    }
    match facts.hosts {
        0 if parts.version == http::Version::HTTP_11 && parts.uri.authority().is_none() => {
            bad("The request has no Host line. Send one.")
        }
        0 | 1 => Ok(()),
        _ => bad("The request has two Host lines. Send one."),
    }
}

pub(super) fn lost(nowhere: Nowhere) -> Denial {
    match nowhere {
        Nowhere::UnknownPath => {
            Denial::new(Code::UnknownPath, "There is nothing at this path. Check the address and the API version.")
        }
        Nowhere::BadPath => Denial::new(
            Code::InvalidRequest,
            "The model name in the path is not percent-encoded UTF-8. Encode it and send the request again.",
        ),
        Nowhere::MethodNotAllowed(allow) => {
            let mut denial =
                Denial::new(Code::MethodNotAllowed, format!("This path does not take this method. Use {allow}."));
            denial.allow = Some(allow);
            denial
        }
    }
}

/// Refuses a body that says itself that it is too long.
fn fitting_length(facts: &Facts, limit: u64) -> Result<(), Denial> {
    if facts.length.is_some_and(|length| length > limit) { Err(Denial::body_too_large(limit)) } else { Ok(()) }
}

/// The boundary of a multipart body, and how it is packed; refuses bodies that need not be read to be refused.
fn body_of(passage: &Passage, limit: u64) -> Result<(Option<Arc<str>>, Option<Coding>), Denial> {
    let Passage { parts, facts, .. } = passage;
    fitting_length(facts, limit)?;
    let coding = if facts.packed { Coding::of(&parts.headers)? } else { None };
    let kind = if facts.may_be_form { parts.headers.get(CONTENT_TYPE) } else { None };
    let boundary = match kind {
        Some(kind) => multipart::boundary(kind.as_bytes())?.map(Arc::from),
        None => None,
    };
    Ok((boundary, coding))
}

#[cfg(test)]
#[cfg(feature = "appproxy-router")]
#[path = "gate_tests.rs"]
mod tests;
