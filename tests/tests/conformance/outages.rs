//! Redis or the coordinator is gone for a while: the data plane goes on, and what was missed is made good.

use std::time::Duration;

use appproxy_fixtures::coordinator::{Failure, Faults};
use appproxy_tests::shell::Shell;
use appproxy_tests::wait::{self, PATIENCE};
use appproxy_tests::world::{AUTHORITY, World};
use serde_json::{Value, json};

const CHANNEL: &str = "events_all-appproxy";
/// A ping every 5 s, answered within 5 s; then the back-off, 10 s at the longest.
const NOTICED: Duration = Duration::from_secs(20);

fn degraded(world: &World) -> bool {
    world.page("/health")["status"] == "degraded"
}

#[track_caller]
fn wait_health(world: &World, status: &str, allowed: Duration) {
    wait::until(&format!("/health to say {status}"), allowed, || world.page("/health")["status"] == status);
}

pub(crate) fn redis_is_killed_and_comes_back(shell: Shell) {
    // Pulls are ten minutes apart: what was missed can only have come with the pull after the new subscription.
    let mut world = shell.setup().start();
    assert!(!degraded(&world));
    world.redis().kill();
    wait::until("the loss to be noticed", PATIENCE, || world.metric("appproxy_bus_connected") == 0.0);
    assert!(degraded(&world));
    let reasons = world.page("/health")["reasons"].to_string();
    assert!(reasons.contains("bus"), "{reasons}");
    assert_eq!(world.send(&appproxy_tests::http::Request::get("/readyz")).status(), 200);
    assert_eq!(world.chat("sk-all", "chat").status(), 200);

    // Changed in the gap: nobody hears of it.
    world.coordinator.set_faults(Faults { bus_down: true, ..Faults::default() });
    assert_eq!(world.publish("gap", &[], &[(1, 1.0)]), "deferred");
    world.key("late", "sk-late", json!({}));
    world.revoke("all", false);
    assert_eq!(world.chat("sk-all", "chat").status(), 200, "not heard of, so still served");
    assert_eq!(world.chat("sk-late", "gap").status(), 401);

    world.coordinator.set_faults(Faults::default());
    world.redis().restart();
    world.wait_chat("sk-all", "chat", 401, PATIENCE);
    world.wait_chat("sk-late", "gap", 200, PATIENCE);
    wait_health(&world, "healthy", PATIENCE);
    // Both of us and the coordinator listen again, and acks go on.
    world.redis().wait_subscribers(CHANNEL, 2, PATIENCE);
    assert_eq!(world.publish("after", &[], &[(1, 1.0)]), "acked");
    assert_eq!(world.chat("sk-late", "after").status(), 200);
    assert_eq!(world.revoke("late", true)["unconfirmed"], json!([]));
    assert_eq!(world.chat("sk-late", "after").status(), 401);
}

pub(crate) fn a_frozen_redis_is_noticed_by_an_unanswered_ping(shell: Shell) {
    let mut world = shell.setup().start();
    assert_eq!(world.metric("appproxy_bus_connected"), 1.0);
    world.redis().freeze();
    wait::until("the silence to be noticed", NOTICED, || world.metric("appproxy_bus_connected") == 0.0);
    assert!(degraded(&world));
    assert_eq!(world.chat("sk-all", "chat").status(), 200);
    world.redis().thaw();
    wait_health(&world, "healthy", NOTICED);
    assert_eq!(world.publish("after", &[], &[(1, 1.0)]), "acked");
    assert_eq!(world.chat("sk-all", "after").status(), 200);
}

pub(crate) fn a_worker_started_without_redis_or_coordinator_gets_there_in_the_end(shell: Shell) {
    let mut world = shell.setup().reconcile("500ms").prepare();
    let port = world.replica("r1", &[]);
    world.circuit(1, &[port]);
    world.publish("chat", &[], &[(1, 1.0)]);
    world.key("all", "sk-all", json!({}));
    world.coordinator.set_faults(Faults::default());
    world.kill_coordinator();
    world.redis().kill();
    world.launch_worker();
    wait::until("both to be missed", PATIENCE, || {
        let reasons = world.page("/health")["reasons"].to_string();
        reasons.contains("bus") && reasons.contains("coordinator")
    });
    assert_eq!(world.chat("sk-all", "chat").status(), 503);
    world.revive_coordinator();
    // Without a bus the worker is complete.
    world.wait_chat("sk-all", "chat", 200, PATIENCE);
    assert!(degraded(&world));
    world.redis().restart();
    wait_health(&world, "healthy", PATIENCE);
}

