//! The part of the configuration that shapes the serving view.

use http::Uri;
use std::sync::Arc;

use super::settings::{RoutingWeights, ServingSettings, StaticBackend, StaticModel};
use crate::config::Config;
use crate::config::backends::{self, BackendType};
use crate::config::routing::Weights;
#[cfg(any(feature = "appproxy-router", feature = "appproxy-legacy"))]
use crate::config::worker::Mode;
use crate::desired::{BackendKind, Rules};

impl From<&Config> for ServingSettings {
    fn from(config: &Config) -> Self {
        let rules = match config.worker.as_ref().map(|worker| &worker.mode) {
            #[cfg(feature = "appproxy-router")]
            Some(Mode::Router(_)) => Rules::Router,
            #[cfg(feature = "appproxy-legacy")]
            Some(Mode::Legacy(_)) => Rules::Legacy,
            _ => Rules::StaticOnly,
        };
        let weights = match config.routing.weights {
            Weights::Normalised => RoutingWeights::Normalised,
            Weights::Literal => RoutingWeights::Literal,
        };
        Self {
            rules,
            weights,
            backends: config.backends.iter().map(static_backend).collect(),
            checks: config.health_checks.clone(),
            passive: config.passive.clone(),
        }
    }
}

fn static_backend(backend: &backends::StaticBackend) -> StaticBackend {
    // The file's reader has checked the address; one that is none all the same is a backend that cannot be reached.
    let uri: Uri = backend.url.parse().unwrap_or_default();
    let tls = uri.scheme_str() == Some("https");
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    StaticBackend {
        name: backend.name.clone(),
        kind: kind(backend.kind),
        tls,
        host: Arc::from(host),
        port: uri.port_u16().unwrap_or(if tls { 443 } else { 80 }),
        base_path: Arc::from(uri.path().trim_end_matches('/')),
        credential: backend.api_key.clone(),
        weight: backend.weight,
        models: static_models(backend),
        probed: backend.probed,
    }
}

/// The names that are no aliases, each with its aliases.
fn static_models(backend: &backends::StaticBackend) -> Vec<StaticModel> {
    let is_alias = |name: &Arc<str>| backend.aliases.iter().any(|(alias, _)| alias == name);
    let aliases_of = |name: &Arc<str>| {
        backend.aliases.iter().filter(|(_, target)| target == name).map(|(alias, _)| alias.clone()).collect()
    };
    backend
        .models
        .iter()
        .filter(|name| !is_alias(name))
        .map(|name| StaticModel { name: name.clone(), aliases: aliases_of(name) })
        .collect()
}

const fn kind(kind: BackendType) -> BackendKind {
    match kind {
        BackendType::Generic => BackendKind::Generic,
        BackendType::Vllm => BackendKind::Vllm,
        BackendType::OpenAi => BackendKind::OpenAi,
        BackendType::Anthropic => BackendKind::Anthropic,
        BackendType::Gemini => BackendKind::Gemini,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart_and_aliases_go_with_their_models() {
        let mut backend = backends::StaticBackend {
            name: "b".into(),
            kind: BackendType::Vllm,
            url: "https://[2001:db8::1]/api/v1".to_owned(),
            api_key: None,
            weight: 3,
            models: vec!["m".into(), "short".into(), "n".into()],
            aliases: vec![("short".into(), "m".into())],
            role: None,
            probed: true,
            retry_override: None,
        };
        let made = static_backend(&backend);
        assert_eq!((made.tls, &*made.host, made.port, &*made.base_path), (true, "2001:db8::1", 443, "/api/v1"));
        let models: Vec<(&str, Vec<&str>)> = made
            .models
            .iter()
            .map(|model| (&*model.name, model.aliases.iter().map(|alias| &**alias).collect()))
            .collect();
        assert_eq!(models, [("m", vec!["short"]), ("n", vec![])]);
        backend.url = "http://replica:8000".to_owned();
        let made = static_backend(&backend);
        assert_eq!((made.tls, &*made.host, made.port, &*made.base_path), (false, "replica", 8000, ""));
    }
}
