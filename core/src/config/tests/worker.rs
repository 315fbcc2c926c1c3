#[cfg(any(feature = "appproxy-router", feature = "appproxy-legacy"))]
use core::time::Duration;

#[cfg(feature = "appproxy-router")]
use super::super::worker::EventDialect;
#[cfg(any(feature = "appproxy-router", feature = "appproxy-legacy"))]
use super::super::worker::{Mode, WorkerConfig};
#[cfg(any(feature = "appproxy-router", feature = "appproxy-legacy"))]
use super::config;
#[cfg(feature = "appproxy-router")]
use super::loaded;
use super::{legacy, problems, router};

#[cfg(any(feature = "appproxy-router", feature = "appproxy-legacy"))]
fn worker(text: &str) -> WorkerConfig {
    config(text).worker.expect("a worker")
}

#[cfg(feature = "appproxy-router")]
#[test]
fn a_router_section_with_defaults_and_with_everything() {
    let plain = worker(&router(""));
    assert_eq!(plain.mode, Mode::Router(super::super::worker::RouterMode::default()));
    assert_eq!((plain.api_port, plain.traffic_port), (8080, 8080));
    assert_eq!((plain.tls_listen, plain.tls_advertised, plain.events_enabled), (false, false, true));
    assert_eq!((plain.heartbeat_period, plain.reconcile_interval), (Duration::from_secs(10), Duration::from_secs(15)));
    assert_eq!((plain.call_timeout, plain.pull_timeout), (Duration::from_secs(10), Duration::from_secs(30)));
    assert_eq!((plain.event_dialect, plain.max_staleness), (EventDialect::Both, None));
    let full = worker(&router(
        "  traffic_port: 443\n  tls_advertised: true\n  event_dialect: args\n  max_staleness: 1m\n  max_key_staleness: 0\n  \
         hide_forbidden_models: true\n  ca_file: /ca.pem\n  api_port: 9\nserver: {bind_address: 'unix:/x'}",
    ));
    assert_eq!((full.api_port, full.traffic_port, full.tls_advertised), (9, 443, true));
    assert_eq!((full.event_dialect, full.max_staleness), (EventDialect::Args, Some(Duration::from_secs(60))));
    assert_eq!(worker(&router("  traffic_port: 0\nserver: {bind_address: ['unix:/x', 'h:81']}")).traffic_port, 81);
    let tls = worker(&router("server: {tls: {cert_file: c, key_file: k}}"));
    assert!(tls.tls_listen);
}

#[cfg(feature = "appproxy-router")]
#[test]
fn what_backends_are_for_beside_a_worker_section_is_said() {
    let said = |more: &str| {
        let backends = "backends: [{name: a, url: 'http://h', models: [spare]}]\n";
        let loaded = loaded(&router(&format!("{backends}{more}")));
        let own = loaded.warnings.into_iter().filter(|warning| warning.key == "backends");
        own.map(|warning| (warning.at.line, warning.text)).collect::<Vec<_>>()
    };
    let (chain, key) = ("fallback: {fallback_chains: {m: [spare]}}\n", "api_keys: {keys: [{id: k, key: x}]}\n");
    let off = "api_keys: {keys: [{id: k, key: x, enabled: false}]}\n";
    for (more, words) in [
        (String::new(), "nothing reaches these"),
        (off.to_owned(), "nothing reaches these"),
        (chain.to_owned(), "only stand in where `fallback.fallback_chains`"),
        (key.to_owned(), "serve the keys of `api_keys.keys` alone"),
        (format!("{chain}{key}"), "and serve the keys"),
    ] {
        let [(line, text)] = &said(&more)[..] else { panic!("{more}: one warning") };
        assert!(*line > 1 && text.contains(words), "{more}: line {line}: {text}");
    }
    assert_eq!(loaded(&router("")).warnings.iter().filter(|warning| warning.key == "backends").count(), 0);
    let plain = loaded("backends: [{name: a, url: 'http://h', models: [spare]}]\n");
    assert!(plain.warnings.iter().all(|warning| warning.key != "backends"), "{:?}", plain.warnings);
}

