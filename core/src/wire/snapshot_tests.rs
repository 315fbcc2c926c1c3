use serde_json::json;

use super::*;
use crate::limits;
use crate::time::UnixMillis;
use crate::wire::circuit::Ratio;
use crate::wire::malformed::MalformedKind;
use crate::wire::publication::ControlMode;

const E3: &str = "33333333-3333-4333-8333-333333333333";
const E4: &str = "44444444-4444-4444-8444-444444444444";

fn parse(json: &serde_json::Value) -> Result<Snapshot, Malformed> {
    parse_snapshot(json.to_string().as_bytes())
}

fn one_model(publication: &serde_json::Value) -> Snapshot {
    parse(&json!({"revision": 1, "models": [publication], "keys": []})).unwrap()
}

#[test]
fn the_example_of_the_protocol_is_read() {
    let body = format!(
        r#"{{"revision":"42",
            "models":[{{"model":"llama-4-chat","aliases":["llama-4"],
              "mappings":[{{"endpoint_id":"{E3}","ratio":0.7}},{{"endpoint_id":"{E4}","ratio":0.3}}],
              "control_mode":"manual"}}],
            "api_keys":[{{"key_id":"key-abc","token_hash":"{}","allowed_models":["llama-4-chat"],
              "expires_at":"2026-12-31T23:59:59Z","rate_limit":600,"allowed_client_ips":["10.0.0.0/8"]}}]}}"#,
        "0f".repeat(32)
    );
    let snapshot = parse_snapshot(body.as_bytes()).unwrap();
    assert_eq!(&*snapshot.revision.0, "42");
    let model = &snapshot.models.good[0];
    assert_eq!((&*model.model, &*model.aliases[0]), ("llama-4-chat", "llama-4"));
    let mappings: Vec<_> =
        model.mappings.iter().map(|mapping| (mapping.endpoint_id.to_string(), mapping.ratio)).collect();
    assert_eq!(mappings, [(E3.to_owned(), Ratio(0.7)), (E4.to_owned(), Ratio(0.3))]);
    assert_eq!(model.control_mode, ControlMode::Manual);
    let key = &snapshot.keys.good[0];
    assert_eq!((key.key_id.as_str(), key.token_hash.0, key.rate_limit), ("key-abc", [0x0f; 32], Some(600)));
    assert_eq!(key.expires_at, Some(UnixMillis(1_798_761_599_000)));
    assert_eq!(
        (&*key.allowed_models[0], key.allowed_client_ips.clone()),
        ("llama-4-chat", Some(vec!["10.0.0.0/8".into()]))
    );
    assert!(snapshot.forgiven.is_empty() && snapshot.models.malformed.is_empty() && snapshot.keys.malformed.is_empty());
}

#[test]
fn every_name_of_the_lists_is_accepted() {
    for models in ["models", "publications"] {
        for keys in ["api_keys", "api-keys", "keys"] {
            let snapshot = parse(&json!({"revision": "r", models: [{"model": "m"}], keys: []})).unwrap();
            assert_eq!(snapshot.models.good.len(), 1, "{models} {keys}");
        }
    }
}

#[test]
fn a_body_without_one_of_its_parts_is_a_failed_pull() {
    let whole = json!({"revision": "r", "models": [], "api_keys": []});
    assert!(parse(&whole).is_ok());
    for missing in ["revision", "models", "api_keys"] {
        for value in [None, Some(json!(null)), Some(json!({})), Some(json!(true))] {
            let mut body = whole.clone();
            match value {
                None => body.as_object_mut().unwrap().remove(missing).map(drop).unwrap(),
                Some(value) => body[missing] = value,
            }
            let error = parse(&body).unwrap_err();
            assert_eq!((error.kind, error.path.as_str()), (MalformedKind::RestBody, missing), "{body}");
        }
    }
    for body in ["", "null", "[]", "\"x\"", "<html>", "{", "{}x"] {
        assert_eq!(parse_snapshot(body.as_bytes()).unwrap_err().kind, MalformedKind::RestBody, "{body}");
    }
    assert_eq!(parse_snapshot(b"{\"revision\":\"\xff\"}").unwrap_err().problem, "not UTF-8 after byte 13");
}

#[test]
fn revisions_are_kept_as_text() {
    for (revision, text) in [("\"42\"", "42"), ("42", "42"), ("42.0", "42.0"), ("\"a b\"", "a b"), ("1e999", "1e999")] {
        let body = format!(r#"{{"revision":{revision},"models":[],"keys":[]}}"#);
        assert_eq!(&*parse_snapshot(body.as_bytes()).unwrap().revision.0, text);
    }
}

#[test]
fn unknown_numbers_are_0_and_reported_with_their_paths() {
    let body = format!(
        r#"{{"revision":1,"keys":[],"models":[{{"model":"NaN","mappings":[
            {{"endpoint_id":"{E3}","ratio":NaN}},{{"endpoint_id":"{E4}","ratio":-Infinity}},
            {{"endpoint_id":"{E4}","ratio":1e999}},{{"endpoint_id":"{E4}","ratio":-1}},
            {{"endpoint_id":"{E4}","ratio":null}},{{"endpoint_id":"{E4}"}}]}}],"other":Infinity}}"#
    );
    let snapshot = parse_snapshot(body.as_bytes()).unwrap();
    let model = &snapshot.models.good[0];
    assert_eq!(&*model.model, "NaN");
    let ratios: Vec<_> = model.mappings.iter().map(|mapping| mapping.ratio.0).collect();
    assert_eq!(ratios, [0.0, 0.0, 0.0, -1.0, 0.0, 1.0]);
    let forgiven: Vec<_> = snapshot.forgiven.iter().map(|report| report.path.as_str()).collect();
    assert_eq!(forgiven, ["models[0].mappings[0].ratio", "models[0].mappings[1].ratio", "other"]);
    let numbers: Vec<_> = snapshot.models.malformed.iter().map(|report| (report.kind, report.path.as_str())).collect();
    let path = |index: u32| format!("models[0].mappings[{index}].ratio");
    let (path2, path3, path4) = (path(2), path(3), path(4));
    assert_eq!(numbers, [path2, path3, path4].each_ref().map(|path| (MalformedKind::Number, path.as_str())));
    assert_eq!(snapshot.models.malformed[0].id.as_deref(), Some(E4));
    // Nothing else is forgiven with them.
    assert!(parse_snapshot(body.replace("\"revision\":1,", "").as_bytes()).is_err());
    assert!(parse_snapshot(body.replace("\"revision\":1,", "\"revision\":1,,").as_bytes()).is_err());
}

