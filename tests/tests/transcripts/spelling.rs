//! The short spellings of circuits, routes, publications, keys, and snapshots (`tests/scenarios/README.md`).

use appproxy_fixtures::wire;
use core::time::Duration;
use serde_json::{Value, json};

use crate::names::identity;

/// `500ms`, `1.5s`, `10m`, `1h`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` should be a time like 500ms, 1.5s, 10m or 1h");
    let digits = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let millis = match unit {
        "ms" => 1.0,
        "s" => 1000.0,
        "m" => 60_000.0,
        "h" => 3_600_000.0,
        _ => return Err(wrong()),
    };
    Ok(Duration::from_millis((number * millis).round() as u64))
}

/// `[c1 c2:e1(r1 r2*0.5)]`.
pub(crate) fn circuits(text: &str) -> Result<Value, String> {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let inner = inner.ok_or_else(|| format!("`{text}` should be a list like [c1 c2]"))?;
    words(inner).into_iter().map(circuit).collect()
}

/// `c1`, `c1:e2`, `c1(r1 r2*0.5)`, each with `!interactive`, `!malformed` or `!nameless`.
pub(crate) fn circuit(text: &str) -> Result<Value, String> {
    let (plain, flag) = flagged(text);
    let (head, routes) = match plain.split_once('(') {
        Some((head, rest)) => {
            let inner = rest.strip_suffix(')').ok_or_else(|| format!("`{text}` lacks its `)`"))?;
            (head, words(inner).into_iter().map(str::to_owned).collect())
        }
        None => {
            let name = plain.split(':').next().unwrap_or_default();
            (plain, vec![name.replacen('c', "r", 1)])
        }
    };
    let (name, endpoint) = match head.split_once(':') {
        Some((name, endpoint)) => (name, endpoint.to_owned()),
        None => (head, head.replacen('c', "e", 1)),
    };
    let id = identity('c', name)?;
    let mut circuit = wire::circuit(id, identity('w', "w1")?, identity('e', &endpoint)?).value();
    circuit["route_info"] = routes.iter().map(|route| self::route(route)).collect::<Result<_, _>>()?;
    match flag {
        None => {}
        Some("interactive") => circuit["app_mode"] = json!("interactive"),
        Some("malformed") => circuit["open_to_public"] = json!("yes"),
        Some("nameless") => circuit["id"] = json!("not an id"),
        Some(other) => return Err(format!("`{text}`: there is no `!{other}` for a circuit")),
    }
    Ok(circuit)
}

/// `r1`, `r1*0.5`, each with `!malformed`.
fn route(text: &str) -> Result<Value, String> {
    let (plain, flag) = flagged(text);
    let (name, ratio) = plain.split_once('*').unwrap_or((plain, "1"));
    let id = identity('r', name)?;
    let number: u16 = name.get(1..).and_then(|digits| digits.parse().ok()).unwrap_or_default();
    let ratio = ratio.parse().map_err(|_| format!("`{text}`: `{ratio}` is no ratio"))?;
    let route = wire::route(id, "10.0.0.1", 30_000 + number).with_ratio(ratio);
    let mut route = serde_json::to_value(route).map_err(|error| error.to_string())?;
    match flag {
        None => {}
        Some("malformed") => route["kernel_port"] = json!(0),
        Some(other) => return Err(format!("`{text}`: there is no `!{other}` for a route")),
    }
    Ok(route)
}

/// `m -> e1:0.7 e2`, `m/alias -> e1`, `m ->` (no endpoint), with `!malformed` or `!nameless` after the names.
pub(crate) fn publication(text: &str) -> Result<Value, String> {
    let (names, mappings) = text.split_once("->").ok_or_else(|| format!("`{text}` should be like `m -> e1:0.7 e2`"))?;
    let (names, flag) = flagged(names.trim());
    let mut names = names.split('/');
    let model = names.next().unwrap_or_default();
    let aliases: Vec<&str> = names.collect();
    let mut pairs = Vec::new();
    for mapping in mappings.split_whitespace() {
        let (endpoint, ratio) = mapping.split_once(':').unwrap_or((mapping, "1"));
        let ratio = ratio.parse().map_err(|_| format!("`{mapping}`: `{ratio}` is no ratio"))?;
        pairs.push((identity('e', endpoint)?, ratio));
    }
    let mut publication = wire::publication(model, &pairs).with_aliases(&aliases).value();
    match flag {
        None => {}
        Some("malformed") => publication["mappings"] = json!("none"),
        Some("nameless") => publication["model"] = json!(null),
        Some(other) => return Err(format!("`{text}`: there is no `!{other}` for a publication")),
    }
    Ok(publication)
}

/// `k`, `k=2` (the same key with another secret), with `!malformed` or `!nameless`.
fn key(text: &str) -> Result<Value, String> {
    let (plain, flag) = flagged(text);
    let id = plain.split('=').next().unwrap_or_default();
    let mut key = serde_json::to_value(wire::api_key(id, plain)).map_err(|error| error.to_string())?;
    match flag {
        None => {}
        Some("malformed") => key["token_hash"] = json!("not a hash"),
        Some("nameless") => key["key_id"] = json!(null),
        Some(other) => return Err(format!("`{text}`: there is no `!{other}` for a key")),
    }
    Ok(key)
}

/// `rev 2 models {m -> e1; n -> e2} keys {k l}`.
pub(crate) fn snapshot(text: &str) -> Result<Value, String> {
    let wrong = || format!("`{text}` should be like `rev 2 models {{m -> e1; n -> e2}} keys {{k l}}`");
    let rest = text.strip_prefix("rev ").ok_or_else(wrong)?;
    let (revision, rest) = rest.split_once(" models {").ok_or_else(wrong)?;
    let (models, rest) = rest.split_once("} keys {").ok_or_else(wrong)?;
    let keys = rest.strip_suffix('}').ok_or_else(wrong)?;
    let models: Vec<Value> =
        models.split(';').map(str::trim).filter(|one| !one.is_empty()).map(publication).collect::<Result<_, _>>()?;
    let keys: Vec<Value> = keys.split_whitespace().map(key).collect::<Result<_, _>>()?;
    Ok(json!({"revision": revision, "models": models, "api_keys": keys}))
}

fn flagged(text: &str) -> (&str, Option<&str>) {
    // The flag of the whole stands after the last bracket: those inside belong to routes.
    let inside = text.rfind(')').unwrap_or_default();
    match text.get(inside..).and_then(|tail| tail.find('!')) {
        Some(at) => (text.get(..inside + at).unwrap_or_default(), text.get(inside + at + 1..)),
        None => (text, None),
    }
}

/// Words of `text`, brackets kept whole.
fn words(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let split = text.split(move |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0 && c == ' '
    });
    split.filter(|word| !word.is_empty()).collect()
}
