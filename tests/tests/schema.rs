//! The JSON Schema that `check --schema` prints, asked as an editor asks it: the examples pass, and what `check` refuses for
//! its shape does not.

use appproxy_core::config;
use appproxy_tests::repository;
use serde_json::{Value, json};

/// What a schema says of a value: where it does not fit, and why. It knows the words that ours uses, and no other.
fn faults(schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let mut fault = |what: String| found.push(format!("{at}: {what}"));
    for (word, told) in schema.as_object().expect("a schema is an object") {
        let fits = match word.as_str() {
            "$schema" | "title" | "description" | "deprecated" | "properties" | "items" | "then" => true,
            "type" => match told {
                Value::Array(kinds) => kinds.iter().any(|kind| is(value, kind)),
                kind => is(value, kind),
            },
            "const" => value == told,
            "enum" => told.as_array().expect("words").contains(value),
            "minimum" => value.as_f64().is_none_or(|number| number >= told.as_f64().expect("a number")),
            "pattern" => value.as_str().is_none_or(|text| matches(told.as_str().expect("a pattern"), text)),
            "anyOf" => told.as_array().expect("schemas").iter().any(|schema| passes(schema, value)),
            "required" => {
                let names = told.as_array().expect("names").iter().filter_map(Value::as_str);
                value.as_object().is_none_or(|fields| names.into_iter().all(|name| fields.contains_key(name)))
            }
            "if" => !passes(told, value) || passes(&schema["then"], value),
            "additionalProperties" => {
                assert_eq!(told, false, "{at}: another use of additionalProperties");
                let known = |name: &String| schema["properties"].get(name).is_some();
                value.as_object().is_none_or(|fields| fields.keys().all(known))
            }
            other => panic!("the schema says {other}, of which this reader knows nothing"),
        };
        if !fits {
            fault(format!("{word} {told} does not fit {value}"));
        }
    }
    for (name, inner) in value.as_object().into_iter().flatten() {
        if let Some(schema) = schema["properties"].get(name) {
            faults(schema, inner, &format!("{at}.{name}"), found);
        }
    }
    if let (Some(schema), Some(items)) = (schema.get("items"), value.as_array()) {
        items.iter().for_each(|item| faults(schema, item, &format!("{at}[]"), found));
    }
}

fn passes(schema: &Value, value: &Value) -> bool {
    let mut found = Vec::new();
    faults(schema, value, "", &mut found);
    found.is_empty()
}

fn is(value: &Value, kind: &Value) -> bool {
    match kind.as_str().expect("a kind") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("the kind {other}"),
    }
}

/// What the patterns of the schema mean, said once more by hand.
fn matches(pattern: &str, text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match pattern {
        "^(true|false)$" => ["true", "false"].contains(&text),
        "^[0-9]+$" => digits(text),
        r"\$\{[A-Za-z_][A-Za-z0-9_]*\}" => text.split("${").skip(1).any(|rest| {
            let name = rest.split_once('}').map_or("", |(name, _)| name);
            name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        }),
        "^(0|([0-9]+(ms|s|m|h|d))+)$" => {
            let mut rest = text;
            while let Some(unit) = rest.find(|letter: char| !letter.is_ascii_digit()).filter(|unit| *unit > 0) {
                let tail = &rest[unit..];
                match ["ms", "s", "m", "h", "d"].iter().find_map(|unit| tail.strip_prefix(unit)) {
                    Some(tail) => rest = tail,
                    None => return false,
                }
            }
            text == "0" || (rest.is_empty() && !text.is_empty())
        }
        "^[0-9]+ ?(B|KiB|K|k|MiB|M|GiB|G|KB|kB|MB|GB)?$" => {
            let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
            let unit = unit.strip_prefix(' ').unwrap_or(unit);
            digits(number) && ["", "B", "KiB", "K", "k", "MiB", "M", "GiB", "G", "KB", "kB", "MB", "GB"].contains(&unit)
        }
        other => panic!("the pattern {other}"),
    }
}

fn schema() -> Value {
    serde_json::from_str(&config::schema()).expect("JSON")
}

fn example(name: &str) -> Value {
    let path = repository::root().join(format!("config.example.{name}.yaml"));
    let text = std::fs::read_to_string(path).expect("an example");
    serde_saphyr::from_str(&text).expect("YAML")
}

const EXAMPLES: [&str; 3] = ["router", "legacy", "plain"];

#[test]
fn the_examples_pass_the_schema() {
    let schema = schema();
    for name in EXAMPLES {
        let mut found = Vec::new();
        faults(&schema, &example(name), name, &mut found);
        assert!(found.is_empty(), "{found:#?}");
    }
}

/// Every value of an example, and the way to it.
fn leaves(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, inner)| leaves(inner, &format!("{at}/{name}"), found)),
        Value::Array(items) if items.iter().any(Value::is_object) => {
            items.iter().enumerate().for_each(|(index, inner)| leaves(inner, &format!("{at}/{index}"), found));
        }
        _ => found.push(at.to_owned()),
    }
}

#[test]
fn what_has_the_wrong_shape_passes_neither_the_schema_nor_check() {
    let schema = schema();
    let refused = |file: &Value| {
        let variables = |_: &str| Some("x".repeat(40));
        assert!(config::load(&file.to_string(), &variables).is_err(), "check takes {file:#}");
        assert!(!passes(&schema, file), "the schema takes {file:#}");
    };
    let mut tried = 0;
    for name in EXAMPLES {
        let file = example(name);
        let mut places = Vec::new();
        leaves(&file, "", &mut places);
        for place in places.iter().filter(|place| !place.contains("fallback_chains")) {
            let mut wrong = file.clone();
            *wrong.pointer_mut(place).expect("a place") = json!({ "no": { "such": "thing" } });
            refused(&wrong);
            tried += 1;
        }
        for section in file.as_object().expect("sections").keys() {
            let mut wrong = file.clone();
            match &mut wrong[section] {
                Value::Object(fields) => drop(fields.insert("no_such_key".to_owned(), 1.into())),
                Value::Array(items) => items[0]["no_such_key"] = 1.into(),
                other => panic!("{section}: {other}"),
            }
            refused(&wrong);
        }
    }
    assert!(tried > 30, "only {tried} places");
    let mut without = example("router");
    without["appproxy_router"].as_object_mut().expect("a section").remove("authority");
    refused(&without);
    for (section, key, bad) in [
        ("server", "idle_timeout", json!("75 parsecs")),
        ("server", "max_body_size", json!("100 MiBs")),
        ("server", "max_connections", json!(-1)),
        ("routing", "weights", json!("heavy")),
        ("health_checks", "enabled", json!("perhaps")),
    ] {
        let mut wrong = example("plain");
        wrong[section][key] = bad;
        refused(&wrong);
    }
}