#[cfg(feature = "appproxy-legacy")]
#[test]
#[allow(irrefutable_let_patterns, reason = "the other mode may not be built in")]
fn a_legacy_section() {
    let text = legacy(
        "  wildcard_traffic_port: 443\n  aggregation_hosts: [All.example.com]\n  frontend_mode: wildcard\n  model_names:\n    \
         EP-1: m\n    33333333333333333333333333333333: n",
    );
    let worker = worker(&text);
    assert_eq!((worker.traffic_port, worker.redis_url), (443, None));
    assert_eq!(worker.coordinator_url, "https://coordinator");
    let Mode::Legacy(mode) = worker.mode else { panic!("legacy") };
    assert_eq!(mode.wildcard_domain, ".models.example.com");
    assert_eq!(mode.aggregation_hosts, ["all.example.com"]);
    assert_eq!(mode.jwt_leeway, Duration::from_secs(60));
    let places: Vec<_> = mode.model_names.iter().map(|(place, name)| (place.as_str(), name.as_ref())).collect();
    assert_eq!(places, [("33333333-3333-3333-3333-333333333333", "n"), ("ep-1", "m")]);
    assert_eq!(config(&text).server.cors_allowed_origins, ["*"]);
    assert!(config(&(text + "routing: {forward_credentials: true}\n")).routing.forward_credentials);
}

#[cfg(feature = "appproxy-router")]
#[test]
fn what_a_worker_section_needs() {
    let missing = problems("appproxy_router:\n  enabled: true\n");
    for key in ["coordinator_url", "api_secret", "redis_url", "authority", "hostname"] {
        assert!(missing.contains(&format!("line 1, column 1: appproxy_router.{key}: missing; ")), "{key}: {missing}");
    }
    assert_eq!(missing.lines().count(), 5, "{missing}");
    for section in ["appproxy_router:\n  authority: a\n", "appproxy_router:\n", "appproxy: {}\n"] {
        assert!(problems(section).contains(".enabled: missing; write `enabled: true`"), "{}", problems(section));
    }
    assert!(
        problems("appproxy_router: {enabled: '${EMPTY}'}")
            .contains("the value of the variable is neither true nor false")
    );
}

#[cfg(feature = "appproxy-legacy")]
#[test]
fn what_a_legacy_section_needs() {
    let missing = problems("appproxy:\n  enabled: true\n  events_enabled: false\n");
    for key in ["coordinator_url", "api_secret", "jwt_secret", "authority", "hostname", "wildcard_domain"] {
        assert!(missing.contains(&format!("appproxy.{key}: missing; ")), "{key}: {missing}");
    }
    assert_eq!(missing.lines().count(), 6, "{missing}");
    for (line, said) in [
        ("  frontend_mode: port", "line 10, column 18: appproxy.frontend_mode: `port` is not supported: it would open"),
        ("  frontend_mode: wildcrad", "did you mean `wildcard`?"),
        ("  traffic_port: 1", "appproxy.traffic_port: unknown key"),
        ("  model_names: {a.b: m}", "appproxy.model_names.a.b: neither an endpoint id nor a sub-domain"),
        ("  aggregation_hosts: ['a:80']", "appproxy.aggregation_hosts[0]: \"a:80\" is not a host name"),
    ] {
        let problems = problems(&legacy(line));
        assert!(problems.contains(said) && problems.lines().count() == 1, "{line}: {problems}");
    }
    let domain = legacy("").replace(".Models", "Models");
    assert!(problems(&domain).contains("is not a wildcard domain; write it with its leading dot"));
}

