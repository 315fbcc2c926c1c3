//! A JSON Schema of the file for editors, made of [`super::KEYS`].

use serde_json::{Map, Value, json};

use super::foreign;
use super::keys::{ALIASES, KEYS, KeyDoc, Kind};
use crate::defects::told;

/// What stands for a value anywhere: a text with a variable of the environment in it.
const VARIABLE: &str = r"\$\{[A-Za-z_][A-Za-z0-9_]*\}";
const DURATION: &str = r"^(0|([0-9]+(ms|s|m|h|d))+)$";
const SIZE: &str = r"^[0-9]+ ?(B|KiB|K|k|MiB|M|GiB|G|KB|kB|MB|GB)?$";

/// The schema (draft 2020-12) as JSON on many lines: keys, kinds, words, defaults, meanings. It refuses what `check` refuses
/// for its shape, and marks keys of other routers as deprecated; what only the whole file tells (two sections at once, a
/// network that is none) is left to `check`.
#[must_use]
pub fn schema() -> String {
    let mut root = section();
    for doc in KEYS.iter().filter(told) {
        insert(&mut root, doc.key, leaf(doc), doc.default == "required");
    }
    for (alias, key) in ALIASES {
        let listed = root.pointer(&pointer(key)).cloned();
        if let Some(listed) = listed {
            insert(&mut root, alias, listed, false);
        }
    }
    for (key, reason) in foreign::all() {
        insert(
            &mut root,
            key,
            json!({ "deprecated": true, "description": format!("Not a feature of this worker: {reason}.") }),
            false,
        );
    }
    for name in ["appproxy", "appproxy_router"] {
        if let Some(worker) = root.pointer_mut(&pointer(name)) {
            only_when_enabled(worker);
        }
    }
    if let Some(fields) = root.as_object_mut() {
        fields.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
        fields.insert("title".to_owned(), "AppProxy inference worker".into());
    }
    format!("{root:#}\n")
}

fn section() -> Value {
    json!({ "type": ["object", "null"], "additionalProperties": false, "properties": {} })
}

fn pointer(key: &str) -> String {
    key.split('.').map(|name| format!("/properties/{name}")).collect()
}

/// Puts `what` at the key, making sections and lists of sections on the way.
fn insert(root: &mut Value, key: &str, what: Value, required: bool) {
    let mut at = root;
    let mut names = key.split('.').peekable();
    while let Some(name) = names.next() {
        let (name, listed) = name.strip_suffix("[]").map_or((name, false), |name| (name, true));
        if names.peek().is_none() {
            if required {
                list_of(at, "required").push(name.into());
            }
            properties(at).insert(name.to_owned(), what);
            return;
        }
        let fresh = || if listed { json!({ "type": ["array", "null"], "items": section() }) } else { section() };
        let inner = properties(at).entry(name).or_insert_with(fresh);
        at = if listed { &mut inner["items"] } else { inner };
    }
}

fn properties(section: &mut Value) -> &mut Map<String, Value> {
    let entry = &mut section["properties"];
    if !entry.is_object() {
        *entry = json!({});
    }
    match entry {
        Value::Object(fields) => fields,
        _ => unreachable!("made an object just now"),
    }
}

fn list_of<'v>(section: &'v mut Value, name: &str) -> &'v mut Vec<Value> {
    let entry = &mut section[name];
    if !entry.is_array() {
        *entry = json!([]);
    }
    match entry {
        Value::Array(items) => items,
        _ => unreachable!("made an array just now"),
    }
}

/// A worker section that is switched off may lack everything else.
fn only_when_enabled(worker: &mut Value) {
    let required = worker["required"].take();
    worker["required"] = json!(["enabled"]);
    worker["if"] = json!({ "properties": { "enabled": { "const": true } } });
    worker["then"] = json!({ "required": required });
}

fn leaf(doc: &KeyDoc) -> Value {
    let mut value = match doc.kind {
        // A number or a boolean is read as the text that stands there.
        Kind::Text | Kind::Secret => json!({ "type": ["string", "number", "boolean", "null"] }),
        Kind::Boolean => either(json!({ "type": "boolean" }), r"^(true|false)$"),
        Kind::Number => either(json!({ "type": "integer", "minimum": 0 }), r"^[0-9]+$"),
        Kind::Duration => either(json!({ "const": 0 }), DURATION),
        Kind::Size => either(json!({ "type": "integer", "minimum": 1 }), SIZE),
        Kind::Choice(words) => json!({ "anyOf": [{ "enum": words }, variable(), { "type": "null" }] }),
        Kind::List => {
            let item = json!({ "type": ["string", "number"] });
            json!({ "anyOf": [item, { "type": "array", "items": item }, { "type": "null" }] })
        }
        Kind::Table => json!({ "type": ["object", "null"] }),
    };
    if let Some(fields) = value.as_object_mut() {
        let default = if doc.default == "-" { String::new() } else { format!(" Default: {}.", doc.default) };
        fields.insert("description".to_owned(), format!("{}.{default}", doc.meaning).into());
    }
    value
}

fn variable() -> Value {
    json!({ "type": "string", "pattern": VARIABLE })
}

fn either(written: Value, pattern: &str) -> Value {
    json!({ "anyOf": [written, { "type": "string", "pattern": pattern }, variable(), { "type": "null" }] })
}
