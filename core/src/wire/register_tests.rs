use core::time::Duration;

use super::*;
use crate::config::worker::EventDialect;
use crate::secret::Secret;

fn config(mode: Mode) -> WorkerConfig {
    WorkerConfig {
        mode,
        coordinator_url: "http://coordinator:10200".into(),
        api_secret: Secret::new("api-secret"),
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
        events_enabled: false,
        event_dialect: EventDialect::Both,
        call_timeout: Duration::from_secs(10),
        pull_timeout: Duration::from_secs(30),
        max_staleness: None,
    }
}

fn node() -> NodeId {
    NodeId("b3f1c0de-0000-4000-8000-000000000001".parse().unwrap())
}

#[test]
fn the_router_body_is_that_of_the_protocol() {
    let body = register_body(&config(Mode::Router(Default::default())), node());
    assert_eq!(
        body,
        r#"{"authority":"continuum-router-1","frontend_mode":"router","protocol":"http","hostname":"router.example.com","tls_listen":false,"tls_advertised":true,"api_port":8080,"traffic_port":443,"node_id":"b3f1c0de-0000-4000-8000-000000000001","accepted_traffics":["inference"],"filtered_apps_only":false,"app_filters":[],"port_range":null,"wildcard_domain":null,"wildcard_traffic_port":null,"traefik_last_used_marker_path":null}"#
    );
}

#[test]
fn the_wildcard_body_is_that_of_the_protocol_and_holds_no_secret() {
    let mode = Mode::Legacy(crate::config::worker::LegacyMode {
        jwt_secret: Secret::new("jwt-secret"),
        jwt_leeway: Duration::from_secs(60),
        wildcard_domain: ".models.example.com".into(),
        aggregation_hosts: Vec::new(),
        model_names: Vec::new(),
    });
    let body = register_body(&config(mode), node());
    assert_eq!(
        body,
        r#"{"authority":"continuum-router-1","frontend_mode":"wildcard","protocol":"http","hostname":"router.example.com","tls_listen":false,"tls_advertised":true,"api_port":8080,"accepted_traffics":["inference"],"filtered_apps_only":false,"app_filters":[],"traefik_last_used_marker_path":null,"wildcard_domain":".models.example.com","wildcard_traffic_port":443}"#
    );
}

#[test]
fn the_heartbeat_names_the_node() {
    assert_eq!(heartbeat_body(node()), r#"{"node_id":"b3f1c0de-0000-4000-8000-000000000001"}"#);
}

#[test]
fn a_register_answer_needs_only_its_id() {
    let answer = parse_register_answer(
        br#"{"id":"4A5B43521F10411C9B5F467C219B0032","nodes":1,"slots":[],"accepted_traffics":["inference","interactive"]}"#,
    )
    .unwrap();
    assert_eq!(answer.worker_id.to_string(), "4a5b4352-1f10-411c-9b5f-467c219b0032");
    assert_eq!(answer.accepted_traffics, Some(vec!["inference".into(), "interactive".into()]));
    for silent in [r#""x""#, "null", "[1]"] {
        let body = format!(r#"{{"id":"4a5b4352-1f10-411c-9b5f-467c219b0032","accepted-traffics":{silent}}}"#);
        assert_eq!(parse_register_answer(body.as_bytes()).unwrap().accepted_traffics, None);
    }
    for (body, path) in
        [("{}", "id"), (r#"{"id":"7"}"#, "id"), (r#"{"id":null}"#, "id"), ("[]", ""), ("", ""), ("{", "")]
    {
        let error = parse_register_answer(body.as_bytes()).unwrap_err();
        assert_eq!((error.kind, error.path.as_str()), (MalformedKind::RestBody, path), "{body}");
    }
    assert!(parse_register_answer(b"\xff").is_err());
}

#[test]
fn error_answers_become_one_line() {
    for (body, text) in [
        (
            r#"{"type":"u","title":"Service unavailable.","error_code":"e","msg":"E10001: no\n answer"}"#,
            "Service unavailable.: E10001: no answer (e)",
        ),
        (r#"{"type":"https://x/auth-failed"}"#, "https://x/auth-failed"),
        (r#"{"error_code":"e"}"#, "(e)"),
        (r#"{"title":7,"x":1}"#, r#"{"title":7,"x":1}"#),
        ("<html>\n <b>Bad\tGateway</b>", "<html> <b>Bad Gateway</b>"),
        ("  \n", "an empty answer"),
        ("", "an empty answer"),
        (
            r#"{"title":"Missing or invalid API parameters.","msg":"Input validation error","error_code":"c","data":{"errors":[{"type":"enum","loc":["frontend_mode"],"msg":"Input should be 'wildcard' or 'port'"},{"loc":["a",1],"msg":"m"},{"loc":3}]}}"#,
            "Missing or invalid API parameters.: Input validation error: frontend_mode: Input should be 'wildcard' or 'port'; a.1: m (c)",
        ),
    ] {
        assert_eq!(error_text(body.as_bytes()), text);
    }
}

#[test]
fn long_and_odd_error_answers_are_cut_to_the_limit() {
    for (body, shown) in [("한".repeat(limits::QUOTED_CHARS), true), ("한".repeat(limits::QUOTED_CHARS + 1), false)] {
        let text = error_text(body.as_bytes());
        assert_eq!(text.chars().count(), limits::QUOTED_CHARS);
        assert_eq!(text == body, shown);
    }
    assert_eq!(error_text(b"\xff\x00\x1b[31mred"), "\u{fffd} [31mred");
    assert_eq!(error_text(&vec![b'x'; 10_000_000]).len(), limits::QUOTED_CHARS);
}