#[test]
fn a_bad_mapping_costs_itself_and_a_bad_name_costs_the_publication() {
    let snapshot = one_model(&json!({"model": "m", "mappings": [
        {"endpoint_id": E3, "ratio": "0.5"}, {"endpoint_id": "x"}, {"ratio": 1}, 5, {"endpoint-id": E4, "ratio": 0}
    ]}));
    assert_eq!(snapshot.models.good[0].mappings.len(), 1);
    assert_eq!(snapshot.models.good[0].mappings[0].ratio, Ratio(0.0));
    let reports: Vec<_> =
        snapshot.models.malformed.iter().map(|report| (report.path.as_str(), report.problem.as_str())).collect();
    assert_eq!(
        reports,
        [
            ("models[0].mappings[0].ratio", "a string where a number should be"),
            (
                "models[0].mappings[1].endpoint_id",
                "\"x\" is no UUID; 32 hex digits, with or without dashes, should be here"
            ),
            ("models[0].mappings[2].endpoint_id", "missing; the endpoint's UUID should be here"),
            ("models[0].mappings[3]", "a number where an object should be"),
        ]
    );
    assert_eq!(snapshot.models.malformed[0].id.as_deref(), Some(E3));
    for bad in [
        json!({"model": "m", "aliases": [1]}),
        json!({"model": "m", "aliases": "a"}),
        json!({"model": "m", "mappings": {}}),
    ] {
        let snapshot = one_model(&bad);
        assert_eq!((snapshot.models.good.len(), snapshot.models.skipped_ids.as_slice()), (0, &["m".to_owned()][..]));
        assert!(!snapshot.models.unreadable);
    }
    for bad in [json!({"model": ""}), json!({"model": null}), json!({"aliases": []}), json!([])] {
        assert!(one_model(&bad).models.unreadable, "{bad}");
    }
}

#[test]
fn aliases_and_control_modes_are_tidied() {
    let publication =
        json!({"model": "m", "aliases": ["b", "m", "a", "b"], "mappings": null, "control-mode": "strategy-managed"});
    let model = one_model(&publication).models.good.remove(0);
    assert_eq!(model.aliases.iter().map(|alias| &**alias).collect::<Vec<_>>(), ["b", "a"]);
    assert_eq!(model.control_mode, ControlMode::StrategyManaged);
    for (word, mode) in [
        (json!("strategy_managed"), ControlMode::StrategyManaged),
        (json!(null), ControlMode::Manual),
        (json!("canary"), ControlMode::Unknown("canary".into())),
        (json!({"a": 1}), ControlMode::Unknown("{\"a\":1}".into())),
    ] {
        assert_eq!(one_model(&json!({"model": "m", "control_mode": word})).models.good[0].control_mode, mode);
    }
}

#[test]
fn of_two_elements_with_one_id_the_last_one_counts() {
    let hash = "ab".repeat(32);
    let snapshot = parse(&json!({"revision": 1,
    "models": [{"model": "a", "aliases": ["old"]}, {"model": "b"}, {"model": "a", "aliases": ["new"]}],
    "keys": [
        {"key_id": "good last", "token_hash": "x"}, {"key_id": "bad last", "token_hash": hash},
        {"key_id": "good last", "token_hash": hash}, {"key_id": "bad last", "token_hash": "x"},
    ]}))
    .unwrap();
    let models: Vec<_> =
        snapshot.models.good.iter().map(|model| (&*model.model, model.aliases.first().map(|a| &**a))).collect();
    assert_eq!(models, [("b", None), ("a", Some("new"))]);
    assert_eq!(snapshot.models.malformed[0].path, "models[2]");
    // A key whose newest form cannot be read is refused, whatever an older one says.
    assert_eq!(snapshot.keys.good.iter().map(|key| key.key_id.as_str()).collect::<Vec<_>>(), ["good last"]);
    assert_eq!(snapshot.keys.skipped_ids, ["bad last"]);
}

#[test]
fn reports_are_bounded_and_all_counted() {
    for number in [limits::REPORTED_ELEMENTS, limits::REPORTED_ELEMENTS + 1, 1000] {
        let models: Vec<_> = (0..number).map(|index| json!({"model": format!("m{index}"), "aliases": 1})).collect();
        let snapshot = parse(&json!({"revision": 1, "models": models, "keys": []})).unwrap();
        assert_eq!(snapshot.models.skipped_ids.len(), number);
        assert!(snapshot.models.malformed.len() <= limits::REPORTED_ELEMENTS + 1);
        assert_eq!(snapshot.models.malformed.iter().map(Malformed::count).sum::<u64>(), number as u64);
    }
}
