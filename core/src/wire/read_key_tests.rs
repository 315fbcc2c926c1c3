use serde_json::json;

use super::*;
use crate::wire::malformed::Malformed;

fn keys(json: &serde_json::Value) -> (Elements<ApiKey>, Vec<Malformed>) {
    let text = json.to_string();
    let mut reports = Reports::default();
    let elements = read_keys(&json::list(&text).unwrap(), At::Root("keys"), &mut reports);
    (elements, reports.finish())
}

fn key_with(field: &str, value: serde_json::Value) -> (Option<ApiKey>, Vec<Malformed>) {
    let mut key = json!({"key_id": "k", "token_hash": "ab".repeat(32)});
    key[field] = value;
    let (mut elements, reports) = keys(&json!([key]));
    (elements.good.pop(), reports)
}

#[test]
fn expiry_is_rfc_3339_with_any_offset() {
    for (text, millis) in [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-12-31T23:59:59Z", 1_798_761_599_000),
        ("2026-12-31t23:59:59z", 1_798_761_599_000),
        ("2026-12-31 23:59:59Z", 1_798_761_599_000),
        ("2027-01-01T08:59:59+09:00", 1_798_761_599_000),
        ("2026-12-31T18:29:59-05:30", 1_798_761_599_000),
        ("2026-12-31T23:59:59.9Z", 1_798_761_599_900),
        ("2026-12-31T23:59:59.1239999999999999999999Z", 1_798_761_599_123),
        ("2026-12-31T23:59:60Z", 1_798_761_599_000),
        ("1969-12-31T23:59:59.5-00:00", -500),
        ("2024-02-29T00:00:00Z", 1_709_164_800_000),
        ("9999-12-31T23:59:59.999999+00:00", 253_402_300_799_999),
        ("9999-12-31T23:59:59-23:59", 253_402_387_139_000),
        ("0000-01-01T00:00:00Z", -62_167_219_200_000),
    ] {
        assert_eq!(rfc3339(text), Ok(UnixMillis(millis)), "{text}");
    }
}

#[test]
fn what_is_no_rfc_3339_costs_the_key() {
    for text in [
        "",
        "never",
        "2026-12-31",
        "2026-12-31T23:59:59",
        "2026-12-31T23:59Z",
        "2026-12-31T23:59:59+24:00",
        "2026-12-31T23:59:59+09",
        "2026-12-31T23:59:59+0900",
        "2026-12-31T23:59:59+09:60",
        "2026-12-31T23:59:59+09:00:30",
        "2026-12-31T23:59:59Z[Europe/Paris]",
        "2026-12-31T23:59:59.Z",
        "2026-12-31T23:59:61Z",
        "2026-12-31T24:00:00Z",
        "2026-12-31T23:60:00Z",
        "2026-13-01T00:00:00Z",
        "2025-02-29T00:00:00Z",
        "12026-12-31T23:59:59Z",
        "2026-12-31_23:59:59Z",
        " 2026-12-31T23:59:59Z",
        "2026-12-31T23:59:59é",
        "２０26-12-31T23:59:59Z",
    ] {
        assert!(rfc3339(text).is_err(), "{text}");
    }
    let (key, reports) = key_with("expires_at", json!(1_798_761_599));
    assert!(key.is_none());
    assert_eq!(reports[0].path, "keys[0].expires_at");
    assert_eq!(reports[0].problem, "a number where a string should be");
}

#[test]
fn rfc_3339_agrees_with_jiff_where_both_have_an_opinion() {
    for (day, offset) in (0..4000i64).zip([-86_340, -1800, 0, 60, 32_400].into_iter().cycle()) {
        let seconds = -62_000_000_000 + day * 78_123_457;
        let sign = if offset < 0 { '-' } else { '+' };
        let civil = jiff::Timestamp::new(seconds + offset, 0).unwrap().strftime("%Y-%m-%dT%H:%M:%S").to_string();
        let text = format!("{civil}{sign}{:02}:{:02}", offset.abs() / 3600, offset.abs() / 60 % 60);
        assert_eq!(rfc3339(&text), Ok(UnixMillis(seconds * 1000)), "{text}");
    }
}

