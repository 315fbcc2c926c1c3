//! Why a request would be served as it would (data-plane 1, `explain`): the steps of the gate in their order, by the same
//! decisions, with nothing counted, sent or changed.

use core::net::IpAddr;
use serde::Serialize;
use std::sync::Arc;

use super::choosing::{chain_after, nothing_left};
use super::control::Node;
use super::credential;
use super::denial::{Code, Denial};
use super::gate::{address_denial, rate_denial};
use super::holder::{Granted, Holder};
#[cfg(feature = "appproxy-legacy")]
use super::legacy;
use super::load::Loads;
use super::outbound::speaks;
use super::rules::Entrance;
use super::selection::Ask;
use super::shown::PoolShown;
use super::surface::Surface;
use crate::access::rate_ledger::{LedgerKey, RateFigures};
use crate::desired::Backend;
use crate::serving::ModelPool;

/// What is asked: the request that somebody wonders about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// The model it names.
    pub model: Arc<str>,
    /// The id of the key it shows; `None`: it shows none.
    pub key_id: Option<String>,
    /// Where it comes from; `None`: unknown, which is inside of no list.
    pub client: Option<IpAddr>,
    /// The host it is sent to; only a wildcard worker looks at it. Its access token is taken to be good.
    pub host: Option<String>,
}

/// What only the shell holds: the ledgers and draws of this node.
pub trait Figures {
    /// The figures of a key with this limit, nothing counted.
    fn rate(&mut self, key: &LedgerKey, limit: u32) -> RateFigures;
    /// Whom [`super::selection::Selection::look_ahead`] names.
    fn next(&mut self, pool: &ModelPool, ask: &Ask<'_>) -> Option<Arc<Backend>>;
    /// How busy the replicas are.
    fn loads(&self) -> &Loads;
}

/// One gate's verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// `host`, `key`, `address`, `rate`, `model` or `replica`.
    pub gate: &'static str,
    /// Whether it lets the request pass; the first that does not ends the list.
    pub passes: bool,
    /// What it saw.
    pub because: String,
    /// What would change a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_change: Option<&'static str>,
}

/// A model that may stand in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StandIn {
    /// Its name.
    pub model: Arc<str>,
    /// Whether it is served here at all.
    pub served: bool,
    /// Whether a replica of it can take a request now.
    pub can_serve: bool,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The model asked for.
    pub model: Arc<str>,
    /// Whether it would be sent to a replica, of this model or of one of its chain.
    pub served: bool,
    /// The status and code of the refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// The gates in order, up to the first that refuses.
    pub steps: Vec<Step>,
    /// What stands behind the model, once that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolShown>,
    /// The replica that the next such request is sent to, with a draw of its own where chance decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Arc<str>>,
    /// The chain behind the model.
    pub fallback: Vec<StandIn>,
}

/// How the request would be refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The status.
    pub status: u16,
    /// The code, as clients see it.
    pub code: &'static str,
    /// The message, as clients see it.
    pub message: String,
}

/// Answers `question` from one view of this node, as the gate would judge the request at this moment.
pub fn explain(question: &Question, node: Node<'_>, figures: &mut impl Figures) -> Explanation {
    let mut steps = Vec::new();
    let judged = gates(question, node, figures, &mut steps);
    let mut told = Explanation {
        model: question.model.clone(),
        served: false,
        refusal: None,
        steps,
        pool: None,
        next: None,
        fallback: Vec::new(),
    };
    let (holder, granted) = match judged {
        Ok(passed) => passed,
        Err(denial) => {
            told.refusal = Some(refusal(&denial));
            return told;
        }
    };
    told.pool = Some(PoolShown::of(granted.pool, figures.loads()));
    let surface = (!holder.is_pinned()).then_some(Surface::OpenAi);
    let ask = Ask {
        strategy: node.rules.strategy,
        surface,
        max_in_flight: node.rules.max_in_flight,
        now: node.now.moment,
        ..Ask::default()
    };
    let next = figures.next(granted.pool, &ask);
    let chain = chain_after(&granted.model, &granted.pool.key, node);
    for model in chain.into_iter().flat_map(|chain| chain.iter()) {
        let pool = holder.stand_in(model, 0, node);
        told.fallback.push(StandIn {
            model: model.clone(),
            served: pool.is_some(),
            can_serve: pool.is_some_and(|pool| pool.can_serve()),
        });
    }
    let relieved = told.fallback.iter().find(|stand_in| stand_in.can_serve).map(|stand_in| stand_in.model.clone());
    let step = match (&next, relieved) {
        (Some(backend), _) => Step::passed("replica", format!("the next such request goes to {}", backend.name)),
        (None, Some(model)) => {
            Step::passed("replica", format!("no replica can take it now; {model} of its chain stands in"))
        }
        (None, None) => {
            let spoken = surface.is_none_or(|surface| {
                let mut all = granted.pool.candidates().peekable();
                all.peek().is_none() || all.any(|candidate| speaks(candidate.backend.kind, surface))
            });
            let full = spoken && granted.pool.can_serve();
            let denial = if full { Denial::overloaded() } else { nothing_left(!spoken, Some(granted.pool)) };
            told.refusal = Some(refusal(&denial));
            Step::refused("replica", &denial)
        }
    };
    told.served = told.refusal.is_none();
    told.next = next.map(|backend| backend.name.clone());
    told.steps.push(step);
    told
}

