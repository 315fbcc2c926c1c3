use super::*;
use crate::exchange::testing::{World, header, request, standing};
use crate::time::Moment;
use core::time::Duration;

fn page(world: &mut World, path: &str) -> (u16, Value) {
    let answer = world.answer(request("GET", path, &[]), "");
    let waits = !header(&answer.headers, "retry-after").is_empty();
    assert_eq!(waits, answer.status == 503);
    assert!(!header(&answer.headers, "x-request-id").is_empty());
    (answer.status.as_u16(), serde_json::from_slice(&answer.body).unwrap())
}

fn worker(change: impl FnOnce(&mut crate::worker::Standing)) -> Control {
    let mut standing = standing();
    change(&mut standing);
    Control::Worker { authority: "here".into(), standing }
}

#[test]
fn health_is_always_200_and_says_why() {
    let mut world = World::new();
    assert_eq!(page(&mut world, "/health"), (200, json!({"status": "healthy", "reasons": []})));
    world.control = worker(|standing| standing.trouble = vec!["the bus is down".to_owned()]);
    assert_eq!(page(&mut world, "/health"), (200, json!({"status": "degraded", "reasons": ["the bus is down"]})));
    assert_eq!(page(&mut world, "/readyz").0, 200);
    for control in [worker(|standing| standing.leaving = true), worker(|standing| standing.last_full_pull = None)] {
        world.control = control;
        let (status, body) = page(&mut world, "/health");
        assert_eq!((status, &body["status"]), (200, &"degraded".into()));
        assert_eq!(body["reasons"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn a_refused_file_is_told_in_fixed_words_and_costs_no_readiness() {
    let mut world = World::new();
    assert_eq!(page(&mut world, "/status").1["config_accepted"], true);
    world.file_refused = true;
    let (status, body) = page(&mut world, "/health");
    assert_eq!((status, &body["status"]), (200, &"degraded".into()));
    assert_eq!(body["reasons"], json!(["the configuration file was refused, and the one before it is in force"]));
    assert_eq!(page(&mut world, "/readyz").0, 200);
    assert_eq!(page(&mut world, "/status").1["config_accepted"], false);
}

#[test]
fn readiness_follows_the_last_pull_and_the_shutdown() {
    let mut world = World::new();
    assert_eq!(page(&mut world, "/readyz").0, 200);
    world.control = worker(|standing| standing.max_staleness = Some(Duration::from_secs(5)));
    assert_eq!(page(&mut world, "/readyz").0, 200);
    world.now.moment = Moment::from_millis(5001);
    assert_eq!(page(&mut world, "/readyz").0, 503);
    for (control, status) in [
        (worker(|standing| standing.leaving = true), 503),
        (worker(|standing| standing.last_full_pull = None), 503),
        (Control::Unknown, 503),
        (Control::Alone { leaving: false }, 200),
        (Control::Alone { leaving: true }, 503),
    ] {
        world.control = control;
        assert_eq!(page(&mut world, "/readyz").0, status, "{:?}", world.control);
        assert_eq!(page(&mut world, "/livez").0, 200);
        assert_eq!(page(&mut world, "/health").0, 200);
    }
}

#[test]
fn the_status_names_the_state_and_no_secret() {
    let mut world = World::new();
    let (status, body) = page(&mut world, "/status");
    assert_eq!((status, &body["api_version"]), (200, &"v2".into()));
    assert_eq!(body["authority"], "here");
    assert_eq!(body["node_id"], "00000000-0000-0000-0000-000000000009");
    assert_eq!(body["generation"], 1);
    assert_eq!(body["counts"]["names"], 5);
    assert_eq!(body["counts"]["keys"], 6);
    assert_eq!(body["desired_state_digest"].as_str().map(str::len), Some(32));
    let text = body.to_string();
    for secret in ["10.9.9.9", "backend-secret", "id-of", "example.com"] {
        assert!(!text.contains(secret), "{secret}");
    }
    world.control = Control::Alone { leaving: false };
    let (_, body) = page(&mut world, "/status");
    assert_eq!((&body["node_id"], &body["api_version"]), (&Value::Null, &"v2".into()));
}
