use super::*;
use crate::exchange::testing::{World, header, request, said};

fn world(origins: &[&str]) -> World {
    let mut world = World::new();
    world.rules.allowed_origins = AllowedOrigins::new(origins.iter().copied());
    world
}

const PAGE: &str = "origin: https://chat.example.com";

#[test]
fn a_preflight_is_answered_without_a_key() {
    let asks = ["access-control-request-method: POST", "access-control-request-headers: authorization, x-stainless"];
    for (origins, grant, vary) in [
        (&["*"][..], "*", 1),
        (&["https://other.example.com", "https://chat.example.com/"], "https://chat.example.com", 2),
    ] {
        let mut world = world(origins);
        let answer = world.answer(request("OPTIONS", "/v1/chat/completions", &[PAGE, asks[0], asks[1]]), "");
        assert_eq!((answer.status.as_u16(), answer.body.len()), (204, 0));
        assert!(!answer.headers.contains_key("content-length"));
        assert_eq!(header(&answer.headers, "access-control-allow-origin"), grant);
        assert_eq!(header(&answer.headers, "access-control-allow-headers"), "authorization, x-stainless");
        assert!(header(&answer.headers, "access-control-allow-methods").contains("POST"));
        assert_eq!(answer.headers.get_all("vary").iter().count(), vary);
    }
    for origins in [&[][..], &["https://other.example.com"], &["http://chat.example.com"]] {
        let answer = world(origins).answer(request("OPTIONS", "/v1/chat/completions", &[PAGE, asks[0]]), "");
        assert_eq!(said(&answer), "405 method_not_allowed", "{origins:?}");
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
    }
    assert_eq!(
        world(&["*"]).verdict(request("OPTIONS", "/v1/chat/completions", &[PAGE]), ""),
        "405 method_not_allowed"
    );
}

#[test]
fn answers_to_a_page_that_may_call_say_so_errors_included() {
    let mut world = world(&["https://chat.example.com"]);
    for (key, status) in [("x-api-key: all", 200), ("x-api-key: nope", 401)] {
        let answer = world.answer(request("GET", "/v1/models", &[PAGE, key]), "");
        assert_eq!(answer.status, status);
        assert_eq!(header(&answer.headers, "access-control-allow-origin"), "https://chat.example.com");
        assert!(header(&answer.headers, "access-control-expose-headers").contains("x-request-id"));
    }
    for lines in [&["x-api-key: all"][..], &["x-api-key: all", "origin: null"]] {
        let answer = world.answer(request("GET", "/v1/models", lines), "");
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
    }
}
