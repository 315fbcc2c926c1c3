use core::time::Duration;
use std::sync::Arc;

use super::super::api_keys::KeyMode;
use super::super::backends::BackendType;
#[cfg(any(feature = "appproxy-router", feature = "appproxy-legacy"))]
use super::super::describe;
use super::super::logging::{LogFormat, LogLevel};
use super::super::routing::{RewriteModel, Strategy, Weights};
use super::super::server::BindAddress;
use super::{config, loaded};
use crate::time::UnixMillis;

fn tcp(host: &str, port: u16) -> BindAddress {
    BindAddress::Tcp { host: host.to_owned(), port }
}

#[test]
fn an_empty_file_is_a_plain_router_with_every_default() {
    for text in ["", "# nothing\n", "server:\nlogging: ~\n", "---\n"] {
        let loaded = loaded(text);
        let config = &loaded.config;
        assert_eq!(config.worker, None);
        assert_eq!(config.server.bind, [tcp("0.0.0.0", 8080)]);
        assert_eq!(config.server.max_body_size, 100 * 1024 * 1024);
        assert_eq!(config.server.idle_timeout, Duration::from_secs(75));
        assert_eq!(config.server.cors_allowed_origins, [""; 0]);
        assert_eq!(config.admin.bind, tcp("127.0.0.1", 9464));
        assert_eq!(config.request.connect_timeout, Duration::from_secs(5));
        assert_eq!(config.api_keys.mode, KeyMode::Permissive);
        assert_eq!(config.logging.level, LogLevel::Info);
        assert_eq!(loaded.warnings.len(), 1, "{:?}", loaded.warnings);
        assert!(loaded.warnings.iter().any(|warning| warning.text.contains("nothing to serve")));
        assert_eq!(loaded.not_in_effect, []);
    }
}

#[test]
fn listeners_of_every_form() {
    let text = "server:\n  bind_address:\n    - 0.0.0.0:80\n    - '[::1]:8080'\n    - localhost:0\n    - localhost:0\n    - unix:/run/a.sock\n  \
                socket_mode: 0o660\n  trusted_proxies: [10.0.0.0/8, '::1', unix]\nadmin:\n  bind_address: unix:/run/admin.sock\n";
    let config = config(text);
    let unix = |path: &str| BindAddress::Unix(path.to_owned());
    let expected =
        [tcp("0.0.0.0", 80), tcp("::1", 8080), tcp("localhost", 0), tcp("localhost", 0), unix("/run/a.sock")];
    assert_eq!(config.server.bind, expected);
    let shown: Vec<_> = config.server.bind.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["0.0.0.0:80", "[::1]:8080", "localhost:0", "localhost:0", "unix:/run/a.sock"]);
    assert_eq!(config.server.trusted_proxies, ["10.0.0.0/8", "::1", "unix"]);
    assert_eq!(config.admin.bind, unix("/run/admin.sock"));
    assert_eq!(config.admin.token, None);
}

#[test]
fn permission_bits_are_octal_however_written() {
    for written in ["0o660", "0660", "\"0660\"", "660"] {
        assert_eq!(config(&format!("server: {{socket_mode: {written}}}")).server.socket_mode, Some(0o660), "{written}");
    }
}

#[test]
fn durations_and_sizes() {
    for (written, millis) in [("10s", 10_000), ("500ms", 500), ("1m", 60_000), ("1m30s", 90_000), ("2h", 7_200_000)] {
        let config = config(&format!("request: {{connect_timeout: {written}}}"));
        assert_eq!(config.request.connect_timeout, Duration::from_millis(millis), "{written}");
    }
    assert_eq!(config("server: {drain_notice: 0}").server.drain_notice, Duration::ZERO);
    for (written, bytes) in
        [("64KiB", 65_536), ("1GiB", 1 << 30), ("1000", 1000), ("5MB", 5_000_000), ("1 MiB", 1 << 20)]
    {
        let config = config(&format!("request: {{retry_buffer: {written}}}"));
        assert_eq!(config.request.retry_buffer, bytes, "{written}");
    }
}

