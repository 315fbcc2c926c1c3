//! Shared by the tests of the configuration: lookups and shorthands.

mod accepted;
mod refused;
mod secrets;
mod table;
mod worker;

use super::{Config, Loaded, load};

/// Variables of the tests.
fn env(name: &str) -> Option<String> {
    match name {
        "SECRET" | "APPPROXY_API_SECRET" | "APPPROXY_JWT_SECRET" | "VLLM_KEY" | "CLIENT_KEY" => {
            Some("s3cr3t-marker-0123456789".to_owned())
        }
        "TEN" => Some("10s".to_owned()),
        "NESTED" => Some("${SECRET}".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    }
}

fn loaded(text: &str) -> Loaded {
    load(text, &env).unwrap_or_else(|problems| panic!("refused:\n{problems}\n{text}"))
}

fn config(text: &str) -> Config {
    loaded(text).config
}

/// The problems, one line each.
fn problems(text: &str) -> String {
    load(text, &env).expect_err("refused").to_string()
}

/// A ROUTER section with `more` lines in it, 8 lines long without.
fn router(more: &str) -> String {
    let base = "appproxy_router:\n  enabled: true\n  coordinator_url: http://127.0.0.1:10200\n  api_secret: s3cr3t-marker-0123456789\n  \
                redis_url: redis://:s3cr3t-marker-0123456789@valkey:6379/4\n  authority: a1\n  hostname: router.example.com\n";
    format!("{base}{more}\n")
}

/// A legacy section with `more` lines in it.
fn legacy(more: &str) -> String {
    let base = "appproxy:\n  enabled: true\n  coordinator_url: https://coordinator/\n  api_secret: s3cr3t-marker-0123456789\n  \
                jwt_secret: s3cr3t-marker-0123456789\n  events_enabled: false\n  authority: a1\n  hostname: h\n  wildcard_domain: \
                .Models.example.com\n";
    format!("{base}{more}\n")
}
