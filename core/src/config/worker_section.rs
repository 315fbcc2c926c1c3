//! Reads `appproxy_router` or `appproxy`, whichever is enabled (worker-protocol 8, 9).

use core::time::Duration;

use super::reader::{Reader, Section};
use super::server::{BindAddress, Server, is_loopback_host};
use super::worker::{EventDialect, Mode, WorkerConfig};
use super::{addresses, forms};
use crate::secret::Secret;

/// Which worker the file asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// None: a plain router.
    Plain,
    /// `appproxy_router`.
    Router,
    /// `appproxy`.
    Legacy,
}

pub(super) const DIALECTS: &[(&str, EventDialect)] =
    &[("both", EventDialect::Both), ("args", EventDialect::Args), ("payload", EventDialect::Payload)];

/// Which section is enabled. Both is a problem; the ROUTER section is read on then, so that its problems show too.
pub(super) fn asked(reader: &mut Reader<'_>, root: &Section<'_>) -> Asked {
    let router = enabled(reader, root, "appproxy_router");
    let legacy = enabled(reader, root, "appproxy");
    match (router, legacy) {
        (Some((at, true)), Some((other, true))) => {
            let wrong = "appproxy and appproxy_router are both enabled, and under one authority each would overwrite \
                         what the other serves";
            reader.problem(at.max(other), "appproxy_router.enabled", wrong, "set `enabled: false` in one of them");
            Asked::Router
        }
        (None | Some((_, false)), Some((_, true))) | (None, Some(_)) => Asked::Legacy,
        (Some(_), _) => Asked::Router,
        (None, None) => Asked::Plain,
    }
}

/// Where the section says that it is enabled, and whether it really says so: one that does not say is refused, and read on
/// so that its other problems show too. A disabled one is looked at for unknown keys only: its variables need not be
/// set.
fn enabled(reader: &mut Reader<'_>, root: &Section<'_>, name: &str) -> Option<(super::problem::Position, bool)> {
    let section = reader.section(root, name);
    if !section.given {
        return None;
    }
    let says = reader.value(&section, "enabled", forms::boolean);
    let says = reader.required(&section, "enabled", says, "write `enabled: true`, or false to keep the section unused");
    if says != Some(false) {
        return Some((section.place("enabled"), says == Some(true)));
    }
    reader.finish(&section);
    None
}

/// Reads the enabled section.
pub(super) fn read(reader: &mut Reader<'_>, root: &Section<'_>, asked: Asked, server: &Server) -> Option<WorkerConfig> {
    let (name, feature, built_in) = match asked {
        Asked::Plain => return None,
        Asked::Router => ("appproxy_router", "appproxy-router", cfg!(feature = "appproxy-router")),
        Asked::Legacy => ("appproxy", "appproxy-legacy", cfg!(feature = "appproxy-legacy")),
    };
    let section = reader.section(root, name);
    if !built_in {
        let right = format!("use a build with the cargo feature `{feature}`, or set `enabled: false`");
        reader.problem(section.place("enabled"), section.key("enabled"), "this worker is not built in", right);
        reader.finish(&section);
        return None;
    }
    let mode = match asked {
        Asked::Plain => None,
        Asked::Router => Some(Mode::Router(read_router(reader, &section))),
        Asked::Legacy => read_legacy(reader, &section).map(Mode::Legacy),
    };
    let traffic_key = if asked == Asked::Legacy { "wildcard_traffic_port" } else { "traffic_port" };
    let worker = read_common(reader, &section, server, traffic_key, mode);
    reader.finish(&section);
    worker
}

fn read_common(
    reader: &mut Reader<'_>,
    section: &Section<'_>,
    server: &Server,
    traffic_key: &str,
    mode: Option<Mode>,
) -> Option<WorkerConfig> {
    let coordinator_url = read_coordinator(reader, section);
    let api_secret = reader.secret(section, "api_secret");
    let api_secret = reader.required(section, "api_secret", api_secret, "give the coordinator's shared secret");
    let events_enabled = reader.value(section, "events_enabled", forms::boolean).unwrap_or(true);
    let redis_url = read_bus(reader, section, events_enabled);
    let ca_file = reader.file(section, "ca_file");
    let authority = reader.value(section, "authority", forms::text);
    let authority = reader.required(section, "authority", authority, "give the worker name that all nodes share");
    let hostname = reader.value(section, "hostname", forms::host);
    let hostname = reader.required(section, "hostname", hostname, "give the name under which clients reach the worker");
    let api_port = read_api_port(reader, section, server);
    let traffic_port = reader.value(section, traffic_key, forms::port).filter(|port| *port > 0);
    let tls_advertised = reader.value(section, "tls_advertised", forms::boolean).unwrap_or(false);
    let heartbeat = reader.value(section, "heartbeat_period", forms::interval);
    let reconcile = reader.value(section, "reconcile_interval", forms::interval);
    let event_dialect = reader.choice(section, "event_dialect", DIALECTS).unwrap_or_default();
    let call_timeout = reader.value(section, "call_timeout", forms::interval);
    let pull_timeout = reader.value(section, "pull_timeout", forms::interval);
    let max_staleness = reader.value(section, "max_staleness", forms::bound).flatten();
    let api_port = api_port?;
    Some(WorkerConfig {
        mode: mode?,
        coordinator_url: coordinator_url?,
        api_secret: api_secret?,
        redis_url,
        ca_file,
        authority: authority?.into(),
        hostname: hostname?,
        tls_listen: server.tls.is_some() && server.bind.iter().any(|bind| matches!(bind, BindAddress::Tcp { .. })),
        tls_advertised,
        api_port,
        traffic_port: traffic_port.unwrap_or(api_port),
        heartbeat_period: heartbeat.unwrap_or(Duration::from_secs(10)),
        reconcile_interval: reconcile.unwrap_or(Duration::from_secs(15)),
        events_enabled,
        event_dialect,
        call_timeout: call_timeout.unwrap_or(Duration::from_secs(10)),
        pull_timeout: pull_timeout.unwrap_or(Duration::from_secs(30)),
        max_staleness,
    })
}

