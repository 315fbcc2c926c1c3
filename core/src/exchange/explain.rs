//! Why a request would be served as it would (data-plane 1, `explain`): the steps of the gate in their order, by the same
//! decisions, with nothing counted, sent or changed.

use core::net::IpAddr;
use serde::Serialize;
use std::sync::Arc;

use super::chain::chain_after;
use super::choosing::nothing_left;
use super::control::Node;
use super::credential;
use super::denial::{Code, Denial};
use super::explain_causes::causes;
use super::explain_step::{ONLY_STATIC, Step, entrance};
use super::gate::{address_denial, rate_denial};
use super::holder::{Granted, Holder};
#[cfg(feature = "appproxy-legacy")]
use super::legacy;
use super::load::Loads;
use super::outbound::speaks;
use super::rules::{Entrance, KeyGate};
use super::selection::Ask;
use super::shown::{PoolShown, source};
use super::surface::Surface;
use crate::access::rate_ledger::{LedgerKey, RateFigures};
use crate::desired::Backend;
use crate::serving::{ModelPool, PoolKey};
use crate::wire::ids::CircuitId;

const AN_OPERATORS: &str = "an operator's key, of the configuration";

/// What is asked: the request that somebody wonders about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// The model it names.
    pub model: Arc<str>,
    /// The id of the key it shows; `None`: it shows none.
    pub key_id: Option<String>,
    /// Where it comes from; `None`: unknown, which is inside of no list.
    pub client: Option<IpAddr>,
    /// The host it is sent to; only a wildcard worker looks at it. `None`: the aggregation surface.
    pub host: Option<String>,
    /// The access token it shows; only a wildcard worker looks at it. `None`: a good one, unless the question names a key
    /// for the aggregation surface, which is shown in its stead; [`Explanation::assumed`] tells it.
    pub access_token: Option<AccessToken>,
}

/// The access token of an imagined request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessToken {
    /// A good one of the circuit at the host; on the aggregation surface of a private circuit that serves the model.
    Good,
    /// None.
    Absent,
    /// A good one of this circuit.
    Of(CircuitId),
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

/// A model that may stand in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StandIn {
    /// Its name.
    pub model: Arc<str>,
    /// Whether it is served here at all.
    pub served: bool,
    /// Whether a replica of it can take a request now.
    pub can_serve: bool,
    /// What serves it, as [`PoolShown::source`] says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The model asked for.
    pub model: Arc<str>,
    /// Whether it would be sent to a replica, of this model or of one of its chain.
    pub served: bool,
    /// What was taken for granted of the request, since nobody said it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assumed: Option<String>,
    /// The status and code of the refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// The gates in order, up to the first that refuses.
    pub steps: Vec<Step>,
    /// What stands behind the model, once that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolShown>,
    /// Further circuits of the model on the aggregation surface: of those that can serve, `pool` included, one is drawn for
    /// each request, each as often as the next.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub siblings: Vec<PoolShown>,
    /// The replica of `pool` that the next such request is sent to, with a draw of its own where chance decides.
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
    let mut told = Explanation {
        model: question.model.clone(),
        served: false,
        assumed: None,
        refusal: None,
        steps: Vec::new(),
        pool: None,
        siblings: Vec::new(),
        next: None,
        fallback: Vec::new(),
    };
    let (holder, granted) = match gates(question, node, figures, &mut told) {
        Ok(passed) => passed,
        Err(denial) => {
            if denial.code == Code::IpNotAllowed
                && question.client.is_none()
                && let Some(last) = told.steps.last_mut()
            {
                last.ask_for_address();
            }
            told.refusal = Some(refusal(&denial));
            return told;
        }
    };
    told.pool = Some(PoolShown::of(granted.pool, figures.loads()));
    let siblings = || granted.siblings.iter().rev().filter_map(|key| holder.granted_pool(key, &granted.model, node));
    told.siblings = siblings().map(|pool| PoolShown::of(pool, figures.loads())).collect();
    let drawn = 1 + siblings_that_serve(&told.siblings);
    let surface = (!holder.is_pinned()).then_some(Surface::OpenAi);
    let ask = Ask {
        strategy: node.rules.strategy,
        surface,
        max_in_flight: node.rules.max_in_flight,
        now: node.now.moment,
        ..Ask::default()
    };
    let next = figures.next(granted.pool, &ask);
    // What goes through as it is names no model that another could stand in for.
    let chain = if holder.asks_unseen(&granted.pool.key, node) {
        None
    } else {
        chain_after(&granted.model, &granted.pool.key, node)
    };
    for model in chain.into_iter().flat_map(|chain| chain.iter()) {
        let pool = holder.stand_in(model, 0, node);
        told.fallback.push(StandIn {
            model: model.clone(),
            served: pool.is_some(),
            can_serve: pool.is_some_and(|pool| pool.can_serve()),
            source: pool.map(|pool| source(&pool.key)),
        });
    }
    let relieved = told.fallback.iter().find(|stand_in| stand_in.can_serve).map(|stand_in| stand_in.model.clone());
    let step = match (&next, relieved) {
        (Some(backend), _) if drawn > 1 => {
            let name = &backend.name;
            Step::passed("replica", format!("one of {drawn} circuits is drawn; of the one shown first {name} is next"))
        }
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
            let mut step = Step::refused("replica", &denial);
            if matches!(denial.code, Code::ModelUnavailable | Code::ModelNotReady) {
                let pools = core::iter::once(granted.pool).chain(siblings());
                step.to_change = causes(pools.map(AsRef::as_ref)).or(step.to_change);
            }
            step
        }
    };
    told.served = told.refusal.is_none();
    told.next = next.map(|backend| backend.name.clone());
    told.steps.push(step);
    told
}

