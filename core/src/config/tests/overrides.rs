use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::keys::{KEYS, Kind};
use super::super::{Loaded, load_with};
use super::{env, router};

const BACKENDS: &str = "backends:\n  - {name: one, url: \"http://10.0.0.1:8000\", models: [m]}\n";

fn given(text: &str, variables: &[(&str, &str)]) -> Result<Loaded, String> {
    let variables: BTreeMap<_, _> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    load_with(text, &env, &variables).map_err(|problems| problems.to_string())
}

#[test]
fn a_variable_takes_the_place_of_a_key() {
    let file = format!("server:\n  idle_timeout: 9s\n{BACKENDS}");
    let config = given(
        &file,
        &[
            ("APPPROXY__SERVER__IDLE_TIMEOUT", "7s"),
            ("APPPROXY__SERVER__CORS__ALLOWED_ORIGINS", "https://a.example, https://b.example"),
            ("APPPROXY__BACKENDS__0__URL", "http://10.0.0.2:8000"),
            ("APPPROXY__BACKENDS__1__NAME", "two"),
            ("APPPROXY__BACKENDS__1__URL", "http://10.0.0.3:8000"),
            ("APPPROXY__BACKENDS__1__MODELS", "m,n"),
        ],
    )
    .expect("accepted")
    .config;
    assert_eq!(config.server.idle_timeout.as_secs(), 7);
    assert_eq!(config.backends.len(), 2);
    let urls: Vec<_> = config.backends.iter().map(|backend| backend.url.to_string()).collect();
    assert!(urls[0].contains("10.0.0.2") && urls[1].contains("10.0.0.3"), "{urls:?}");
    assert_eq!(config.backends[1].models.len(), 2);
}

#[test]
fn the_value_is_taken_as_it_is() {
    // In the file this would be a variable, a comment, an alias.
    for secret in ["${SECRET}", "a # b", "*x", "'", "123", " with spaces "] {
        let config = given(&router(""), &[("APPPROXY__APPPROXY_ROUTER__API_SECRET", secret)]).expect(secret).config;
        assert_eq!(config.worker.expect("a worker").api_secret.expose(), secret);
    }
}

#[test]
fn a_section_that_the_file_lacks_is_made() {
    let variables = [
        ("APPPROXY__APPPROXY_ROUTER__ENABLED", "true"),
        ("APPPROXY__APPPROXY_ROUTER__COORDINATOR_URL", "http://127.0.0.1:10200"),
        ("APPPROXY__APPPROXY_ROUTER__API_SECRET", "s3cr3t-marker-0123456789"),
        ("APPPROXY__APPPROXY_ROUTER__EVENTS_ENABLED", "false"),
        ("APPPROXY__APPPROXY_ROUTER__AUTHORITY", "a1"),
        ("APPPROXY__APPPROXY_ROUTER__HOSTNAME", "router.example.com"),
    ];
    assert!(given("", &variables).expect("accepted").config.worker.is_some());
}

#[test]
fn what_is_wrong_names_the_environment_and_hides_the_value() {
    let cases = [
        (
            "APPPROXY__SERVER__IDLE_TIMEOUT",
            "hunter2",
            "environment: server.idle_timeout: the value of the variable is not a duration",
        ),
        ("APPPROXY__SERVR__IDLE_TIMEOUT", "7s", "environment: servr: unknown key; did you mean `server`?"),
        (
            "APPPROXY__SERVER__IDEL_TIMEOUT",
            "7s",
            "environment: server.idel_timeout: unknown key; did you mean `idle_timeout`?",
        ),
        ("APPPROXY__", "x", "environment: APPPROXY__: names no key"),
        ("APPPROXY__SERVER____X", "x", "environment: APPPROXY__SERVER____X: names no key"),
        ("APPPROXY__BACKENDS__2__URL", "http://h", "`2` is no entry of the list backends"),
        ("APPPROXY__BACKENDS__NAME", "x", "`name` is no entry of the list backends"),
        ("APPPROXY__FALLBACK__FALLBACK_CHAINS", "{}", "a table cannot be given in one variable"),
        ("APPPROXY__SERVER", "x", "environment: server: not a section"),
        (
            "APPPROXY__SERVER__IDLE_TIMEOUT__X",
            "x",
            "environment: APPPROXY__SERVER__IDLE_TIMEOUT__X: server.idle_timeout is no section",
        ),
    ];
    let file = format!("server:\n  idle_timeout: 9s\n{BACKENDS}");
    for (name, value, expected) in cases {
        let found = given(&file, &[(name, value)]).expect_err(name);
        assert!(found.contains(expected), "{name}: {found}");
        assert!(!found.contains("hunter2"), "{found}");
    }
}

proptest! {
    /// Whatever the names and values: an answer, no panic, and no value in a problem.
    #[test]
    fn any_variables_are_answered(
        names in prop::collection::vec(prop_oneof![
            prop::sample::select(KEYS.iter().map(|doc| doc.key.replace("[]", ".0").replace('.', "__").to_uppercase()).collect::<Vec<_>>()),
            "[A-Z_0-9]{0,20}",
        ], 0..6),
    ) {
        let variables: BTreeMap<String, String> =
            names.into_iter().map(|name| (format!("APPPROXY__{name}"), "marker-7f3a".to_owned())).collect();
        if let Err(problems) = load_with(BACKENDS, &env, &variables) {
            prop_assert!(!problems.to_string().contains("marker-7f3a"), "{}", problems);
        }
    }
}

/// Each key can be given by a variable: the reader sees it there.
#[test]
fn every_key_but_a_table_can_be_given() {
    for doc in KEYS.iter().filter(|doc| !matches!(doc.kind, Kind::Table) && !doc.key.starts_with("appproxy")) {
        let name = format!("APPPROXY__{}", doc.key.replace("[]", ".0").replace('.', "__").to_uppercase());
        if let Err(found) = given(BACKENDS, &[(&name, "\u{7}")]) {
            assert!(!found.contains("unknown key") && !found.contains("no entry of"), "{name}: {found}");
        }
    }
}
