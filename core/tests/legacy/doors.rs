//! Host, address, token, in this order (worker-protocol 4.4, 1-3; traps I1-I4).

use appproxy_core::exchange::Page;
use appproxy_core::wire::circuit::Circuit;

use crate::states::circuit_id;
use crate::world::{JWT_SECRET, World, at, bearer, chat, open, replica, request, said, signed, token_until};

const BODY: &str = r#"{"model":"m"}"#;
const HOST: &str = "foo.models.example.com";

fn world() -> World {
    World::new(vec![at(1, "foo", 1), open(at(2, "pub", 1))]).list(1, &["m"]).list(2, &["n"])
}

#[test]
fn every_spelling_of_a_host_leads_to_its_circuit_and_no_other_does() {
    let mut world = world();
    for host in ["foo.models.example.com", "FOO.Models.Example.COM:8443", "foo.models.example.com."] {
        assert_eq!(world.verdict(chat(host, &[&bearer(1)]), BODY), replica(1, 0), "{host}");
    }
    for host in [
        "x.foo.models.example.com",
        "foo.models.example.com.evil.test",
        "bar.models.example.com",
        "[2001:db8::5]:8443",
        "router.example.com",
        "localhost",
        "other.example.com",
    ] {
        assert_eq!(world.verdict(chat(host, &[&bearer(1)]), BODY), "404 endpoint_not_found", "{host}");
    }
    let mut none = chat(HOST, &[&bearer(1)]);
    none.headers.remove("host");
    assert_eq!(world.verdict(none, BODY), "400 invalid_request");
    assert_eq!(world.verdict(chat(HOST, &["host: foo.models.example.com"]), BODY), "400 invalid_request");
}

#[test]
fn unknown_labels_have_no_fallback() {
    let mut world = world().chain("m", &["spare-model"]);
    assert_eq!(
        world.all_fail(chat("bar.models.example.com", &[]), BODY),
        (vec![], "404 endpoint_not_found".to_owned())
    );
}

#[test]
fn a_removed_circuit_is_gone() {
    let mut world = world();
    world.desired.remove_circuit(circuit_id(1));
    world.show();
    assert_eq!(world.verdict(chat(HOST, &[&bearer(1)]), BODY), "404 endpoint_not_found");
}

#[test]
fn addresses_come_before_tokens() {
    let listed = |ips: &str| Circuit { allowed_client_ips: Some(ips.to_owned()), ..at(1, "foo", 1) };
    for (ips, verdict) in [
        ("", "401 missing_token"),
        (" , ", "401 missing_token"),
        ("192.0.2.0/24", "401 missing_token"),
        ("10.0.0.0/8", "403 ip_not_allowed"),
        ("10.0.0.0/33, office", "403 ip_not_allowed"),
        ("192.0.2.1, bad", "401 missing_token"),
    ] {
        let mut world = World::new(vec![listed(ips)]).list(1, &["m"]);
        assert_eq!(world.verdict(chat(HOST, &[]), BODY), verdict, "{ips}");
    }
    let mut world = World::new(vec![open(listed("10.0.0.0/8"))]).list(1, &["m"]).chain("m", &["spare-model"]);
    assert_eq!(world.all_fail(chat(HOST, &[&bearer(1)]), BODY), (vec![], "403 ip_not_allowed".to_owned()));
    assert_eq!(world.verdict(request("GET", HOST, "/docs", &[]), ""), "403 ip_not_allowed");
}

