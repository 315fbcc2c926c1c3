//! A revoked key is refused: at once where the event is heard, within one pull where it is not.

use std::time::{Duration, Instant};

use appproxy_fixtures::coordinator::{Failure, Faults};
use appproxy_tests::shell::Shell;
use appproxy_tests::wait::{self, PATIENCE};
use appproxy_tests::world::{chat, endpoint};
use serde_json::json;

pub(crate) fn k1_a_strict_revocation_is_confirmed_by_the_node_and_bites_at_once(shell: Shell) {
    let world = shell.setup().start();
    assert_eq!(world.chat("sk-all", "chat").status(), 200);
    let node = world.page("/status")["node_id"].clone();
    let answer = world.revoke("all", true);
    assert_eq!((&answer["confirmed"], &answer["unconfirmed"]), (&json!([node]), &json!([])), "{answer}");
    // Confirmed means refused: no waiting.
    let refused = world.chat("sk-all", "chat");
    assert_eq!(refused.status(), 401);
    assert!(refused.text().contains("invalid_api_key"), "{}", refused.text());

    // Revoked again, as someone does who lost the answer.
    assert_eq!(world.revoke("all", true)["unconfirmed"], json!([]));

    // A key that comes back works when its notice is acked, and so does a rotated one; the old secret is dead then.
    assert_eq!(world.key("all", "sk-all", json!({})), "acked");
    assert_eq!(world.chat("sk-all", "chat").status(), 200);
    assert_eq!(world.key("all", "sk-rotated", json!({})), "acked");
    assert_eq!((world.chat("sk-rotated", "chat").status(), world.chat("sk-all", "chat").status()), (200, 401));

    assert_eq!(world.revoke("all", false)["status"], "acked");
    assert_eq!(world.chat("sk-rotated", "chat").status(), 401);
}

pub(crate) fn k1_without_the_event_a_revoked_key_is_refused_within_one_pull(shell: Shell) {
    const INTERVAL: Duration = Duration::from_secs(1);
    let world = shell.setup().reconcile("1s").start();
    world.coordinator.set_faults(Faults { drop_events: 1, ..Faults::default() });
    let began = Instant::now();
    // Nobody is told, so nobody acks and the call waits; its client does not.
    let path = format!("/v2/routers/{}/api-keys/all", appproxy_tests::world::AUTHORITY);
    let waiting = appproxy_tests::http::Request::new("DELETE", &path)
        .header("X-BackendAI-Token", "the-api-secret")
        .open(&world.coordinator.address().to_string())
        .unwrap();
    // The key in constant use meanwhile: trust is not renewed by use.
    world.wait_chat("sk-all", "chat", 401, PATIENCE);
    let took = began.elapsed();
    assert!(took < INTERVAL + Duration::from_secs(2), "refused only after {took:?}");
    drop(waiting);
}

pub(crate) fn without_a_bus_changes_come_by_pull_alone(shell: Shell) {
    let world = shell.setup().without_bus().reconcile("200ms").start();
    assert_eq!(world.page("/status")["bus_connected"], json!(null));
    assert_eq!(world.metric("appproxy_bus_connected"), -1.0);
    world.coordinator.set_faults(Faults { bus_down: true, ..Faults::default() });
    assert_eq!(world.publish("quiet", &[], &[(1, 1.0)]), "deferred");
    world.wait_chat("sk-all", "quiet", 200, PATIENCE);
    assert_eq!(world.unpublish("quiet"), "deferred");
    world.wait_chat("sk-all", "quiet", 404, PATIENCE);
    world.revoke("all", false);
    world.wait_chat("sk-all", "chat", 401, PATIENCE);
}

pub(crate) fn until_the_first_pull_nobody_is_let_in_and_the_answer_says_which_way(shell: Shell) {
    let setup = shell.setup().reconcile("500ms").sections(
        "api_keys:\n  mode: blocking\n  keys:\n    - id: ops\n      key: \"${OPS_KEY}\"\nbackends:\n  - name: static\n    \
         url: \"http://127.0.0.1:9\"\n    models: [\"static-model\"]\n",
    );
    let mut world = setup.variable("OPS_KEY", "sk-ops").prepare();
    let port = world.replica("r1", &[]);
    world.circuit(1, &[port]);
    world.publish("chat", &[], &[(1, 1.0)]);
    world.key("all", "sk-all", json!({}));
    let down = Failure { method: None, path: "/api/worker".into(), status: 503, body: None, times: None };
    world.coordinator.set_faults(Faults { failures: vec![down], ..Faults::default() });
    world.launch_worker();

    assert_eq!(world.send(&appproxy_tests::http::Request::get("/readyz")).status(), 503);
    assert_eq!(world.send(&appproxy_tests::http::Request::get("/livez")).status(), 200);
    assert_eq!(world.send(&chat("chat")).status(), 401);
    let unsure = world.chat("sk-all", "chat");
    assert_eq!(unsure.status(), 503, "{}", unsure.text());
    assert!(unsure.text().contains("not_ready"), "{}", unsure.text());
    assert!(unsure.head.header("retry-after").is_some());
    // An operator's key is known from the start: it reaches its static model, whose backend nobody listens at.
    assert_eq!(world.chat("sk-ops", "static-model").status(), 502);
    assert_eq!(world.chat("sk-ops", "chat").status(), 404);

    world.coordinator.set_faults(Faults::default());
    let data = world.data().to_owned();
    world.worker().wait_ready(&data, PATIENCE);
    assert_eq!(world.chat("sk-all", "chat").status(), 200);
    assert_eq!(world.chat("sk-ops", "chat").status(), 200);
    // Model API keys use published models only.
    assert_eq!(world.chat("sk-all", "static-model").status(), 404);
}

pub(crate) fn a_removed_circuit_stays_removed_although_the_coordinator_commits_later(shell: Shell) {
    let mut world = shell.setup().reconcile("300ms").start();
    let port = world.replica("second", &[]);
    world.circuit(2, &[port]);
    world.publish("two", &[], &[(2, 1.0)]);
    world.coordinator.set_faults(Faults { announce_removal_first_ms: Some(1500), ..Faults::default() });
    let path = format!("/dev/circuits/{}", endpoint(2));
    let pulls = || world.metric("appproxy_coordinator_calls_total{call=\"circuits\",outcome=\"200\"}");
    let before = pulls();
    let waiting = appproxy_tests::http::Request::new("DELETE", &path)
        .header("X-BackendAI-Token", "the-api-secret")
        .open(&world.coordinator.address().to_string())
        .unwrap();
    world.wait_chat("sk-all", "two", 503, PATIENCE);
    // Pulls that still list it go by.
    wait::until("three pulls more", PATIENCE, || {
        assert_eq!(world.chat("sk-all", "two").status(), 503);
        pulls() >= before + 3.0
    });
    drop(waiting);
}
