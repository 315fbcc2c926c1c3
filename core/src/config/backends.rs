//! `backends`: replicas named in the file (data-plane 3.7).

use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::reader::{Reader, Section};
use super::{addresses, forms};
use crate::secret::Secret;

/// What a static backend speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackendType {
    /// Anything OpenAI-compatible.
    #[default]
    Generic,
    /// vLLM.
    Vllm,
    /// OpenAI itself.
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// Google Gemini.
    Gemini,
}

/// Its part in disaggregated serving (data-plane 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendRole {
    /// Computes the prompt.
    Prefill,
    /// Generates the answer.
    Decode,
}

/// One entry of `backends`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticBackend {
    /// Unique; never begins with `appproxy-`.
    pub name: Arc<str>,
    /// What it speaks.
    pub kind: BackendType,
    /// `http` or `https` address without a trailing slash, credentials or query.
    pub url: String,
    /// Replaces the client's credential.
    pub api_key: Option<Secret>,
    /// Its weight among the backends of a model, 0 to 1000; 0 takes nothing.
    pub weight: u32,
    /// The names it serves, aliases included, none twice; empty: those it lists itself.
    pub models: Vec<Arc<str>>,
    /// For each alias the name that the backend itself knows; no alias is such a name.
    pub aliases: Vec<(Arc<str>, Arc<str>)>,
    /// Its part in disaggregated serving.
    pub role: Option<BackendRole>,
    /// Whether it is probed, when anything is.
    pub probed: bool,
    /// Retry settings for this backend alone.
    pub retry_override: Option<RetryOverride>,
}

/// `backends[].retry_override`; `None` is what `request` says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RetryOverride {
    /// Attempts in all.
    pub max_attempts: Option<u32>,
    /// First pause.
    pub base_delay: Option<Duration>,
    /// Longest pause.
    pub max_delay: Option<Duration>,
    /// Whether pauses double.
    pub exponential_backoff: Option<bool>,
    /// Whether pauses vary.
    pub jitter: Option<bool>,
}

pub(super) const TYPES: &[(&str, BackendType)] = &[
    ("generic", BackendType::Generic),
    ("vllm", BackendType::Vllm),
    ("openai", BackendType::OpenAi),
    ("anthropic", BackendType::Anthropic),
    ("gemini", BackendType::Gemini),
];
pub(super) const ROLES: &[(&str, BackendRole)] = &[("prefill", BackendRole::Prefill), ("decode", BackendRole::Decode)];

/// Types of Continuum Router that speak as `generic` does.
const GENERIC_ALIKE: &[&str] =
    &["continuum-router", "custom", "llamacpp", "lmstudio", "mlxcel", "nim", "ollama", "sglang", "tgi"];

/// Reads `backends`; `probes`: whether anything is probed.
pub(super) fn read(reader: &mut Reader<'_>, root: &Section<'_>, probes: bool) -> Vec<StaticBackend> {
    let mut names = BTreeSet::new();
    let items = reader.items(root, "backends");
    items.iter().filter_map(|item| read_backend(reader, item, &mut names, probes)).collect()
}

fn read_backend(
    reader: &mut Reader<'_>,
    item: &Section<'_>,
    names: &mut BTreeSet<String>,
    probes: bool,
) -> Option<StaticBackend> {
    let name = read_name(reader, item, names);
    let kind = read_type(reader, item);
    let given = reader.value(item, "url", addresses::http_url);
    let url = match (given, kind) {
        (None, _) if item.has("url") => None,
        (None, BackendType::OpenAi) => Some("https://api.openai.com".to_owned()),
        (None, BackendType::Anthropic) => Some("https://api.anthropic.com".to_owned()),
        (None, BackendType::Gemini) => Some("https://generativelanguage.googleapis.com".to_owned()),
        (given, _) => reader.required(item, "url", given, "give its address, such as \"http://10.0.0.5:8000\""),
    };
    let api_key = reader.secret(item, "api_key");
    let weight = reader.value(item, "weight", forms::weight).unwrap_or(1);
    let (models, aliases) = read_models(reader, item);
    let checks = reader.section(item, "health_checks");
    let probed = reader.value(&checks, "enabled", forms::boolean).unwrap_or(true);
    reader.finish(&checks);
    if models.is_empty() && !(probed && probes) {
        reader.warn(item.at, item.key("models"), "serves nothing: no model is named, and it is not asked for its own");
    }
    let role = reader.choice(item, "role", ROLES);
    let retry_override = read_override(reader, item);
    reader.finish(item);
    Some(StaticBackend {
        name: name?.into(),
        kind,
        url: url?,
        api_key,
        weight,
        models,
        aliases,
        role,
        probed,
        retry_override,
    })
}

