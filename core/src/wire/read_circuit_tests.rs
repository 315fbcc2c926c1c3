use serde_json::json;

use super::*;
use crate::wire::circuit::Ratio;

const ID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";
const OTHER: &str = "11111111-1111-4111-8111-111111111111";

fn answer(circuits: &serde_json::Value) -> Elements<Circuit> {
    parse_circuits_answer(json!({ "circuits": circuits }).to_string().as_bytes()).unwrap()
}

fn circuit_with(field: &str, value: &serde_json::Value) -> Elements<Circuit> {
    let mut circuit = json!({ "id": ID });
    circuit[field] = value.clone();
    answer(&json!([circuit]))
}

fn route_with(field: &str, value: &serde_json::Value) -> (Option<Route>, Vec<Malformed>) {
    let mut route = json!({ "kernel_port": 8000 });
    route[field] = value.clone();
    let mut elements = circuit_with("route_info", &json!([route]));
    (elements.good[0].routes.pop(), elements.malformed)
}

#[test]
fn a_whole_circuit_is_read_in_both_spellings() {
    let body = json!({"id": ID, "app": "", "protocol": "http", "worker": OTHER, "app_mode": "inference",
        "frontend_mode": "wildcard", "envs": {"TOKEN": "s"}, "arguments": null, "open_to_public": true,
        "allowed_client_ips": "10.0.0.0/8", "port": null, "subdomain": "Qwen", "user_id": null, "endpoint_id": OTHER,
        "runtime_variant": "vllm", "session_ids": [], "created_at": "2026-11-29T21:07:46.836593Z", "updated_at": null,
        "route_info": [{"route_id": OTHER, "session_id": OTHER, "session_name": null, "kernel_host": "10.0.0.5",
            "kernel_port": 30729, "protocol": "http", "traffic_ratio": 0.5, "replica_group_id": ID}],
        "replica_groups": [{"id": ID, "traffic_weight": 90, "lifecycle": "ACTIVE"}]});
    let snake = answer(&json!([body]));
    let kebab_text = body.to_string();
    let names = [
        "app_mode",
        "open_to_public",
        "allowed_client_ips",
        "endpoint_id",
        "runtime_variant",
        "created_at",
        "route_info",
        "route_id",
        "session_id",
        "kernel_host",
        "kernel_port",
        "traffic_ratio",
        "replica_group_id",
        "replica_groups",
        "traffic_weight",
    ];
    let kebab_text = names.iter().fold(kebab_text, |text, name| {
        text.replace(&format!("\"{name}\""), &format!("\"{}\"", name.replace('_', "-")))
    });
    let kebab = parse_circuits_answer(format!("{{\"circuits\":[{kebab_text}]}}").as_bytes()).unwrap();
    assert_eq!(snake, kebab);
    assert!(snake.malformed.is_empty());
    let id = |text: &str| uuid::Uuid::parse_str(text).unwrap();
    let circuit = &snake.good[0];
    assert_eq!(
        *circuit,
        Circuit {
            id: CircuitId(id(ID)),
            app: Some(String::new()),
            protocol: Protocol::Http,
            app_mode: AppMode::Inference,
            open_to_public: true,
            allowed_client_ips: Some("10.0.0.0/8".into()),
            subdomain: Some("qwen".into()),
            endpoint_id: Some(EndpointId(id(OTHER))),
            runtime_variant: Some("vllm".into()),
            created_at: Some("2026-11-29T21:07:46.836593Z".into()),
            routes: vec![Route {
                route_id: Some(RouteId(id(OTHER))),
                index: 0,
                session_id: Some(id(OTHER)),
                kernel_host: Some("10.0.0.5".into()),
                kernel_port: 30729,
                protocol: Protocol::Http,
                traffic_ratio: Ratio(0.5),
                replica_group_id: Some(GroupId(id(ID))),
            }],
            replica_groups: vec![ReplicaGroup {
                id: GroupId(id(ID)),
                traffic_weight: Ratio(90.0),
                lifecycle: Some("ACTIVE".into()),
            }],
        }
    );
}

