//! What reconcile makes of a replica, and what the configuration makes of a static target.

use core::fmt;
use serde::Serialize;
use std::sync::Arc;

use crate::secret::Secret;
use crate::wire::circuit::{Circuit, Route};
use crate::wire::ids::CircuitId;

/// Names starting so belong to reconcile; a static backend may not use the prefix (worker-protocol 6).
pub const OWNED_PREFIX: &str = "appproxy-";

/// One target of requests. Immutable: a change makes a new one under the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Backend {
    /// `appproxy-<circuit_id>-r<route_id, or index>`, or the configured name of a static one.
    pub name: Arc<str>,
    /// What it speaks.
    pub kind: BackendKind,
    /// Whether it is spoken to over TLS (`https://`).
    pub tls: bool,
    /// Host name or address; IPv6 literals without brackets.
    pub host: Arc<str>,
    /// TCP port.
    pub port: u16,
    /// Path before every request path, without a trailing slash; empty for replicas.
    pub base_path: Arc<str>,
    /// The documented integer: 1..=1000 for replicas (worker-protocol 6), as configured for static ones.
    pub weight: u32,
    /// Published names it answers for, primaries and aliases, sorted.
    pub models: Arc<[Arc<str>]>,
    /// Names the target itself lists (data-plane 3.2), in its order; empty while unknown.
    pub served_names: Arc<[Arc<str>]>,
    /// Static backends: configured aliases with the target's own name for each, sorted by alias.
    #[serde(skip_serializing_if = "no_aliases")]
    pub aliases: Arc<[(Arc<str>, Arc<str>)]>,
    /// Replaces the client's credential; static backends only (data-plane 3.7). Never serialised.
    #[serde(skip)]
    pub credential: Option<Secret>,
}

impl Backend {
    /// The backend of one route.
    #[must_use]
    pub fn of_route(circuit: &Circuit, route: &Route, weight: u32, models: Arc<[Arc<str>]>) -> Self {
        let kind = match circuit.runtime_variant.as_deref() {
            Some("vllm") => BackendKind::Vllm,
            _ => BackendKind::Generic,
        };
        Self {
            name: route_backend_name(circuit.id, route),
            kind,
            tls: false,
            host: route_host(route),
            port: route.kernel_port,
            // The empty ones are one for all: no allocation each.
            base_path: Arc::default(),
            weight,
            models,
            served_names: Arc::default(),
            aliases: Arc::default(),
            credential: None,
        }
    }

    /// The name to send instead of the requested one; `None`: the target knows it as it is, or nothing better is known
    /// (data-plane 3.2).
    #[must_use]
    pub fn own_name(&self, requested: &str) -> Option<&Arc<str>> {
        if let Ok(at) = self.aliases.binary_search_by(|(alias, _)| (**alias).cmp(requested)) {
            return self.aliases.get(at).map(|(_, name)| name);
        }
        if self.served_names.iter().any(|served| **served == *requested) { None } else { self.served_names.first() }
    }

    /// `host:port`, IPv6 literals in brackets: what `Host` carries.
    #[must_use]
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The address with its scheme, without a trailing slash.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}{}", if self.tls { "https" } else { "http" }, self.authority(), self.base_path)
    }
}

fn no_aliases(aliases: &Arc<[(Arc<str>, Arc<str>)]>) -> bool {
    aliases.is_empty()
}

/// What a backend speaks (data-plane 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendKind {
    /// vLLM: every OpenAI path and `/v1/messages`.
    Vllm,
    /// Any OpenAI-compatible server; taken to speak the same paths.
    Generic,
    /// The OpenAI API itself.
    OpenAi,
    /// The Anthropic messages API.
    Anthropic,
    /// The Gemini API.
    Gemini,
}

impl BackendKind {
    /// The word used in configuration and on pages.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Generic => "generic",
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// `clamp(round(100 x composed), 1, 1000)`, halves away from zero; `composed` is above 0 (worker-protocol 6).
#[must_use]
pub fn documented_weight(composed: f64) -> u32 {
    // The cast saturates and reads not-a-number, which sanitised ratios cannot give, as 0.
    ((100.0 * composed).round().clamp(1.0, 1000.0) as u32).max(1)
}

/// The circuit whose backend this name is, when it has the form reconcile gives.
#[must_use]
pub fn circuit_of_name(name: &str) -> Option<CircuitId> {
    let rest = name.strip_prefix(OWNED_PREFIX)?;
    let (circuit, route) = (rest.get(..36)?, rest.get(36..)?);
    if route.starts_with("-r") { circuit.parse().ok() } else { None }
}

fn route_backend_name(circuit: CircuitId, route: &Route) -> Arc<str> {
    match route.route_id {
        Some(id) => format!("{OWNED_PREFIX}{circuit}-r{id}").into(),
        None => format!("{OWNED_PREFIX}{circuit}-r{}", route.index).into(),
    }
}

fn route_host(route: &Route) -> Arc<str> {
    let host = route.kernel_host.as_deref().map(str::trim).unwrap_or_default();
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if bare.is_empty() { Arc::from("localhost") } else { Arc::from(bare) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_round_half_up_and_stay_in_bounds() {
        for (composed, weight) in [
            (1.0, 100),
            (0.125, 13),
            (0.005, 1),
            (0.014, 1),
            (0.015, 2),
            (9.994, 999),
            (10.0, 1000),
            (70.0, 1000),
            (f64::MAX, 1000),
            (f64::INFINITY, 1000),
            (f64::MIN_POSITIVE, 1),
        ] {
            assert_eq!(documented_weight(composed), weight, "{composed}");
        }
    }

    #[test]
    fn only_our_own_names_lead_to_circuits() {
        let id = "00000000-0000-0000-0000-00000000000a";
        assert_eq!(circuit_of_name(&format!("appproxy-{id}-r0")), id.parse().ok());
        assert_eq!(circuit_of_name("appproxy-x-r0"), None);
        assert_eq!(circuit_of_name(&format!("appproxy-{id}")), None);
        assert_eq!(circuit_of_name("appproxy-ä00000000-0000-0000-0000-0000000000-r1"), None);
        assert_eq!(circuit_of_name("openai"), None);
    }
}