pub(crate) fn the_coordinator_is_gone_for_a_while(shell: Shell) {
    let mut world = shell.setup().reconcile("300ms").heartbeat("300ms").start();
    let worker_id = world.state()["worker"]["id"].clone();
    world.kill_coordinator();
    wait_health(&world, "degraded", PATIENCE);
    assert!(world.page("/health")["reasons"].to_string().contains("coordinator"), "{}", world.page("/health"));
    assert_eq!(world.send(&appproxy_tests::http::Request::get("/readyz")).status(), 200);
    assert_eq!(world.chat("sk-all", "chat").status(), 200);
    assert_eq!(world.send(&appproxy_tests::http::Request::get("/health")).status(), 200);
    world.revive_coordinator();
    wait_health(&world, "healthy", PATIENCE);
    assert_eq!(world.state()["worker"]["id"], worker_id, "nobody registered again without need");

    // Answers that are errors, and answers that are rubbish, change nothing either.
    for (status, body) in [(500, None), (200, Some("<html>".to_owned())), (200, Some("{}".to_owned()))] {
        let bad = Failure { method: Some("GET".into()), path: "/api/worker".into(), status, body, times: None };
        world.coordinator.set_faults(Faults { failures: vec![bad], ..Faults::default() });
        wait_health(&world, "degraded", PATIENCE);
        assert_eq!(world.chat("sk-all", "chat").status(), 200);
        world.coordinator.set_faults(Faults::default());
        wait_health(&world, "healthy", PATIENCE);
    }
    assert!(world.metric("appproxy_malformed_total{kind=\"rest_body\"}") >= 2.0, "{}", world.metrics());

    // Heartbeats fail while pulls work: the coordinator's Redis is down. Serving goes on.
    world.coordinator.set_faults(Faults { bus_down: true, ..Faults::default() });
    wait_health(&world, "degraded", PATIENCE);
    assert_eq!(world.chat("sk-all", "chat").status(), 200);
    world.coordinator.set_faults(Faults::default());
    wait_health(&world, "healthy", PATIENCE);
}

pub(crate) fn a_forgotten_worker_registers_again_and_an_empty_answer_is_applied_like_any_other(shell: Shell) {
    let world = shell.setup().reconcile("300ms").heartbeat("300ms").start();
    let first = world.state()["worker"]["id"].clone();
    let node = world.page("/status")["node_id"].clone();
    world.done("POST", &format!("/dev/workers/{AUTHORITY}/forget"), &Value::Null);
    wait::until("a new registration", PATIENCE, || {
        let id = world.state()["worker"]["id"].clone();
        id.is_string() && id != first
    });
    wait_health(&world, "healthy", PATIENCE);
    assert_eq!(world.chat("sk-all", "chat").status(), 200);
    assert_eq!(world.page("/status")["node_id"], node, "the node is the same one");
    assert_eq!(world.state()["nodes"][0]["node_id"], node);

    // Events are heard and acked under the new registration.
    assert_eq!(world.publish("after", &[], &[(1, 1.0)]), "acked");
    assert_eq!(world.revoke("all", true)["unconfirmed"], json!([]));
    assert_eq!(world.key("all", "sk-all", json!({})), "acked");

    world.done("POST", &format!("/dev/workers/{AUTHORITY}/forget?circuits=true"), &Value::Null);
    world.wait_chat("sk-all", "chat", 503, PATIENCE);
    wait_health(&world, "healthy", PATIENCE);
}

pub(crate) fn a_wrong_secret_and_an_old_coordinator_are_said_in_those_words(shell: Shell) {
    for (status, words) in [(401, "api_secret rejected by the coordinator"), (422, "BEP-1053")] {
        let mut world = shell.setup().reconcile("300ms").prepare();
        let refused = Failure { method: None, path: "/api/worker".into(), status, body: None, times: None };
        world.coordinator.set_faults(Faults { failures: vec![refused], ..Faults::default() });
        world.launch_worker();
        let line = world.worker().log().wait_for(words, PATIENCE);
        assert!(line.contains("ERROR"), "{line}");
        wait::until("/health to say it too", PATIENCE, || world.page("/health")["reasons"].to_string().contains(words));
    }
}