/// Everything before a replica is looked for.
fn gates<'a>(
    question: &Question,
    node: Node<'a>,
    figures: &mut impl Figures,
    steps: &mut Vec<Step>,
) -> Result<(Holder, Granted<'a>), Denial> {
    let holder = step(steps, "key", entered(question, node), |holder| match holder {
        Holder::Anyone => "no key is needed".to_owned(),
        Holder::Operator(_) => "an operator's key, of the configuration".to_owned(),
        Holder::Published(_) => "a model API key of the coordinator, not expired".to_owned(),
        #[cfg(feature = "appproxy-legacy")]
        Holder::Caller(_) => "the host is served; a token of the circuit is taken as shown".to_owned(),
    })?;
    let inside = if holder.addresses().allows(question.client) { Ok(()) } else { Err(address_denial()) };
    step(steps, "address", inside, |()| match question.client {
        Some(client) => format!("{client} may use it"),
        None => "no address list restricts it".to_owned(),
    })?;
    let rate = match (holder.rate_limit(), holder.ledger_key()) {
        (Some(limit), Some(key)) => {
            let now = figures.rate(&key, limit);
            if now.remaining > 0 { Ok(Some(now)) } else { Err(rate_denial(limit, now.reset)) }
        }
        _ => Ok(None),
    };
    step(steps, "rate", rate, |figures| match figures {
        Some(figures) => format!("{} of {} requests a minute are left", figures.remaining, figures.limit),
        None => "no rate limit".to_owned(),
    })?;
    let granted = step(steps, "model", holder.grant(Some(&question.model), 0, node), |granted| {
        format!("{} is served as {}", question.model, granted.model)
    })?;
    Ok((holder, granted))
}

/// Who the key, or the host, makes of the request.
fn entered(question: &Question, node: Node<'_>) -> Result<Holder, Denial> {
    let key = question.key_id.as_deref();
    match &node.rules.entrance {
        Entrance::Anywhere => credential::judge_named(key, node),
        #[cfg(feature = "appproxy-legacy")]
        Entrance::Circuits(doors) => {
            legacy::imagined(question.host.as_deref(), doors, key, question.client, node).map(Holder::Caller)
        }
    }
}

fn step<T>(
    steps: &mut Vec<Step>,
    gate: &'static str,
    judged: Result<T, Denial>,
    because: impl FnOnce(&T) -> String,
) -> Result<T, Denial> {
    steps.push(match &judged {
        Ok(passed) => Step::passed(gate, because(passed)),
        Err(denial) => Step::refused(gate, denial),
    });
    judged
}

impl Step {
    const fn passed(gate: &'static str, because: String) -> Self {
        Self { gate, passes: true, because, to_change: None }
    }

    fn refused(gate: &'static str, denial: &Denial) -> Self {
        Self {
            gate,
            passes: false,
            because: denial.message.clone().into_owned(),
            to_change: Some(to_change(denial.code)),
        }
    }
}

fn refusal(denial: &Denial) -> Refusal {
    Refusal { status: denial.status.as_u16(), code: denial.code.label(), message: denial.message.clone().into_owned() }
}

/// What an operator can do about a refusal.
const fn to_change(code: Code) -> &'static str {
    match code {
        Code::MissingApiKey => "the client must send a key; name one here with --key-id",
        Code::InvalidApiKey => {
            "no key has this id: issue it, or check that its notice was heard (/status, the last pull)"
        }
        Code::ExpiredApiKey => "give the key a later end, or issue another",
        Code::IpNotAllowed => {
            "add the client's address to the list, or trust the proxy in front (server.trusted_proxies)"
        }
        Code::RateLimitExceeded => "wait, or raise the key's rate limit",
        Code::ModelNotAllowed => "add the model to the key's allowed models",
        Code::ModelNotFound => "publish the model, or check its spelling and the key's allowed models",
        Code::EndpointNotFound => "check the host name: one label before the wildcard domain, of a circuit that exists",
        Code::ModelNotReady => "wait: the replicas are starting; their health is shown",
        Code::ModelUnavailable => "start a replica, or give the model a fallback chain; ratios and weights of 0 drain",
        Code::NotReady => "the coordinator must be reached: see the last pull in /status",
        Code::Overloaded => "raise routing.max_in_flight or add replicas",
        Code::NotSupported => "use an API that the backend's type speaks",
        Code::MissingToken | Code::InvalidToken | Code::ExpiredToken | Code::TokenMismatch => {
            "the client must send a valid access token of this circuit"
        }
        _ => "change the request as its message says",
    }
}

#[cfg(test)]
#[cfg(feature = "appproxy-router")]
#[path = "explain_tests.rs"]
mod tests;