fn read_coordinator(reader: &mut Reader<'_>, section: &Section<'_>) -> Option<String> {
    let url = reader.value(section, "coordinator_url", addresses::http_url);
    let right = "give its address, such as \"http://coordinator:10200\"";
    let url = reader.required(section, "coordinator_url", url, right)?;
    if url.starts_with("http://") && !is_loopback_host(addresses::host_of(&url)) {
        let text = "plain http: the shared secret and key hashes cross the network unencrypted; https is safer";
        reader.warn(section.place("coordinator_url"), section.key("coordinator_url"), text);
    }
    Some(url)
}

fn read_bus(reader: &mut Reader<'_>, section: &Section<'_>, events_enabled: bool) -> Option<Secret> {
    let url = reader.value(section, "redis_url", addresses::redis_url);
    if !events_enabled {
        return url.map(Secret::new);
    }
    let right = "give the bus, such as \"redis://valkey:6379/4\", or set `events_enabled: false`";
    reader.required(section, "redis_url", url, right).map(Secret::new)
}

fn read_api_port(reader: &mut Reader<'_>, section: &Section<'_>, server: &Server) -> Option<u16> {
    if let Some(port) = reader.value(section, "api_port", forms::port).filter(|port| *port > 0) {
        return Some(port);
    }
    let first_tcp = server.bind.iter().find_map(|bind| match bind {
        BindAddress::Tcp { port, .. } => Some(*port),
        BindAddress::Unix(_) => None,
    });
    let wrong = match first_tcp {
        Some(0) => "missing, and port 0 in server.bind_address has the system choose one",
        Some(port) => return Some(port),
        None if server.bind.is_empty() => return None,
        None => "missing, and server.bind_address has unix sockets only",
    };
    let right = "give the port that the coordinator is told, or listen at a TCP port";
    reader.problem(section.place("api_port"), section.key("api_port"), wrong, right);
    None
}

fn read_router(reader: &mut Reader<'_>, section: &Section<'_>) -> super::worker::RouterMode {
    super::worker::RouterMode {
        hide_forbidden_models: reader.value(section, "hide_forbidden_models", forms::boolean).unwrap_or(false),
        max_key_staleness: reader.value(section, "max_key_staleness", forms::bound).flatten(),
    }
}

fn read_legacy(reader: &mut Reader<'_>, section: &Section<'_>) -> Option<super::worker::LegacyMode> {
    let jwt_secret = reader.secret(section, "jwt_secret");
    let jwt_secret =
        reader.required(section, "jwt_secret", jwt_secret, "give the secret that access tokens are signed with");
    let jwt_leeway = reader.value(section, "jwt_leeway", forms::duration).unwrap_or(Duration::from_secs(60));
    read_frontend_mode(reader, section);
    let domain = reader.value(section, "wildcard_domain", forms::wildcard_domain);
    let right = "give it with its leading dot, such as \".models.example.com\"";
    let wildcard_domain = reader.required(section, "wildcard_domain", domain, right);
    let hosts = reader.list(section, "aggregation_hosts").unwrap_or_default();
    let aggregation_hosts = hosts
        .iter()
        .filter_map(|scalar| reader.formed(scalar, forms::host))
        .map(|host| host.to_ascii_lowercase())
        .collect();
    let model_names = read_model_names(reader, section);
    Some(super::worker::LegacyMode {
        jwt_secret: jwt_secret?,
        jwt_leeway,
        wildcard_domain: wildcard_domain?,
        aggregation_hosts,
        model_names,
    })
}

fn read_frontend_mode(reader: &mut Reader<'_>, section: &Section<'_>) {
    match reader.peek(section, "frontend_mode") {
        Some(scalar) if scalar.text == "port" => {
            let wrong = "`port` is not supported: it would open and close a listener for every circuit";
            reader.problem(scalar.at, scalar.key, wrong, "write wildcard, and give wildcard_domain");
        }
        _ => {
            reader.choice(section, "frontend_mode", &[("wildcard", ())]);
        }
    }
}

fn read_model_names(reader: &mut Reader<'_>, section: &Section<'_>) -> Vec<(String, std::sync::Arc<str>)> {
    let mut names = std::collections::BTreeMap::new();
    for (entry, key) in reader.table(section, "model_names") {
        let Some(scalar) = reader.resolve(&entry.node, key.clone()) else { continue };
        let name = reader.formed(&scalar, forms::text);
        let place = match entry.key.parse::<crate::wire::ids::EndpointId>() {
            Ok(endpoint) => endpoint.to_string(),
            Err(_) if forms::is_host_name(&entry.key) && !entry.key.contains('.') => entry.key.to_ascii_lowercase(),
            Err(_) => {
                let right = "name a circuit by its endpoint id, or by its sub-domain without the wildcard domain";
                reader.problem(entry.at, key, "neither an endpoint id nor a sub-domain", right);
                continue;
            }
        };
        if let Some(name) = name {
            names.insert(place, name.into());
        }
    }
    names.into_iter().collect()
}
