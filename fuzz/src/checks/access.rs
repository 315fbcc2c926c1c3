//! What opens a circuit: an access token, a host name.

use std::sync::LazyLock;
use std::time::Duration;

use appproxy_core::access::host::{Hosts, Place};
use appproxy_core::access::token::{TokenRefusal, TokenVerifier, shown};
use appproxy_core::limits::TOKEN_BYTES;
use appproxy_core::secret::Secret;
use appproxy_core::time::UnixMillis;
use appproxy_core::wire::ids::CircuitId;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderMap, HeaderValue, header};
use sha2::Sha256;

use super::world::circuit_id;

const SECRET: &str = "a-secret-of-the-fuzz-targets";
const LEEWAY: i64 = 30;
const NOW: i64 = 1_800_000_000;

static OURS: LazyLock<TokenVerifier> =
    LazyLock::new(|| TokenVerifier::new(&Secret::new(SECRET), Duration::from_secs(LEEWAY.unsigned_abs())));
static THEIRS: LazyLock<TokenVerifier> =
    LazyLock::new(|| TokenVerifier::new(&Secret::new("another"), Duration::from_secs(LEEWAY.unsigned_abs())));

/// The bytes as a token, and as an `Authorization` line; and a first line as a header and the rest as claims, signed.
pub fn access_token(bytes: &[u8]) {
    let wall = UnixMillis(NOW * 1000);
    // Nobody can sign for us.
    assert_eq!(OURS.read(bytes, wall), Err(TokenRefusal::Invalid));
    if let Ok(value) = HeaderValue::from_bytes(bytes) {
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value)]);
        if let Some(token) = shown(&headers) {
            let scheme = bytes.trim_ascii().split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
            assert!([&b"bearer"[..], b"backendai"].contains(&&*scheme.to_ascii_lowercase()));
            assert!(!token.is_empty() && bytes.trim_ascii_end().ends_with(token));
        }
    }
    let (first, claims) = bytes.iter().position(|byte| *byte == b'\n').map_or((&[][..], bytes), |at| {
        let (first, rest) = bytes.split_at(at);
        (first, &rest[1..])
    });
    signed(if first.is_empty() { br#"{"alg":"HS256","typ":"JWT"}"# } else { first }, claims, wall);
}

/// Whether a token that says this is good.
pub fn good(claims: &[u8]) -> bool {
    OURS.read(&token(br#"{"alg":"HS256"}"#, claims), UnixMillis(NOW * 1000)).is_ok()
}

fn token(header: &[u8], claims: &[u8]) -> Vec<u8> {
    let mut token = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let mut keyed = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("a key of any length");
    keyed.update(token.as_bytes());
    token.push('.');
    token.push_str(&URL_SAFE_NO_PAD.encode(keyed.finalize().into_bytes()));
    token.into_bytes()
}

fn signed(header: &[u8], claims: &[u8], wall: UnixMillis) {
    let token = token(header, claims);
    assert_eq!(THEIRS.read(&token, wall), Err(TokenRefusal::Invalid), "signed with another secret");
    let ours: CircuitId = circuit_id(1).parse().expect("an id");
    let read = match OURS.read(&token, wall) {
        Ok(read) => read,
        Err(refusal) => {
            assert!(matches!(refusal, TokenRefusal::Invalid | TokenRefusal::Expired));
            assert_eq!(OURS.judge(Some(&token), ours, wall), Err(refusal));
            return;
        }
    };
    // What is let through means the same to a reader that builds the documents.
    assert!(token.len() <= TOKEN_BYTES);
    match serde_json::from_slice::<serde_json::Value>(header) {
        Ok(header) => assert!(header["alg"] == "HS256" && header["crit"].is_null(), "{header}"),
        Err(error) => beyond_reading(&error),
    }
    match serde_json::from_slice::<serde_json::Value>(claims) {
        Ok(said) => {
            let ends = said["exp"].as_f64().expect("an end");
            assert!(ends + 0.5 >= (NOW - LEEWAY) as f64, "let through after its end: {said}");
            let begins = said.get("nbf").map(|begins| begins.as_f64().expect("a time"));
            assert!(begins.is_none_or(|at| at - 0.5 <= (NOW + LEEWAY) as f64), "let through too early: {said}");
            assert!(said["aud"].is_null(), "let through for another audience: {said}");
            let named = said["id"].as_str().and_then(|id| id.parse::<CircuitId>().ok());
            for circuit in
                [Some(ours), "c0000000-0000-4000-8000-000000000099".parse().ok(), named].into_iter().flatten()
            {
                assert_eq!(read.opens(circuit), named == Some(circuit), "{circuit}: {said}");
            }
        }
        Err(error) => beyond_reading(&error),
    }
    assert_eq!(OURS.judge(Some(&token), ours, wall).is_ok(), read.opens(ours));
    // It is good as it is, and in no other way.
    let ends = token.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(at, _)| at).chain([token.len()]);
    for at in ends {
        let mut other = token.clone();
        other[at - 1] = if other[at - 1] == b'A' { b'B' } else { b'A' };
        assert_eq!(OURS.read(&other, wall), Err(TokenRefusal::Invalid));
        assert_eq!(OURS.read(&token[..at - 1], wall), Err(TokenRefusal::Invalid));
    }
    assert_eq!(OURS.read(&[&token[..], b"."].concat(), wall), Err(TokenRefusal::Invalid));
}

/// JSON has no bounds for numbers, and escapes for half characters; a reader that makes values of them cannot have those.
fn beyond_reading(error: &serde_json::Error) {
    let text = error.to_string();
    assert!(["number out of range", "surrogate", "hex escape"].iter().any(|known| text.contains(known)), "{text}");
}

static HOSTS: LazyLock<Hosts> =
    LazyLock::new(|| Hosts::new(".apps.example.com", ["all.example.com", "192.0.2.9"], "router.example.com"));

/// The bytes as the text of a Host line.
pub fn host_name(bytes: &[u8]) {
    let place = HOSTS.place(bytes);
    assert_eq!(place, reference(bytes), "{:?}", String::from_utf8_lossy(bytes));
    for spelling in [bytes.to_ascii_uppercase(), bytes.to_ascii_lowercase()] {
        assert_eq!(HOSTS.place(&spelling), place, "letters have no case");
    }
    if let Place::Label(label) = &place {
        assert!(!label.is_empty() && !label.contains(['.', ':', '@', '%', '/', '[']), "{label}");
        assert!(!label.bytes().any(|byte| byte.is_ascii_uppercase()));
        let name = bytes.split(|byte| *byte == b':').next().unwrap_or_default();
        let plain = name.strip_suffix(b".").unwrap_or(name);
        for spelling in [plain.to_vec(), [plain, b"."].concat(), [plain, b":8443"].concat(), [plain, b".:1"].concat()] {
            assert_eq!(HOSTS.place(&spelling), place, "one name, however it is spelled");
        }
        for other in [[plain, b".evil.test"].concat(), [b"x.", plain].concat(), [b"x@", plain].concat()] {
            assert_eq!(HOSTS.place(&other), Place::Elsewhere, "another name is none of it");
        }
    }
}

/// The same by other means: whole labels, compared from the end.
fn reference(bytes: &[u8]) -> Place<'static> {
    let Some(text) = String::from_utf8(bytes.to_vec()).ok().map(|text| text.to_ascii_lowercase()) else {
        return Place::Elsewhere;
    };
    let port_is_good =
        |port: &str| port.is_empty() || (port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok());
    let (name, port) = match (text.starts_with('['), text.rfind(']')) {
        (true, Some(end)) => (&text[..=end], text[end + 1..].strip_prefix(':').map_or(&text[end + 1..], |port| port)),
        (true, None) => return Place::Elsewhere,
        (false, _) => text.split_once(':').unwrap_or((&text, "")),
    };
    let bare_rest = text.len() - name.len() - port.len();
    if !port_is_good(port) || bare_rest > 1 || (bare_rest == 0 && !port.is_empty()) {
        return Place::Elsewhere;
    }
    let inner = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address = match inner {
        Some(inner) => match inner.parse::<std::net::Ipv6Addr>() {
            Ok(address) => Some(std::net::IpAddr::V6(address).to_canonical()),
            Err(_) => return Place::Elsewhere,
        },
        None => name.strip_suffix('.').unwrap_or(name).parse::<std::net::Ipv4Addr>().ok().map(std::net::IpAddr::V4),
    };
    if let Some(address) = address {
        return if address == std::net::IpAddr::from([192, 0, 2, 9]) { Place::Aggregation } else { Place::Node };
    }
    let mut labels: Vec<&str> = name.split('.').collect();
    if labels.last() == Some(&"") {
        labels.pop();
    }
    let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if labels.iter().any(|label| !label.bytes().all(known)) || labels.join(".").is_empty() {
        return Place::Elsewhere;
    }
    match labels.as_slice() {
        ["apps", "example", "com"] | ["all", "example", "com"] => Place::Aggregation,
        ["router", "example", "com"] | ["localhost"] => Place::Node,
        [label, "apps", "example", "com"] if !label.is_empty() => Place::Label((*label).to_owned().into()),
        _ => Place::Elsewhere,
    }
}