#[test]
fn the_token_matrix() {
    let mut world = world();
    let header = r#"{"alg":"HS256","typ":"JWT"}"#;
    let claims = format!(r#"{{"id":"{}","exp":1900000000}}"#, circuit_id(1));
    let with = |head: &str| signed(JWT_SECRET, head, &claims);
    for (token, verdict) in [
        (token_until(1, 600), replica(1, 0)),
        (token_until(1, -30), replica(1, 0)),
        (token_until(1, -600), "401 expired_token".to_owned()),
        (token_until(2, 600), "401 token_mismatch".to_owned()),
        (signed("other secret", header, &claims), "401 invalid_token".to_owned()),
        (with(r#"{"alg":"none"}"#), "401 invalid_token".to_owned()),
        (with(r#"{"alg":"HS512"}"#), "401 invalid_token".to_owned()),
        (with(r#"{"alg":"RS256"}"#), "401 invalid_token".to_owned()),
        (signed(JWT_SECRET, header, r#"{"exp":1900000000}"#), "401 token_mismatch".to_owned()),
        ("a.b.c".to_owned(), "401 invalid_token".to_owned()),
    ] {
        for scheme in ["Bearer", "bearer", "BackendAI"] {
            let line = format!("authorization: {scheme} {token}");
            assert_eq!(world.verdict(chat(HOST, &[&line]), BODY), verdict, "{scheme} {token}");
            assert_eq!(world.verdict(request("GET", HOST, "/docs", &[&line]), ""), verdict, "{scheme} {token}");
        }
    }
    for lines in [&[][..], &["authorization: Basic YTpi"], &["authorization: Bearer "], &["x-api-key: sk-root"]] {
        assert_eq!(world.verdict(chat(HOST, lines), BODY), "401 missing_token", "{lines:?}");
    }
}

#[test]
fn a_public_circuit_looks_at_no_token() {
    let mut world = world();
    for lines in [&[][..], &["authorization: Bearer nonsense"]] {
        assert_eq!(world.verdict(chat("pub.models.example.com", lines), r#"{"model":"n"}"#), replica(2, 0));
    }
}

#[test]
fn refusals_come_in_the_shape_of_the_surface() {
    let mut world = world();
    let answer = world.admit(request("POST", HOST, "/v1/messages", &[]), BODY).unwrap_err();
    assert_eq!(said(&answer), "401 missing_token");
    assert!(answer.body.starts_with(br#"{"error":{"message":"#) || answer.body.starts_with(br#"{"type":"error""#));
    assert!(String::from_utf8_lossy(&answer.body).contains("authentication_error"));
    assert_eq!(answer.headers["www-authenticate"], "Bearer");
}

#[test]
fn pages_are_on_hosts_of_the_node_only() {
    let mut world = world();
    for host in ["router.example.com", "192.0.2.9:8080", "[::1]", "localhost", "models.example.com", "all.example.com"]
    {
        for page in ["/health", "/livez", "/readyz", "/status"] {
            assert_eq!(world.verdict(request("GET", host, page, &[]), ""), "200", "{host}{page}");
        }
    }
    // On a circuit's host they are the replica's.
    let reached = world.reach(request("GET", HOST, "/health", &[&bearer(1)]), "");
    assert_eq!((reached.backend, reached.uri), (replica(1, 0), "http://10.0.0.10:8000/health".to_owned()));
    assert_eq!(world.verdict(request("GET", "elsewhere.example.com", "/health", &[]), ""), "404 endpoint_not_found");
}

#[test]
fn until_the_first_pull_no_circuit_is_known() {
    let mut world = world();
    world.pulled(false);
    for host in [HOST, "bar.models.example.com", "pub.models.example.com", "models.example.com"] {
        assert_eq!(world.verdict(chat(host, &[&bearer(1)]), BODY), "503 not_ready", "{host}");
    }
    assert_eq!(world.verdict(chat("other.example.com", &[]), BODY), "404 endpoint_not_found");
    assert_eq!(world.verdict(request("GET", "localhost", "/livez", &[]), ""), "200");
}

#[test]
fn a_preflight_needs_no_token_and_any_other_options_does() {
    let mut world = world();
    world.rules.allowed_origins = appproxy_core::exchange::AllowedOrigins::Anyone;
    let asks = ["origin: https://app.example.com", "access-control-request-method: PUT"];
    let answer = world.admit(request("OPTIONS", HOST, "/docs", &asks), "").unwrap_err();
    assert_eq!((answer.status.as_u16(), &answer.headers["access-control-allow-origin"]), (204, &"*".parse().unwrap()));
    assert!(answer.headers["access-control-allow-methods"].to_str().unwrap().contains("PUT"));
    assert_eq!(world.verdict(request("OPTIONS", "models.example.com", "/v1/models", &asks), ""), "204");
    assert_eq!(world.verdict(request("OPTIONS", "bar.models.example.com", "/", &asks), ""), "404 endpoint_not_found");
    assert_eq!(world.verdict(request("OPTIONS", HOST, "/docs", &[]), ""), "401 missing_token");
    let reached = world.reach(request("OPTIONS", HOST, "/docs", &[&bearer(1)]), "");
    assert_eq!((reached.backend, reached.method), (replica(1, 0), "OPTIONS".to_owned()));
}

#[test]
fn the_status_page_counts_circuits() {
    let world = World::new(vec![at(1, "a", 1), at(2, "b", 1), at(3, "c", 1)]).list(1, &["m", "lora"]).opaque(2);
    let counts = &world.page(Page::Status)["counts"]["registry"];
    let wanted = serde_json::json!({"sub_domains": 3, "models": 2, "known": 1, "opaque": 1, "held": 1});
    assert_eq!(*counts, wanted);
}

#[test]
fn of_two_circuits_at_one_sub_domain_one_is_served() {
    let made = |number, day: &str| Circuit { created_at: Some(format!("2026-11-{day}")), ..at(number, "foo", 1) };
    let mut world = World::new(vec![made(1, "02"), made(2, "01")]).list(1, &["m"]).list(2, &["m"]);
    assert_eq!(world.verdict(chat(HOST, &[&bearer(1)]), BODY), replica(1, 0), "the younger one");
    assert_eq!(world.verdict(chat(HOST, &[&bearer(2)]), BODY), "401 token_mismatch");
    assert_eq!(world.verdict(chat("models.example.com", &[&bearer(2)]), BODY), "401 token_mismatch", "kept aside");
    let reports: Vec<&str> = world.serving.reports().map(|report| report.code()).collect();
    assert_eq!(reports, ["sub_domain_claimed"]);
    // Heard of by an event, the other one takes its place; a pull that lists both gives it back.
    world.desired.note_arrival(circuit_id(2));
    world.show();
    assert_eq!(world.verdict(chat(HOST, &[&bearer(2)]), BODY), replica(2, 0));
    world.desired.settle_arrivals(|_| false);
    world.show();
    assert_eq!(world.verdict(chat(HOST, &[&bearer(1)]), BODY), replica(1, 0));
    // When the holder goes, the other one is met.
    world.desired.remove_circuit(circuit_id(1));
    world.show();
    assert_eq!(world.verdict(chat(HOST, &[&bearer(2)]), BODY), replica(2, 0));
    assert_eq!(world.serving.reports().count(), 0);
}