#[test]
fn backends_with_aliases_and_default_addresses() {
    let text = "backends:\n- name: a\n  url: http://h:1/\n  models: [m, m]\n  weight: 0\n  model_configs: [{id: m, aliases: [x, y]}, \
                {id: n}]\n- {name: b, type: anthropic, api_key: 12345, models: c}\n- {name: c, type: ollama, url: 'http://h', models: [o]}\n";
    let loaded = loaded(text);
    let [first, second, third] = loaded.config.backends.as_slice() else { panic!("three") };
    let names: Vec<&str> = first.models.iter().map(AsRef::as_ref).collect();
    assert_eq!(names, ["m", "n", "x", "y"]);
    assert_eq!(first.aliases, [(Arc::from("x"), Arc::from("m")), (Arc::from("y"), Arc::from("m"))]);
    assert_eq!((first.url.as_str(), first.weight, first.kind), ("http://h:1", 0, BackendType::Generic));
    assert_eq!((second.url.as_str(), second.weight), ("https://api.anthropic.com", 1));
    assert_eq!(second.api_key.as_ref().map(|key| key.expose()), Some("12345"));
    assert_eq!(third.kind, BackendType::Generic);
    assert_eq!(loaded.warnings.iter().filter(|warning| warning.key != "api_keys").count(), 1);
    assert!(
        loaded.warnings.iter().any(|warning| warning.to_string().starts_with("line 8, column")),
        "{:?}",
        loaded.warnings
    );
}

#[test]
fn operator_keys_are_hashed() {
    let text = "api_keys:\n  keys:\n  - {id: a, key: abc, rate_limit: 0, expires_at: '2027-01-01T09:00:00+09:00'}\n  \
                - {id: b, key_hash: BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD, enabled: false, \
                allowed_client_ips: 10.0.0.1}\n";
    let keys = config(text).api_keys;
    assert_eq!(keys.mode, KeyMode::Blocking);
    let [a, b] = keys.keys.as_slice() else { panic!("two") };
    // SHA-256 of "abc", FIPS 180-2.
    assert_eq!(a.key.token_hash, b.key.token_hash);
    assert_eq!(a.key.token_hash.0.first(), Some(&0xba));
    assert_eq!((a.key.rate_limit, a.enabled, b.enabled), (Some(0), true, false));
    assert_eq!(a.key.expires_at, Some(UnixMillis(1_798_761_600_000)));
    assert_eq!(b.key.allowed_client_ips.as_deref(), Some(&["10.0.0.1".to_owned()][..]));
    assert_eq!(config("api_keys: {mode: permissive}").api_keys.mode, KeyMode::Permissive);
    // Continuum Router's spelling of the list.
    assert_eq!(config("api_keys: {api_keys: [{id: a, key: k}]}").api_keys.keys.len(), 1);
}

#[test]
fn words_and_fallback() {
    let text = "selection_strategy: weighted\nrouting: {weights: literal, rewrite_model: never, affinity_header: X-Session}\n\
                fallback: {fallback_chains: {a: [b, c], b: c, d: []}}\nlogging: {level: debug, format: json}\n";
    let config = config(text);
    assert_eq!(config.routing.strategy, Strategy::Weighted);
    assert_eq!((config.routing.weights, config.routing.rewrite_model), (Weights::Literal, RewriteModel::Never));
    assert_eq!(config.routing.affinity_header.as_deref(), Some("x-session"));
    assert_eq!(config.fallback.len(), 3);
    assert_eq!(config.logging.format, LogFormat::Json);
    assert!(super::config("fallback: {enabled: false, fallback_chains: {a: [b]}}").fallback.is_empty());
}

#[test]
fn what_is_not_in_effect_yet_is_named() {
    let text = "routing: {queue_timeout: 1s}\nserver:\n  tls: {cert_file: a, key_file: b}\njournal: {file: j}\n\
                backends: [{name: a, url: 'http://h', models: [m], role: prefill}]\nrequest: {connect_timeout: 1s}\n";
    let loaded = loaded(text);
    let named: Vec<_> = loaded.not_in_effect.iter().map(|warning| (warning.at.line, warning.key.as_str())).collect();
    assert_eq!(named, [(5, "backends[0].role")]);
    assert_eq!(super::loaded("selection_strategy: random").not_in_effect, []);
}

#[test]
fn features_of_continuum_router_are_accepted_with_a_warning_each() {
    let text = "webui: {enabled: true}\nacp:\n  x: ${NOT_SET}\nglobal_prompts: {}\nmetrics: {persistence: {file: x}}\n\
                model_metadata_file: x\nadmin: {auth: {method: none}}\nserver: {workers: 4}\nrate_limiting: {}\n\
                api_keys: {persistence_file: x}\n";
    let warnings = loaded(text).warnings;
    let keys: Vec<_> =
        warnings.iter().filter(|warning| warning.at.line > 1).map(|warning| warning.key.as_str()).collect();
    let expected = [
        "acp",
        "global_prompts",
        "metrics",
        "model_metadata_file",
        "admin.auth",
        "server.workers",
        "rate_limiting",
        // Beside it: every request needs a key, and there is none.
        "api_keys.mode",
        "api_keys.persistence_file",
    ];
    assert_eq!(keys, expected);
    assert!(warnings.iter().any(|warning| warning.key == "webui"));
}

