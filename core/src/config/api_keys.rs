//! `api_keys`: the operator's own keys (worker-protocol 9, Gate).

use std::collections::BTreeSet;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::forms;
use super::reader::{Reader, Section};
use crate::wire::ids::KeyId;
use crate::wire::key::{ApiKey, TokenHash};

/// What happens to a request without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyMode {
    /// 401.
    Blocking,
    /// It is admitted.
    Permissive,
}

/// `api_keys`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeys {
    /// In force: `Blocking` with a worker section whatever the file says, `Permissive` in a plain router without
    /// the section.
    pub mode: KeyMode,
    /// The keys, ids unique, in the order of the file. Plain keys are hashed here and forgotten.
    pub keys: Vec<OperatorKey>,
}

/// One entry of `api_keys.keys`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorKey {
    /// Id, hash and bounds.
    pub key: ApiKey,
    /// Whether it may be used at all.
    pub enabled: bool,
}

pub(super) const MODES: &[(&str, KeyMode)] = &[("blocking", KeyMode::Blocking), ("permissive", KeyMode::Permissive)];

/// Reads `api_keys`. `worker` is whether a worker section is enabled, which pins the mode.
pub(super) fn read(reader: &mut Reader<'_>, root: &Section<'_>, worker: bool) -> ApiKeys {
    let section = reader.section(root, "api_keys");
    let given = reader.choice(&section, "mode", MODES);
    if worker && given == Some(KeyMode::Permissive) {
        let text = "has no effect: with a worker section every request needs its credential";
        reader.warn(section.place("mode"), section.key("mode"), text);
    }
    let absent = if section.given { KeyMode::Blocking } else { KeyMode::Permissive };
    let mode = if worker { KeyMode::Blocking } else { given.unwrap_or(absent) };
    // `api_keys` is how Continuum Router spells the list.
    let mut items = reader.items(&section, "keys");
    items.extend(reader.items(&section, "api_keys"));
    let mut ids = BTreeSet::new();
    let keys: Vec<_> = items.iter().filter_map(|item| read_key(reader, item, &mut ids)).collect();
    if !worker && mode == KeyMode::Blocking && !keys.iter().any(|key| key.enabled) {
        let text = "every request needs a key, and there is none that may be used: all will be refused";
        reader.warn(section.place("mode"), section.key("mode"), text);
    }
    reader.finish(&section);
    ApiKeys { mode, keys }
}

fn read_key(reader: &mut Reader<'_>, item: &Section<'_>, ids: &mut BTreeSet<String>) -> Option<OperatorKey> {
    let id = reader.value(item, "id", forms::text);
    let id = reader.required(item, "id", id, "give each key an id of its own, such as \"ci\"");
    if let Some(id) = &id
        && !ids.insert(id.clone())
    {
        reader.problem(item.place("id"), item.key("id"), "another key has this id", "give each key an id of its own");
    }
    let token_hash = read_hash(reader, item);
    let names = reader.list(item, "allowed_models").unwrap_or_default();
    let allowed_models =
        names.iter().filter_map(|scalar| reader.formed(scalar, forms::text)).map(Arc::from).collect::<Vec<Arc<str>>>();
    let rate_limit = reader.value(item, "rate_limit", forms::number);
    let allowed_client_ips = reader
        .list(item, "allowed_client_ips")
        .map(|ips| ips.iter().filter_map(|scalar| reader.formed(scalar, forms::ip_entry)).collect());
    let expires_at = reader.value(item, "expires_at", forms::expiry);
    let enabled = reader.value(item, "enabled", forms::boolean).unwrap_or(true);
    reader.finish(item);
    let key_id = KeyId::from(id?.as_str());
    let key = ApiKey { key_id, token_hash: token_hash?, allowed_models, expires_at, rate_limit, allowed_client_ips };
    Some(OperatorKey { key, enabled })
}

fn read_hash(reader: &mut Reader<'_>, item: &Section<'_>) -> Option<TokenHash> {
    let key = reader.secret(item, "key");
    let hash = reader.secret(item, "key_hash");
    match (item.has("key"), item.has("key_hash")) {
        (true, true) => {
            reader.problem(item.place("key_hash"), item.key("key_hash"), "given beside key", "keep one of them");
            None
        }
        (false, false) => {
            reader.problem(item.at, item.key("key"), "missing", "give `key`, or `key_hash` with its SHA-256");
            None
        }
        (true, false) => key.map(|key| TokenHash(Sha256::digest(key.expose().as_bytes()).into())),
        (false, true) => {
            let hash = hash?;
            let parsed = token_hash(hash.expose());
            if parsed.is_none() {
                let right = "write the SHA-256 of the key as 64 hex digits";
                reader.problem(item.place("key_hash"), item.key("key_hash"), "not a hash", right);
            }
            parsed
        }
    }
}

fn token_hash(hex: &str) -> Option<TokenHash> {
    let mut bytes = [0; 32];
    if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(TokenHash(bytes))
}
