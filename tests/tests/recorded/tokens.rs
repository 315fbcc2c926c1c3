//! Tokens that the coordinators minted, and what the stock worker made of those shown to it.

use std::time::Duration;

use appproxy_core::access::host::{Hosts, Place};
use appproxy_core::access::token::{TokenRefusal, TokenVerifier, shown};
use appproxy_core::secret::Secret;
use appproxy_core::time::UnixMillis;
use appproxy_core::wire::ids::CircuitId;
use http::header::{AUTHORIZATION, HeaderMap};
use serde_json::Value;

use super::{RELEASES, Release, text};

/// The day it was recorded on.
const THEN: UnixMillis = UnixMillis(1_796_000_000_000);

fn verifier(tokens: &Value) -> TokenVerifier {
    TokenVerifier::new(&Secret::new(text(tokens, "jwt_secret")), Duration::from_secs(60))
}

#[test]
fn minted_tokens_open_their_circuit() {
    for release in RELEASES {
        let tokens = release.json("tokens.json");
        let circuit: CircuitId = text(&tokens["circuit"], "id").parse().expect("a UUID");
        let other = CircuitId(uuid::Uuid::nil());
        let mut minted = 0;
        for row in tokens["mints"].as_array().expect("a list") {
            let Some(token) = row["token"].as_str().map(str::as_bytes) else { continue };
            let at = format!("{} {}", release.version, row["name"]);
            let exp = row["claims"]["exp"].as_i64().expect("exp");
            let judge = |circuit, wall| verifier(&tokens).judge(Some(token), circuit, UnixMillis(wall * 1000));
            assert_eq!(judge(circuit, exp), Ok(()), "{at}");
            assert_eq!(judge(circuit, exp + 60), Ok(()), "{at}");
            assert_eq!(judge(circuit, exp + 61), Err(TokenRefusal::Expired), "{at}");
            assert_eq!(judge(other, exp), Err(TokenRefusal::Mismatch), "{at}");
            let wrong = TokenVerifier::new(&Secret::new("dummy-api-secret-for-tests"), Duration::ZERO);
            assert_eq!(wrong.judge(Some(token), circuit, THEN), Err(TokenRefusal::Invalid), "{at}");
            minted += 1;
        }
        assert_eq!(minted, 6, "{}", release.version);
    }
}

/// Where our answer to a credential differs from the stock worker's, on purpose (worker-protocol 4.4, 9).
const DIFFERENT: [(&str, Result<(), TokenRefusal>); 5] = [
    ("'bearer TOKEN' in lower case", Ok(())),
    ("token without exp, only id", Err(TokenRefusal::Invalid)),
    ("token with iat in the future", Err(TokenRefusal::Invalid)), // it has no `exp` either
    ("token with id without dashes", Err(TokenRefusal::Invalid)), // likewise
    ("OPTIONS without token", Err(TokenRefusal::Missing)),
];

#[test]
fn what_the_stock_worker_took_we_take() {
    for release in RELEASES {
        let rows = stock_rows(&release);
        let tokens = release.json("tokens.json");
        let valid = rows.iter().find(|row| row["name"] == "valid token").expect("a valid token");
        let payload = text(valid, "authorization").split('.').nth(1).expect("claims");
        let claims = appproxy_fixtures::wire::token::read_part(payload).expect("claims");
        let circuit: CircuitId = text(&claims, "id").parse().expect("a UUID");
        let mut judged = 0;
        for row in &rows {
            let name = text(row, "name");
            // Credentials of this one circuit; the rest is about hosts, addresses and replicas.
            let private = row["host"].as_str().is_some_and(|host| host.starts_with("stock-model.stock."));
            let status = row["status"].as_u64();
            if !private || !matches!(status, Some(200 | 401)) {
                continue;
            }
            let mut headers = HeaderMap::new();
            if let Some(value) = row["authorization"].as_str() {
                headers.insert(AUTHORIZATION, value.parse().expect("a header"));
            }
            let ours = verifier(&tokens).judge(shown(&headers), circuit, THEN);
            match DIFFERENT.iter().find(|(other, _)| *other == name) {
                Some((_, different)) => assert_eq!(ours, *different, "{} {name}", release.version),
                None => assert_eq!(ours.is_ok(), status == Some(200), "{} {name}: {ours:?}", release.version),
            }
            judged += 1;
        }
        assert!(judged >= 25, "{}: {judged}", release.version);
    }
}

fn stock_rows(release: &Release) -> Vec<Value> {
    release.json("tokens.json")["stock_worker"].as_array().expect("a list").clone()
}

#[test]
fn the_hosts_it_was_asked_at() {
    let hosts = Hosts::new(".stock.example.com", [], "127.0.0.1");
    for release in RELEASES {
        for row in stock_rows(&release) {
            let host = text(&row, "host");
            let label = match text(&row, "name") {
                // 400 there; a legal spelling of the name.
                "valid token, host in upper case" => Some("stock-model"),
                "another domain altogether" => None,
                // 200 there.
                "the bare subdomain as host" => None,
                _ => host.split('.').next(),
            };
            let wanted = label.map_or(Place::Elsewhere, |label| Place::Label(label.into()));
            assert_eq!(hosts.place(host.as_bytes()), wanted, "{} {host}", release.version);
        }
    }
}