#[test]
fn only_the_id_is_required_and_it_has_many_spellings() {
    for id in [ID.to_owned(), ID.to_uppercase(), ID.replace('-', ""), format!("{{{ID}}}"), format!(" {ID} ")] {
        let elements = answer(&json!([{ "id": id }]));
        let circuit = &elements.good[0];
        assert_eq!(circuit.id.to_string(), ID);
        assert_eq!(
            (circuit.protocol, circuit.app_mode, circuit.open_to_public),
            (Protocol::Http, AppMode::Inference, false)
        );
        assert!(circuit.routes.is_empty() && elements.malformed.is_empty());
    }
    for bad in [json!({"id": "not-a-uuid"}), json!({}), json!({"id": null}), json!({"id": 7}), json!("x"), json!(null)]
    {
        let elements = answer(&json!([bad, { "id": ID }]));
        assert!(elements.unreadable && elements.skipped_ids.is_empty(), "{bad}");
        assert_eq!(elements.good.len(), 1);
    }
    let elements = answer(&json!([{ "id": "not-a-uuid" }]));
    assert_eq!(
        elements.malformed[0].to_string(),
        "malformed circuit at circuits[0].id: \"not-a-uuid\" is no UUID; 32 hex digits, with or without dashes, should be here"
    );
}

#[test]
fn unknown_words_and_unread_fields_break_nothing() {
    for word in ["grpc", "h2", "tcp", "preopen", "vnc", "rdp", "quic", ""] {
        assert_eq!(circuit_with("protocol", &json!(word)).good[0].protocol, Protocol::Other);
    }
    assert_eq!(circuit_with("app_mode", &json!("interactive")).good[0].app_mode, AppMode::Interactive);
    assert_eq!(circuit_with("app_mode", &json!("batch")).good[0].app_mode, AppMode::Other);
    for field in ["envs", "worker", "frontend_mode", "port", "user_id", "session_ids", "arguments", "updated_at", "x"] {
        let elements = circuit_with(field, &json!([{"odd": 1}]));
        assert!(elements.good.len() == 1 && elements.malformed.is_empty(), "{field}");
    }
    assert_eq!(circuit_with("created_at", &json!(1.5)).good[0].created_at.as_deref(), Some("1.5"));
    for field in ["subdomain", "endpoint_id", "route_info", "replica_groups", "protocol", "app_mode", "open_to_public"]
    {
        let elements = circuit_with(field, &json!(null));
        assert!(elements.good.len() == 1 && elements.malformed.is_empty(), "{field}");
    }
}

#[test]
fn a_field_of_the_wrong_type_costs_the_circuit_and_its_id_is_known() {
    for (field, value) in [
        ("app", json!(1)),
        ("protocol", json!(1)),
        ("app_mode", json!([])),
        ("open_to_public", json!("false")),
        ("allowed_client_ips", json!(["10.0.0.0/8"])),
        ("subdomain", json!({})),
        ("endpoint_id", json!("x")),
        ("runtime_variant", json!(false)),
        ("route_info", json!({})),
    ] {
        let elements = circuit_with(field, &value);
        assert_eq!((elements.good.len(), elements.skipped_ids.as_slice()), (0, &[ID.to_owned()][..]), "{field}");
        assert_eq!(elements.malformed[0].path, format!("circuits[0].{field}"));
        assert_eq!(elements.malformed[0].id.as_deref(), Some(ID));
        assert!(!elements.unreadable);
    }
}

#[test]
fn a_bad_route_costs_itself_and_the_others_keep_their_places() {
    let elements = circuit_with(
        "route_info",
        &json!([{"kernel_port": 0}, {"kernel_port": 65535}, {"route_id": OTHER, "kernel_port": 65536}, 5, {"kernel_port": 1}]),
    );
    let places: Vec<_> = elements.good[0].routes.iter().map(|route| (route.index, route.kernel_port)).collect();
    assert_eq!(places, [(1, 65535), (4, 1)]);
    let reports: Vec<_> = elements.malformed.iter().map(|report| (&*report.path, report.id.as_deref())).collect();
    assert_eq!(
        reports,
        [
            ("circuits[0].route_info[0].kernel_port", None),
            ("circuits[0].route_info[2].kernel_port", Some(OTHER)),
            ("circuits[0].route_info[3]", None),
        ]
    );
    assert!(elements.skipped_ids.is_empty() && !elements.unreadable);
}

#[test]
fn route_fields_are_checked() {
    for bad in [json!(-1), json!(1.5), json!("8000"), json!(null), json!(true), json!(1e9)] {
        assert!(route_with("kernel_port", &bad).0.is_none(), "{bad}");
    }
    for (host, wanted) in
        [("kernel.example", "kernel.example"), ("2001:db8::5", "2001:db8::5"), ("[::1]", "::1"), ("호스트", "호스트")]
    {
        assert_eq!(route_with("kernel_host", &json!(host)).0.unwrap().kernel_host.as_deref(), Some(wanted));
    }
    assert_eq!(route_with("kernel_host", &json!(null)).0.unwrap().kernel_host, None);
    for host in ["", " ", "a/b", "a:80", "user@host", "a b", "a#b", "[a]", "a?b", "::1]", "a%b", "a\nb", "\\\\a"] {
        assert!(route_with("kernel_host", &json!(host)).0.is_none(), "{host:?}");
    }
    for field in ["route_id", "session_id", "replica_group_id"] {
        assert!(route_with(field, &json!("x")).0.is_none(), "{field}");
        assert!(route_with(field, &json!(null)).0.is_some(), "{field}");
    }
    assert_eq!(route_with("protocol", &json!("grpc")).0.unwrap().protocol, Protocol::Other);
}