#[test]
fn anchors_merges_and_variables_work() {
    let text = "backends:\n- &one {name: a, url: 'http://h', models: [m], api_key: '${SECRET}'}\n- <<: *one\n  name: b\n\
                server: {header_timeout: '${TEN}'}\nadmin: {token: '${NESTED}'}\n";
    let config = config(text);
    let keys: Vec<_> =
        config.backends.iter().filter_map(|backend| backend.api_key.as_ref()).map(|key| key.expose()).collect();
    assert_eq!(keys, ["s3cr3t-marker-0123456789", "s3cr3t-marker-0123456789"]);
    assert_eq!(config.server.header_timeout, Duration::from_secs(10));
    assert_eq!(config.admin.token.as_ref().map(|token| token.expose()), Some("${SECRET}"), "not looked at again");
}

#[test]
fn a_plain_router_that_admits_anybody_is_named_unless_the_file_says_so() {
    let backends = "backends: [{name: b, url: \"http://b\", models: [m]}]\n";
    for (section, warned) in [
        ("", true),
        ("api_keys:\n", true),
        ("api_keys: {mode: permissive}", false),
        ("api_keys: {keys: [{id: a, key: k}]}", false),
    ] {
        let loaded = loaded(&format!("{backends}{section}"));
        let said = loaded.warnings.iter().any(|warning| {
            warning.key == "api_keys"
                && warning.text.contains("admitted without a key")
                && warning.text.contains("mode")
        });
        assert_eq!(said, warned, "{section}: {:?}", loaded.warnings);
    }
}

#[test]
fn a_journal_without_a_control_plane_is_named() {
    let loaded = loaded("journal: {file: /tmp/j}\nbackends: [{name: b, url: \"http://b\", models: [m]}]");
    let named: Vec<_> = loaded.warnings.iter().map(|warning| warning.key.as_str()).collect();
    assert_eq!(named, ["api_keys", "journal.file"]);
    assert_eq!(loaded.not_in_effect, []);
}

#[cfg(feature = "appproxy-router")]
#[test]
fn the_examples_pass() {
    let router = loaded(include_str!("../../../../config.example.router.yaml"));
    assert!(router.config.worker.is_some());
    assert_eq!(
        router.warnings.iter().map(|warning| warning.key.as_str()).collect::<Vec<_>>(),
        ["appproxy_router.coordinator_url"]
    );
    let plain = loaded(include_str!("../../../../config.example.plain.yaml"));
    assert_eq!((plain.config.backends.len(), plain.config.api_keys.keys.len()), (2, 1));
    assert_eq!(plain.warnings, []);
    for loaded in [&router, &plain] {
        assert_eq!(loaded.not_in_effect, []);
    }
}

#[cfg(feature = "appproxy-legacy")]
#[test]
fn the_legacy_example_passes() {
    let legacy = loaded(include_str!("../../../../config.example.legacy.yaml"));
    let warned: Vec<&str> = legacy.warnings.iter().map(|warning| warning.key.as_str()).collect();
    assert_eq!((warned, legacy.not_in_effect.len()), (vec!["appproxy.coordinator_url"], 0));
    insta::assert_snapshot!("legacy", describe(&legacy.config));
}

#[cfg(feature = "appproxy-router")]
#[test]
fn the_description_of_the_examples() {
    insta::assert_snapshot!("router", describe(&config(include_str!("../../../../config.example.router.yaml"))));
    insta::assert_snapshot!("plain", describe(&config(include_str!("../../../../config.example.plain.yaml"))));
}

#[test]
fn a_backend_may_name_no_model_if_it_is_asked_for_its_own() {
    let backend = |more: &str| format!("backends: [{{name: a, url: 'http://h'{more}}}]\n");
    let nothing_served =
        |text: &str| loaded(text).warnings.iter().any(|warning| warning.text.contains("serves nothing"));
    assert!(!nothing_served(&backend("")));
    assert!(nothing_served(&backend(", health_checks: {enabled: false}")));
    assert!(nothing_served(&format!("health_checks: {{enabled: false}}\n{}", backend(""))));
    assert!(!nothing_served(&backend(", models: [m], health_checks: {enabled: false}")));
    assert!(config(&backend("")).backends[0].probed);
    let unprobed = config(&backend(", models: [m], health_checks: {enabled: false}"));
    assert!(!unprobed.backends[0].probed);
    assert_eq!(config(&crate::config::describe(&unprobed)).backends, unprobed.backends);
    let settings = crate::serving::ServingSettings::from(&unprobed);
    assert!(!settings.backends[0].probed);
    assert_eq!((settings.checks, settings.passive), (unprobed.health_checks, unprobed.passive));
}
