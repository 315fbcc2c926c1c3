//! The router-config snapshot (worker-protocol 5.1, 9).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

use super::elements::read_elements;
use super::forgive::read_body;
use super::ids::Revision;
use super::json::{self, Fault, Object};
use super::key::ApiKey;
use super::malformed::{Elements, Malformed, MalformedKind};
use super::publication::Publication;
use super::read_key::read_keys;
use super::read_publication::read_publication;
use super::report::{At, Reports};

/// What `GET /api/worker/{id}/router-config` answers with 200. Serde is our own form (journal).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Which snapshot this is.
    pub revision: Revision,
    /// The publications; the ids of skipped ones are primary names.
    pub models: Elements<Publication>,
    /// The model API keys; the ids of skipped ones are key ids.
    pub keys: Elements<ApiKey>,
    /// `NaN`, `Infinity` and `-Infinity`, read as 0 wherever they stood.
    pub forgiven: Vec<Malformed>,
}

/// Reads a snapshot. An error is a failed pull: no JSON, or a body without its revision, models or keys.
pub fn parse_snapshot(body: &[u8]) -> Result<Snapshot, Malformed> {
    let (snapshot, forgiven) = read_body(body, read_snapshot)?;
    Ok(Snapshot { forgiven, ..snapshot })
}

fn read_snapshot(text: &str) -> Result<Snapshot, Fault> {
    let fields = Object::read(text, ["revision", "models", "publications", "api_keys", "keys"])?;
    let revision = fields.required("revision", "the snapshot's revision, a string or a number,", revision)?;
    let (models_at, models) = list_of(&fields, &["models", "publications"], "the list of publications")?;
    let (keys_at, keys) = list_of(&fields, &["api_keys", "keys"], "the list of model API keys")?;
    let (mut of_models, mut of_keys) = (Reports::default(), Reports::default());
    let (at, kind) = (At::Root(models_at), MalformedKind::Publication);
    let models = read_elements(&models, at, kind, &mut of_models, read_publication, |model| Arc::clone(&model.model));
    let keys = read_keys(&keys, At::Root(keys_at), &mut of_keys);
    Ok(Snapshot {
        revision,
        models: Elements { malformed: of_models.finish(), ..models },
        keys: Elements { malformed: of_keys.finish(), ..keys },
        forgiven: Vec::new(),
    })
}

/// The list under the first of `names` that is there; absent and `null` are no empty list.
fn list_of<'a, const N: usize>(
    fields: &Object<'a, N>,
    names: &[&'static str; 2],
    what: &str,
) -> Result<(&'static str, Vec<&'a RawValue>), Fault> {
    let [first, second] = *names;
    let Some((name, raw)) = fields.first_of(names) else {
        return Err(Fault::at(first, format!("missing; {what} should be here, as {first} or {second}")));
    };
    Ok((name, json::list(raw.get()).map_err(|problem| Fault::at(name, problem))?))
}

fn revision(raw: &RawValue) -> Result<Revision, String> {
    match json::kind(raw.get()) {
        "a number" => Ok(Revision(Arc::from(raw.get()))),
        "a string" => Ok(Revision(json::text(raw)?.into())),
        kind => Err(format!("{kind} where a string or a number should be")),
    }
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
mod tests;
