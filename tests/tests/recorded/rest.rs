//! Calls of the worker scope and their answers.

use std::time::Duration;

use appproxy_core::config::worker::{EventDialect, LegacyMode, Mode, WorkerConfig};
use appproxy_core::secret::Secret;
use appproxy_core::wire::circuit::parse_circuits_answer;
use appproxy_core::wire::ids::NodeId;
use appproxy_core::wire::register::{error_text, parse_register_answer, register_body};
use serde_json::Value;
use uuid::Uuid;

use super::{RELEASES, Release, text};

/// What the recorded worker was configured with.
fn config() -> WorkerConfig {
    WorkerConfig {
        mode: Mode::Legacy(LegacyMode {
            jwt_secret: Secret::new("unused"),
            jwt_leeway: Duration::from_secs(60),
            wildcard_domain: ".models.example.com".into(),
            aggregation_hosts: Vec::new(),
            model_names: Vec::new(),
        }),
        coordinator_url: "http://coordinator:10200".into(),
        api_secret: Secret::new("unused"),
        redis_url: None,
        ca_file: None,
        authority: "continuum-router-1".into(),
        hostname: "router.example.com".into(),
        tls_listen: false,
        tls_advertised: true,
        api_port: 8080,
        traffic_port: 443,
        heartbeat_period: Duration::from_secs(10),
        reconcile_interval: Duration::from_secs(15),
        events_enabled: true,
        event_dialect: EventDialect::Both,
        call_timeout: Duration::from_secs(10),
        pull_timeout: Duration::from_secs(30),
        max_staleness: None,
    }
}

#[track_caller]
fn row(release: &Release, name: &str) -> Value {
    let found = release.rows("rest.json").into_iter().find(|row| row["name"] == name);
    found.unwrap_or_else(|| panic!("{}: {name}", release.version))
}

#[test]
fn the_registration_is_the_recorded_one_field_by_field() {
    for release in RELEASES {
        let recorded = &row(&release, "register: first PUT")["request"]["body"];
        let ours: Value = serde_json::from_str(&register_body(&config(), NodeId(Uuid::nil()))).expect("JSON");
        let (ours, recorded) = (ours.as_object().expect("an object"), recorded.as_object().expect("an object"));
        for (name, value) in recorded {
            assert_eq!(ours.get(name), Some(value), "{} {name}", release.version);
        }
        assert_eq!(ours.len(), recorded.len(), "{}", release.version);
    }
}

#[test]
fn every_answer_to_a_call_of_ours_is_understood() {
    for release in RELEASES {
        let (mut registered, mut pulled, mut refused) = (0, 0, 0);
        for row in release.rows("rest.json") {
            let (request, response) = (&row["request"], &row["response"]);
            let at = format!("{} {}", release.version, row["name"]);
            let body = response["body"].to_string();
            match (text(request, "method"), response["status"].as_u64()) {
                ("PUT", Some(200)) => {
                    let answer = parse_register_answer(body.as_bytes()).expect(&at);
                    assert_eq!(answer.worker_id.to_string(), text(&response["body"], "id"), "{at}");
                    let traffics: Vec<&str> = response["body"]["accepted_traffics"]
                        .as_array()
                        .expect("a list")
                        .iter()
                        .filter_map(Value::as_str)
                        .collect();
                    assert_eq!(answer.accepted_traffics.expect(&at), traffics, "{at}");
                    registered += 1;
                }
                ("GET", Some(200)) if text(request, "path").ends_with("/circuits") => {
                    let read = parse_circuits_answer(body.as_bytes()).expect(&at);
                    assert!(read.malformed.is_empty() && !read.unreadable, "{at}: {:?}", read.malformed);
                    let wanted = response["body"]["circuits"].as_array().expect("a list");
                    let ids: Vec<String> = read.good.iter().map(|circuit| circuit.id.to_string()).collect();
                    assert_eq!(ids, wanted.iter().map(|it| text(it, "id")).collect::<Vec<_>>(), "{at}");
                    pulled += 1;
                }
                (_, Some(status @ 400..)) if response["body"].is_object() => {
                    // Shown to the operator, and never depended on.
                    let said = error_text(body.as_bytes());
                    assert!(said.starts_with(text(&response["body"], "title")), "{at}: {said}");
                    assert!(said.contains(text(&response["body"], "error_code")), "{at}: {said}");
                    assert!((400..600).contains(&status), "{at}");
                    refused += 1;
                }
                _ => {}
            }
        }
        assert!(registered > 10 && pulled > 3 && refused > 20, "{registered} {pulled} {refused}");
    }
}

#[test]
fn a_router_worker_is_refused_by_both_in_words_that_name_the_field() {
    for release in RELEASES {
        let refused = row(&release, "body: frontend_mode router");
        assert_eq!(refused["response"]["status"], 400);
        let said = error_text(refused["response"]["body"].to_string().as_bytes());
        assert!(said.contains("frontend_mode: Input should be 'wildcard' or 'port'"), "{said}");
    }
}
