//! Publications, read (worker-protocol 5.1).
//!
//! Required are `model` and each mapping's `endpoint_id`. A malformed mapping costs only itself; an alias that is no
//! name costs the publication, so that a known one keeps its last good form instead of losing a name silently.

use core::fmt::Display;
use serde_json::value::RawValue;
use std::sync::Arc;

use super::elements::Skipped;
use super::ids::EndpointId;
use super::json::{self, Fault, Object};
use super::malformed::{Malformed, MalformedKind};
use super::number::ratio;
use super::publication::{ControlMode, Mapping, Publication};
use super::report::{At, Reports, malformed};
use crate::limits;

/// Reads one publication by itself; what is malformed inside it is reported beside it.
pub fn parse_publication(json: &RawValue) -> Result<(Publication, Vec<Malformed>), Malformed> {
    let mut reports = Reports::default();
    let at = At::Root("model");
    match read_publication(json, at, &mut reports) {
        Ok(publication) => Ok((publication, reports.finish())),
        Err(Skipped { id, fault }) => {
            let id = id.as_ref().map(|id| id as &dyn Display);
            Err(malformed(MalformedKind::Publication, at, id, &fault))
        }
    }
}

pub(super) fn read_publication(
    raw: &RawValue,
    at: At<'_>,
    reports: &mut Reports,
) -> Result<Publication, Skipped<Arc<str>>> {
    let fields = Object::read(raw.get(), ["model", "aliases", "mappings", "control_mode"])?;
    let model: Arc<str> = fields.required("model", "the primary model name", json::name)?.into();
    let at = At::Of(&at, &model);
    let mut read = || -> Result<Publication, Fault> {
        let mut aliases: Vec<Arc<str>> = Vec::new();
        for alias in fields.optional("aliases", names)?.unwrap_or_default() {
            if alias != model && !aliases.contains(&alias) {
                aliases.push(alias);
            }
        }
        let mappings = fields.list("mappings")?.unwrap_or_default();
        Ok(Publication {
            model: Arc::clone(&model),
            aliases,
            mappings: read_mappings(&mappings, At::Field(&at, "mappings"), reports),
            control_mode: fields.get("control_mode").map_or(ControlMode::Manual, control_mode),
        })
    };
    read().map_err(|fault| Skipped { id: Some(Arc::clone(&model)), fault })
}

fn read_mappings(list: &[&RawValue], at: At<'_>, reports: &mut Reports) -> Vec<Mapping> {
    let mut mappings = Vec::with_capacity(list.len());
    for (index, raw) in list.iter().enumerate() {
        let at = At::Index(&at, index);
        match read_mapping(raw, at, reports) {
            Ok(mapping) => mappings.push(mapping),
            Err(Skipped { id, fault }) => {
                let id = id.as_ref().map(|id: &EndpointId| id as &dyn Display);
                reports.element(MalformedKind::Mapping, at, id, &fault);
            }
        }
    }
    mappings
}

fn read_mapping(raw: &RawValue, at: At<'_>, reports: &mut Reports) -> Result<Mapping, Skipped<EndpointId>> {
    let fields = Object::read(raw.get(), ["endpoint_id", "ratio"])?;
    let endpoint_id = EndpointId(fields.required("endpoint_id", "the endpoint's UUID", json::uuid)?);
    let ratio = ratio(&fields, "ratio", 1.0, At::Of(&at, &endpoint_id), reports)
        .map_err(|fault| Skipped { id: Some(endpoint_id), fault })?;
    Ok(Mapping { endpoint_id, ratio })
}

/// A list of names, none of them empty.
pub(super) fn names(raw: &RawValue) -> Result<Vec<Arc<str>>, String> {
    let list = json::list(raw.get())?;
    let name = |(index, raw)| json::name(raw).map(Arc::from).map_err(|problem| format!("element {index} is {problem}"));
    list.into_iter().enumerate().map(name).collect()
}

/// Informational, so nothing here is malformed: an odd value is kept as its text.
fn control_mode(raw: &RawValue) -> ControlMode {
    match json::text(raw).unwrap_or_else(|_| raw.get().into()).as_ref() {
        "manual" => ControlMode::Manual,
        "strategy_managed" | "strategy-managed" => ControlMode::StrategyManaged,
        other => ControlMode::Unknown(other.chars().take(limits::QUOTED_CHARS).collect()),
    }
}