#[test]
fn ratios_are_kept_and_odd_ones_reported() {
    for (value, ratio, reported) in
        [(json!(0), 0.0, false), (json!(1e300), 1e300, false), (json!(-2.5), -2.5, true), (json!(null), 0.0, true)]
    {
        let (route, reports) = route_with("traffic_ratio", &value);
        assert_eq!((route.unwrap().traffic_ratio, reports.len() == 1), (Ratio(ratio), reported), "{value}");
        if let Some(report) = reports.first() {
            assert_eq!(
                (report.kind, &*report.path),
                (MalformedKind::Number, "circuits[0].route_info[0].traffic_ratio")
            );
            assert_eq!(report.id.as_deref(), Some(ID));
        }
    }
    assert_eq!(route_with("x", &json!(1)).0.unwrap().traffic_ratio, Ratio(1.0));
    for bad in [json!("0.5"), json!(true), json!([1]), json!({})] {
        assert!(route_with("traffic_ratio", &bad).0.is_none(), "{bad}");
    }
}

#[test]
fn a_malformed_group_falls_away() {
    let elements =
        circuit_with("replica_groups", &json!([{"id": ID}, {"id": "x"}, {"id": OTHER, "traffic_weight": "1"}, 3]));
    let groups = &elements.good[0].replica_groups;
    assert_eq!((groups.len(), groups[0].traffic_weight), (1, Ratio(100.0)));
    assert!(elements.malformed.iter().all(|report| report.kind == MalformedKind::ReplicaGroup));
    assert_eq!(elements.malformed.len(), 3);
    let elements = circuit_with("replica_groups", &json!("x"));
    assert_eq!((elements.good.len(), &*elements.malformed[0].path), (1, "circuits[0].replica_groups"));
}

#[test]
fn answers_without_a_list_are_failed_pulls_and_unknown_numbers_are_forgiven() {
    for body in ["{}", r#"{"circuits":null}"#, r#"{"circuits":{}}"#, "[]", "", "{\"circuits\":[}"] {
        let error = parse_circuits_answer(body.as_bytes()).unwrap_err();
        assert_eq!(error.kind, MalformedKind::RestBody, "{body}");
    }
    let body = format!(
        r#"{{"circuits":[{{"id":"{ID}","envs":{{"A":NaN}},"route_info":[{{"kernel_port":1,"traffic_ratio":Infinity}},{{"kernel_port":NaN}}]}}]}}"#
    );
    let elements = parse_circuits_answer(body.as_bytes()).unwrap();
    let paths: Vec<_> = elements.malformed.iter().map(|report| &*report.path).collect();
    assert_eq!(
        paths,
        [
            "circuits[0].envs",
            "circuits[0].route_info[0].traffic_ratio",
            "circuits[0].route_info[1].kernel_port",
            "circuits[0].route_info[1].kernel_port",
        ]
    );
    assert_eq!(elements.good[0].routes.len(), 1);
    assert_eq!(elements.good[0].routes[0].traffic_ratio, Ratio(0.0));
}

#[test]
fn deep_nesting_in_an_answer_is_skipped_over() {
    let body = format!(r#"{{"circuits":[{{"id":"{ID}","envs":{}{}}}]}}"#, "[".repeat(1_000_000), "]".repeat(1_000_000));
    assert_eq!(parse_circuits_answer(body.as_bytes()).unwrap().good.len(), 1);
    let body = format!(r#"{{"circuits":{}{}}}"#, "[".repeat(1_000_000), "]".repeat(1_000_000));
    assert!(parse_circuits_answer(body.as_bytes()).unwrap().unreadable);
}

#[test]
fn of_two_circuits_with_one_id_the_last_one_counts() {
    let elements = answer(&json!([{"id": ID, "app": "old"}, {"id": OTHER}, {"id": ID.to_uppercase(), "app": "new"}]));
    let apps: Vec<_> = elements.good.iter().map(|circuit| circuit.app.as_deref()).collect();
    assert_eq!(apps, [None, Some("new")]);
    assert_eq!((elements.malformed.len(), &*elements.malformed[0].path), (1, "circuits[2]"));
}
