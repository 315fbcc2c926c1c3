//! The models a caller may use: `GET /v1/models` and `GET /v1/models/{id}` (worker-protocol 5.3).

use bytes::Bytes;
use http::StatusCode;
use serde::Serialize;
use std::sync::Arc;

use super::answer::Answer;
use super::control::Node;
use super::denial::Denial;
use super::outbound::speaks;
use super::passage::{Carried, Passage};
use super::peek;

/// The list, sorted by id.
pub(super) fn list(passage: Carried, node: Node<'_>) -> Box<Answer> {
    let data = passage.holder.models(node).into_iter().map(|id| Model::new(id)).collect();
    let body = body(&List { object: "list", data });
    Answer::json(passage.end(), StatusCode::OK, body, None)
}

/// One model, by the same decision as a call.
pub(super) fn get(mut passage: Carried, name: &str, node: Node<'_>) -> Box<Answer> {
    passage.trail.name_model(&Arc::from(name));
    if let Err(denial) = passage.holder.model(name, node) {
        return passage.refuse(&denial);
    }
    passage.trail.known_model = true;
    let body = body(&Model::new(name));
    Answer::json(passage.end(), StatusCode::OK, body, None)
}

/// What can be said of a call whose model stands in its path.
pub(super) fn path_model(passage: &Passage, name: &str, node: Node<'_>) -> Result<(), Denial> {
    if name.is_empty() {
        return Err(peek::invalid_model());
    }
    let pool = passage.holder.model(name, node)?;
    let mut candidates = pool.candidates().peekable();
    let surface = passage.trail.surface();
    if candidates.peek().is_some() && !candidates.any(|candidate| speaks(candidate.backend.kind, surface)) {
        return Err(super::attempt::not_spoken());
    }
    Ok(())
}

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Model<'a>>,
}

#[derive(Serialize)]
struct Model<'a> {
    id: &'a str,
    object: &'static str,
    /// Nobody tells us when a model was made, and an answer must not change with time.
    created: u64,
    owned_by: &'static str,
}

impl<'a> Model<'a> {
    const fn new(id: &'a str) -> Self {
        Self { id, object: "model", created: 0, owned_by: "backend.ai" }
    }
}

fn body<T: Serialize>(value: &T) -> Bytes {
    // Strings and numbers always serialise.
    Bytes::from(serde_json::to_vec(value).unwrap_or_default())
}

#[cfg(test)]
#[cfg(feature = "appproxy-router")]
#[path = "models_tests.rs"]
mod tests;