#[cfg(feature = "appproxy-router")]
#[test]
fn mistakes_in_a_router_section() {
    for (line, said) in [
        (
            "  heartbeat_period: 99ms",
            "line 8, column 21: appproxy_router.heartbeat_period: \"99ms\" is shorter than 100ms",
        ),
        ("  reconcile_interval: 1ms", "\"1ms\" is shorter than 100ms"),
        ("  traffic_port: 65536", "\"65536\" is not a port"),
        ("  event_dialect: json", "\"json\" is not known here; write one of both, args, payload"),
        ("  jwt_secret: x", "line 8, column 3: appproxy_router.jwt_secret: unknown key; known here: api_port"),
        ("  webui: {}", "appproxy_router.webui: unknown key"),
        ("  hearbeat_period: 1s", "unknown key; did you mean `heartbeat_period`?"),
        (
            "server: {bind_address: 'unix:/x'}",
            "appproxy_router.api_port: missing, and server.bind_address has unix sockets only",
        ),
        ("server: {bind_address: 'h:0'}", "appproxy_router.api_port: missing, and port 0"),
    ] {
        let problems = problems(&router(line));
        assert!(problems.contains(said) && problems.lines().count() == 1, "{line}: {problems}");
    }
    for (good, bad, said) in [
        ("http://127.0.0.1:10200", "127.0.0.1:10200", "the value is not an http or https address; write such as"),
        (
            "redis://:s3cr3t-marker-0123456789@valkey:6379/4",
            "http://:s3cr3t-marker-0123456789@valkey",
            "the value is not a Redis address; write",
        ),
        ("router.example.com", "https://router.example.com", "the value is not a host name; write the name alone"),
    ] {
        let problems = problems(&router("").replace(good, bad));
        assert!(problems.contains(said) && problems.lines().count() == 1, "{bad}: {problems}");
    }
}

#[cfg(all(feature = "appproxy-router", feature = "appproxy-legacy"))]
#[test]
fn both_enabled_is_refused_saying_why() {
    let said = problems(&(legacy("") + &router("")));
    assert!(
        said.contains("line 12, column 3: appproxy_router.enabled: appproxy and appproxy_router are both enabled"),
        "{said}"
    );
    assert!(said.contains("each would overwrite what the other serves; set `enabled: false` in one of them"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[cfg(feature = "appproxy-router")]
#[test]
fn a_disabled_section_is_looked_at_for_unknown_keys_only() {
    let disabled = "appproxy:\n  enabled: false\n  api_secret: ${NOT_SET}\n  frontend_mode: port\n";
    assert_eq!(config(disabled).worker, None);
    assert!(config(&(router("") + disabled)).worker.is_some());
    assert!(
        problems(&format!("{disabled}  api_secrt: x\n")).contains("line 5, column 3: appproxy.api_secrt: unknown key")
    );
}

#[cfg(not(feature = "appproxy-router"))]
#[test]
fn a_router_section_without_its_feature_is_refused() {
    let said = problems(&router(""));
    assert!(
        said.contains("line 2, column 3: appproxy_router.enabled: this worker is not built in; use a build with"),
        "{said}"
    );
    assert!(said.contains("`appproxy-router`"), "{said}");
}

#[cfg(not(feature = "appproxy-legacy"))]
#[test]
fn a_legacy_section_without_its_feature_is_refused() {
    let said = problems(&legacy(""));
    assert!(
        said.contains("appproxy.enabled: this worker is not built in; use a build with the cargo feature"),
        "{said}"
    );
    assert!(said.contains("`appproxy-legacy`"), "{said}");
}

#[cfg(feature = "appproxy-router")]
#[test]
fn warnings_of_a_worker() {
    let text = router(
        "api_keys: {mode: permissive, persistence_file: /x}\nrouting: {forward_credentials: true}\nserver: {trusted_proxies: ['::/0']}",
    )
    .replace("127.0.0.1:10200", "coordinator:10200");
    let loaded = loaded(&text);
    let keys: Vec<_> = loaded.warnings.iter().map(|warning| warning.key.as_str()).collect();
    let expected = [
        "appproxy_router.coordinator_url",
        "api_keys.mode",
        "api_keys.persistence_file",
        "routing.forward_credentials",
        "server.trusted_proxies[0]",
    ];
    assert_eq!(keys, expected);
    assert!(!loaded.config.routing.forward_credentials, "legacy only");
    assert_eq!(loaded.config.api_keys.mode, super::super::api_keys::KeyMode::Blocking);
    assert_eq!(super::loaded(&router("")).warnings, [], "http to loopback is no worry");
}