fn read_name(reader: &mut Reader<'_>, item: &Section<'_>, names: &mut BTreeSet<String>) -> Option<String> {
    let name = reader.value(item, "name", forms::text);
    let name = reader.required(item, "name", name, "give each backend a name of its own")?;
    let (at, key) = (item.place("name"), item.key("name"));
    if name.starts_with("appproxy-") {
        let right = "choose another; names beginning so belong to the replicas that the coordinator assigns";
        reader.problem(at, key, "begins with `appproxy-`", right);
    } else if !names.insert(name.clone()) {
        reader.problem(at, key, "another backend has this name", "give each backend a name of its own");
    }
    Some(name)
}

fn read_type(reader: &mut Reader<'_>, item: &Section<'_>) -> BackendType {
    match reader.peek(item, "type") {
        Some(scalar) if GENERIC_ALIKE.contains(&scalar.text.as_str()) => {
            let text = format!("`{}` is spoken to as `generic`: OpenAI paths and /v1/messages", scalar.text);
            reader.warn(scalar.at, scalar.key, text);
            BackendType::Generic
        }
        _ => reader.choice(item, "type", TYPES).unwrap_or_default(),
    }
}

/// Models in the order named, and aliases with the name behind each.
type Names = (Vec<Arc<str>>, Vec<(Arc<str>, Arc<str>)>);

fn read_models(reader: &mut Reader<'_>, item: &Section<'_>) -> Names {
    let mut models: Vec<Arc<str>> = Vec::new();
    let mut aliases: Vec<(Arc<str>, Arc<str>)> = Vec::new();
    for scalar in reader.list(item, "models").unwrap_or_default() {
        if let Some(name) = reader.formed(&scalar, forms::text) {
            add(&mut models, &name.into());
        }
    }
    let configs = reader.items(item, "model_configs");
    let mut further = Vec::new();
    for config in &configs {
        let id = reader.value(config, "id", forms::text);
        let id = reader.required(config, "id", id, "name the model that these settings are for");
        let names = reader.list(config, "aliases").unwrap_or_default();
        reader.finish(config);
        let Some(id) = id.map(Arc::<str>::from) else { continue };
        add(&mut models, &id);
        further.push((id, names));
    }
    let ids: Vec<_> = further.iter().map(|(id, _)| Arc::clone(id)).collect();
    for (id, names) in further {
        for scalar in names {
            let Some(alias) = reader.formed(&scalar, forms::text).map(Arc::<str>::from) else { continue };
            let taken =
                ids.contains(&alias) || aliases.iter().any(|(earlier, other)| *earlier == alias && *other != id);
            if taken {
                let wrong = format!("{} already stands for a model of this backend", scalar.quoted());
                reader.problem(scalar.at, scalar.key, wrong, "let each name stand for one model");
            } else if !aliases.iter().any(|(earlier, _)| *earlier == alias) {
                add(&mut models, &alias);
                aliases.push((alias, Arc::clone(&id)));
            }
        }
    }
    (models, aliases)
}

fn add(models: &mut Vec<Arc<str>>, name: &Arc<str>) {
    if !models.contains(name) {
        models.push(Arc::clone(name));
    }
}

fn read_override(reader: &mut Reader<'_>, item: &Section<'_>) -> Option<RetryOverride> {
    let section = reader.section(item, "retry_override");
    let retry = RetryOverride {
        max_attempts: reader.value(&section, "max_attempts", forms::positive),
        base_delay: reader.value(&section, "base_delay", forms::duration),
        max_delay: reader.value(&section, "max_delay", forms::duration),
        exponential_backoff: reader.value(&section, "exponential_backoff", forms::boolean),
        jitter: reader.value(&section, "jitter", forms::boolean),
    };
    reader.finish(&section);
    section.given.then_some(retry)
}
