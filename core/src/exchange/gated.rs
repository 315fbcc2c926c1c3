//! A request that passed key, address and rate: its body comes next, then its model.

use bytes::Bytes;
use http::header::CONTENT_ENCODING;
use std::sync::Arc;

use super::admitted::{Admitted, Place, Streamed, Wanted};
use super::affinity;
use super::answer::Answer;
use super::control::Node;
use super::denial::Denial;
use super::gemini;
use super::multipart;
use super::outcome::{Outcome, Trail};
use super::passage::{Carried, Passage};
use super::peek::{self, Peek};
use super::surface::Destination;
use crate::defects::{Defect, has};

/// Waiting for its body.
#[derive(Debug)]
#[must_use = "a request goes on by `route`"]
pub struct Gated {
    passage: Carried,
    max_body_size: u64,
}

impl Gated {
    pub(super) const fn new(passage: Carried, max_body_size: u64) -> Self {
        Self { passage, max_body_size }
    }

    /// Bytes of body to read at most. More: [`Self::refuse`] with [`Denial::body_too_large`].
    #[must_use]
    pub const fn max_body_size(&self) -> u64 {
        self.max_body_size
    }

    /// What is known of the request.
    #[must_use]
    pub fn trail(&self) -> &Trail {
        &self.passage.trail
    }

    /// Refuses for a reason that only the shell can see.
    #[must_use]
    pub fn refuse(self, denial: &Denial) -> Box<Answer> {
        self.passage.refuse(denial)
    }

    /// The body broke off: the client went away, or closed its side too soon.
    #[must_use]
    pub fn broken_off(self) -> Box<Answer> {
        Answer::broken_off(self.passage.end())
    }

    /// The client went away.
    #[must_use]
    pub fn gone(self) -> Outcome {
        self.passage.gone()
    }

    /// Whether the body comes packed, so that [`Self::route`] has much to do: up to [`Self::max_body_size`] bytes are
    /// unpacked there.
    #[must_use]
    pub fn is_packed(&self) -> bool {
        self.passage.coding.is_some()
    }

    /// Whether the body goes to the replica as it comes, in the place of [`Self::route`] by [`Self::stream`]: nothing in it
    /// is looked at. What may be sent twice is kept for that.
    #[must_use]
    pub fn is_streamed(&self) -> bool {
        let Passage { parts, facts, .. } = &*self.passage;
        self.passage.is_raw() && !parts.method.is_safe() && Streamed::of(facts).is_some() && !has(Defect::UploadsHeld)
    }

    /// As [`Self::route`], with a body that is yet to come.
    ///
    /// # Errors
    /// The refusal.
    pub fn stream(self, node: Node<'_>) -> Result<Admitted, Box<Answer>> {
        let streamed = Streamed::of(&self.passage.facts);
        self.route(Bytes::new(), node).map(|mut admitted| {
            admitted.passage.wanted.streamed = streamed;
            admitted
        })
    }

    /// Unpacks the body, finds the model and decides whether it may be used.
    ///
    /// # Errors
    /// The refusal.
    pub fn route(mut self, body: Bytes, node: Node<'_>) -> Result<Admitted, Box<Answer>> {
        let body = match self.passage.coding.map(|coding| coding.unpack(&body, self.max_body_size)) {
            None => written_anew(body),
            Some(Ok(_)) if has(Defect::CodingForgotten) => {
                self.passage.parts.headers.remove(CONTENT_ENCODING);
                body
            }
            Some(Ok(plain)) => {
                self.passage.parts.headers.remove(CONTENT_ENCODING);
                plain
            }
            Some(Err(denial)) => return Err(self.passage.refuse(&denial)),
        };
        let peek = match self.peek(&body) {
            Ok(peek) => peek,
            Err(denial) => return Err(self.passage.refuse(&denial)),
        };
        let asked: Option<&str> = match (&peek, &self.passage.destination) {
            (Some(peek), _) => Some(&peek.model),
            (None, Destination::PathModel { model, .. }) => Some(model),
            (None, Destination::Raw { .. }) => None,
            (None, _) => return Err(self.passage.refuse(&peek::invalid_model())),
        };
        // A name that is served is held already; any other is about to be refused.
        let held = asked.and_then(|asked| node.view.held_name(asked));
        let published = held.and_then(|(_, pool)| pool);
        let asked: Option<Arc<str>> = held.map(|(name, _)| name.clone()).or_else(|| asked.map(Arc::from));
        let place = peek.map(|peek| Place { span: peek.span, spelling: peek.spelling });
        let named = match &self.passage.destination {
            Destination::PathModel { model, verb } => gemini::names_in(&body, verb, model),
            _ => Ok(Vec::new()),
        };
        let named = match named {
            Ok(named) => named,
            Err(denial) => return Err(self.passage.refuse(&denial)),
        };
        let Passage { parts, trail, holder, entropy, .. } = &mut *self.passage;
        // Where any name will do, the one that is served counts.
        if let Some(asked) = asked.as_ref().filter(|_| !holder.is_pinned()) {
            trail.name_model(asked);
        }
        let sticky = affinity::sticky(&parts.headers, node.rules.affinity_header.as_ref());
        let key = affinity::key(node.rules.strategy, &body);
        let spread = sticky.or_else(|| (key != 0).then_some(key)).unwrap_or(*entropy);
        let (model, pool, siblings) = match holder.grant(asked.as_ref(), published, spread, node) {
            Ok(granted) => (granted.model, granted.pool, granted.siblings),
            Err(denial) => return Err(self.passage.refuse(&denial)),
        };
        if !model.is_empty() {
            if holder.is_pinned() {
                trail.name_model(&model);
            }
            trail.known_model = true;
        }
        let mut passage = self.passage;
        let (granted, pool) = (Some((node.view.generation, pool.clone())), pool.key.clone());
        let streamed = None;
        passage.wanted =
            Wanted { asked, model, pool, granted, siblings, body, streamed, place, named, key, sticky, spread };
        Ok(Admitted { passage })
    }

    fn peek<'a>(&self, body: &'a [u8]) -> Result<Option<Peek<'a>>, Denial> {
        let fills = self.passage.holder.is_pinned();
        match (&self.passage.destination, &self.passage.boundary) {
            (Destination::PathModel { .. } | Destination::Raw { .. }, _) => Ok(None),
            (_, Some(boundary)) if fills => multipart::peek_or_fill(body, boundary).map(Some),
            (_, Some(boundary)) => multipart::peek(body, boundary).map(Some),
            (_, None) if fills => peek::json_or_fill(body).map(Some),
            (_, None) => peek::json(body).map(Some),
        }
    }
}

/// What a wrong program makes of a body that comes plain.
fn written_anew(body: Bytes) -> Bytes {
    if !has(Defect::BodyWrittenAnew) {
        return body;
    }
    let read = serde_json::from_slice::<serde_json::Value>(&body).ok();
    read.and_then(|value| serde_json::to_vec(&value).ok()).map_or(body, Bytes::from)
}