#[test]
fn hashes_are_64_hex_digits_in_any_case_and_never_reported() {
    let hash = "0123456789abcdefABCDEF".repeat(3)[..64].to_owned();
    let (key, _) = key_with("token_hash", json!(hash));
    assert_eq!(key.unwrap().token_hash.0[..11], [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xab, 0xcd, 0xef]);
    for bad in [
        json!("ab".repeat(31)),
        json!("ab".repeat(33)),
        json!(format!("0x{}", "ab".repeat(31))),
        json!(format!("{}+f", "ab".repeat(31))),
        json!("é".repeat(32)),
        json!({"sha256": "ab".repeat(32)}),
        json!(null),
        json!(12),
    ] {
        let (key, reports) = key_with("token_hash", bad.clone());
        assert!(key.is_none(), "{bad}");
        assert_eq!((reports[0].path.as_str(), reports[0].id.as_deref()), ("keys[0].token_hash", Some("k")));
        assert!(!reports[0].problem.contains("abab") && !reports[0].problem.contains('é'), "{}", reports[0].problem);
    }
}

#[test]
fn rate_limits_fail_closed() {
    for (value, limit) in
        [(json!(null), None), (json!(0), Some(0)), (json!(600), Some(600)), (json!(1u64 << 40), Some(u32::MAX))]
    {
        let (key, reports) = key_with("rate_limit", value);
        assert_eq!((key.unwrap().rate_limit, reports.len()), (limit, 0));
    }
    for bad in [json!(-1), json!(1.5), json!("600"), json!(true), json!([]), json!(1e30)] {
        assert!(key_with("rate_limit", bad.clone()).0.is_none(), "{bad}");
    }
    let text = format!(r#"[{{"key_id":"k","token_hash":"{}","rate_limit":1e999}}]"#, "ab".repeat(32));
    let mut reports = Reports::default();
    let elements = read_keys(&json::list(&text).unwrap(), At::Root("keys"), &mut reports);
    assert_eq!(elements.good[0].rate_limit, Some(0));
    let report = reports.finish().remove(0);
    assert_eq!((report.kind, report.path.as_str()), (MalformedKind::Number, "keys[0].rate_limit"));
    assert_eq!(report.id.as_deref(), Some("k"));
}

#[test]
fn address_lists_come_in_two_forms_and_what_is_no_address_stays() {
    let strings = |list: &[&str]| Some(list.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>());
    for (value, entries) in [
        (json!(null), None),
        (json!([]), strings(&[])),
        (json!(""), strings(&[])),
        (json!("  "), strings(&[])),
        (json!([" "]), strings(&[])),
        (json!("10.0.0.0/8, 192.0.2.1,,"), strings(&["10.0.0.0/8", "192.0.2.1"])),
        (json!(["10.0.0.0/8", " ::1 "]), strings(&["10.0.0.0/8", "::1"])),
        (json!("office"), strings(&["office"])),
        (json!(" , "), strings(&[" , "])),
        (json!([42, null]), strings(&["42", "null"])),
    ] {
        assert_eq!(key_with("allowed_client_ips", value.clone()).0.unwrap().allowed_client_ips, entries, "{value}");
    }
    for bad in [json!(42), json!({}), json!(false)] {
        assert!(key_with("allowed_client_ips", bad).0.is_none());
    }
}

#[test]
fn allowed_models_that_cannot_be_read_do_not_become_all_models() {
    assert_eq!(key_with("allowed_models", json!(null)).0.unwrap().allowed_models, Vec::<std::sync::Arc<str>>::new());
    for bad in [json!("a"), json!(["a", 1]), json!(["a", ""]), json!({"a": 1}), json!([null])] {
        let (key, reports) = key_with("allowed_models", bad.clone());
        assert!(key.is_none(), "{bad}");
        assert_eq!(reports[0].path, "keys[0].allowed_models");
    }
    let (_, reports) = key_with("allowed_models", json!(["a", 1]));
    assert_eq!(reports[0].problem, "element 1 is a number where a string should be");
}

#[test]
fn one_bad_key_costs_only_itself_and_is_named() {
    let hash = "ab".repeat(32);
    let (elements, reports) = keys(&json!([
        {"key_id": "good", "token_hash": hash},
        {"key_id": "bad", "token_hash": "x"},
        {"token_hash": hash},
        {"key_id": 7, "token_hash": hash},
        "key",
    ]));
    assert_eq!(elements.good.len(), 1);
    assert_eq!(elements.skipped_ids, ["bad"]);
    assert!(elements.unreadable);
    let paths: Vec<_> = reports.iter().map(|report| (report.path.as_str(), report.id.as_deref())).collect();
    assert_eq!(
        paths,
        [("keys[1].token_hash", Some("bad")), ("keys[2].key_id", None), ("keys[3].key_id", None), ("keys[4]", None)]
    );
}