fn siblings_that_serve(siblings: &[PoolShown]) -> usize {
    siblings.iter().filter(|pool| pool.replicas().any(|replica| replica.share > 0.0)).count()
}

/// Everything before a replica is looked for.
fn gates<'a>(
    question: &Question,
    node: Node<'a>,
    figures: &mut impl Figures,
    told: &mut Explanation,
) -> Result<(Holder, Granted<'a>), Denial> {
    let steps = &mut told.steps;
    let holder = match entered(question, node, &mut told.assumed) {
        Ok(holder) => holder,
        Err(denial) => {
            steps.push(Step::refused(entrance(denial.code), &denial));
            return Err(denial);
        }
    };
    match &holder {
        Holder::Anyone => steps.push(Step::passed("key", "no key is needed".to_owned())),
        Holder::Operator(_) => steps.push(Step::passed("key", AN_OPERATORS.to_owned())),
        Holder::Published(_) => {
            steps.push(Step::passed("key", "a model API key of the coordinator, not expired".to_owned()));
        }
        #[cfg(feature = "appproxy-legacy")]
        Holder::Caller(caller) => {
            let place = caller.circuit().map_or_else(
                || "the aggregation surface: all circuits by model name".to_owned(),
                |circuit| format!("circuit {}", circuit.0),
            );
            steps.push(Step::passed("host", place));
            steps.push(Step::passed("token", caller.shown_token()));
            if caller.operator().is_some() {
                steps.push(Step::passed("key", AN_OPERATORS.to_owned()));
            }
        }
    }
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
    let plain = matches!(node.rules.entrance, Entrance::Anywhere) && node.rules.key_gate != KeyGate::Published;
    let granted = step(steps, "model", holder.grant(Some(&question.model), None, 0, node), |granted| {
        let by = match &granted.pool.key {
            PoolKey::Static(_) if !plain => ", by `backends` of the configuration: operator keys alone ask them here",
            _ => "",
        };
        format!("{} is served as {}{by}", question.model, granted.model)
    });
    if let (Err(Denial { code: Code::ModelNotFound, .. }), Some(last)) = (&granted, steps.last_mut())
        && node.view.static_model(&question.model).is_some()
        && !matches!(holder.ledger_key(), Some(LedgerKey::Operator(_)))
    {
        last.to_change = Some(ONLY_STATIC.into());
    }
    Ok((holder, granted?))
}

/// Who the key, or the host and token, make of the request.
fn entered(question: &Question, node: Node<'_>, assumed: &mut Option<String>) -> Result<Holder, Denial> {
    match &node.rules.entrance {
        Entrance::Anywhere => {
            let _ = assumed;
            credential::judge_named(question.key_id.as_deref(), node)
        }
        #[cfg(feature = "appproxy-legacy")]
        Entrance::Circuits(doors) => legacy::imagined(question, doors, node, assumed).map(Holder::Caller),
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

fn refusal(denial: &Denial) -> Refusal {
    Refusal { status: denial.status.as_u16(), code: denial.code.label(), message: denial.message.clone().into_owned() }
}

#[cfg(test)]
#[cfg(feature = "appproxy-router")]
#[path = "explain_tests.rs"]
mod tests;
