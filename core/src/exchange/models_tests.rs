use crate::exchange::testing::{World, request, said};

#[test]
fn the_list_is_the_same_bytes_every_time() {
    let mut world = World::new();
    let listed = |world: &mut World| world.answer(request("GET", "/v1/models", &["x-api-key: some"]), "").body;
    let first = listed(&mut world);
    let text = "{\"object\":\"list\",\"data\":[\
        {\"id\":\"m1\",\"object\":\"model\",\"created\":0,\"owned_by\":\"backend.ai\"},\
        {\"id\":\"org/c\",\"object\":\"model\",\"created\":0,\"owned_by\":\"backend.ai\"}]}";
    assert_eq!(first, text.as_bytes());
    assert_eq!(listed(&mut World::new()), first);
}

#[test]
fn listing_needs_a_key_and_any_number_of_times_is_fine() {
    let mut world = World::new();
    assert_eq!(world.verdict(request("GET", "/v1/models", &[]), ""), "401 missing_api_key");
    assert_eq!(world.verdict(request("GET", "/v1/models/m1", &[]), ""), "401 missing_api_key");
    for _ in 0..10 {
        assert_eq!(world.verdict(request("GET", "/v1/models", &["x-api-key: three"]), ""), "200");
        assert_eq!(world.verdict(request("GET", "/v1/models/m1", &["x-api-key: three"]), ""), "200");
    }
    assert_eq!(world.verdict(request("GET", "/v1/models", &["x-api-key: zero"]), ""), "200");
}

#[test]
fn a_name_that_is_not_there_is_quoted_and_cut() {
    let mut world = World::new();
    let long = "x".repeat(5000);
    let answer = world.answer(request("GET", &format!("/v1/models/{long}"), &["x-api-key: all"]), "");
    assert_eq!(said(&answer), "404 model_not_found");
    assert!(answer.body.len() < 600);
    let odd = world.answer(request("GET", "/v1/models/a%0Ab", &["x-api-key: all"]), "");
    assert_eq!(said(&odd), "404 model_not_found");
    assert_eq!(odd.outcome.trail.known_model(), None);
    let empty = request("POST", "/v1beta/models/:countTokens", &["x-api-key: all"]);
    assert_eq!(world.verdict(empty, "{}"), "400 invalid_model");
}
