//! A model is published by the manager's API and served, over real sockets.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use appproxy_fixtures::wire::Dialect;
use appproxy_tests::http::{Connection, Request};
use appproxy_tests::shell::Shell;
use appproxy_tests::wait::PATIENCE;
use appproxy_tests::world::{World, chat, endpoint};
use serde_json::{Value, json};

fn listed(world: &World, key: &str) -> Vec<String> {
    let answer = world.send(&Request::get("/v1/models").bearer(key));
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let list: Value = serde_json::from_slice(&answer.body).expect("JSON");
    list["data"]
        .as_array()
        .expect("JSON")
        .iter()
        .map(|model| model["id"].as_str().expect("a text").to_owned())
        .collect()
}

fn served_by(body: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(body).expect("JSON");
    answer["served_by"].as_str().unwrap_or_default().to_owned()
}

pub(crate) fn a_model_is_published_served_listed_and_unpublished(shell: Shell) {
    let mut world = shell.setup().start();
    let port = world.replica("second", &[]);
    world.circuit(2, &[port]);
    assert_eq!(world.chat("sk-all", "new").status(), 404);
    // The answer waits for the ack, and the ack is a promise: no waiting between the two.
    assert_eq!(world.publish("new", &["fresh", "org/new"], &[(2, 1.0)]), "acked");
    for name in ["new", "fresh", "org/new"] {
        let answer = world.chat("sk-all", name);
        assert_eq!((answer.status(), served_by(&answer.body).as_str()), (200, "second"), "{name}: {}", answer.text());
        assert_eq!(answer.head.header("x-appproxy-model"), Some(name));
        assert_eq!(world.send(&Request::get(&format!("/v1/models/{name}")).bearer("sk-all")).status(), 200, "{name}");
    }
    assert_eq!(listed(&world, "sk-all"), ["chat", "fresh", "new", "org/new", "talk"]);

    // A new alias and an old one gone, by one change.
    assert_eq!(world.publish("new", &["fresher"], &[(2, 1.0)]), "acked");
    assert_eq!(world.chat("sk-all", "fresher").status(), 200);
    assert_eq!(world.chat("sk-all", "fresh").status(), 404);

    // Other replicas, by a route update nobody acks.
    let other = world.replica("third", &[]);
    world.set_routes(2, &[other]);
    appproxy_tests::wait::until("the new replica to serve", PATIENCE, || {
        served_by(&world.chat("sk-all", "new").body) == "third"
    });

    assert_eq!(world.unpublish("new"), "acked");
    for name in ["new", "fresher"] {
        let answer = world.chat("sk-all", name);
        assert_eq!(answer.status(), 404, "{name}");
        assert!(answer.text().contains("model_not_found"), "{}", answer.text());
    }
    assert_eq!(listed(&world, "sk-all"), ["chat", "talk"]);

    // The digest of what is applied, on the page and in the metrics, is one.
    let digest = world.page("/status")["desired_state_digest"].as_str().unwrap().to_owned();
    assert!(world.metrics().contains(&format!("digest=\"{digest}\"")), "{digest}");

    // A removed circuit leaves its publication listed, and nothing to serve it.
    world.done("DELETE", &format!("/dev/circuits/{}", endpoint(1)), &Value::Null);
    world.wait_chat("sk-all", "chat", 503, PATIENCE);
    assert_eq!(listed(&world, "sk-all"), ["chat", "talk"]);
}

pub(crate) fn h3_seven_to_three_is_seven_to_three_over_one_and_four_replicas(shell: Shell) {
    let mut world = shell.setup().start();
    let one = world.replica("a1", &[]);
    let four: Vec<u16> = (1..=4).map(|number| world.replica(&format!("b{number}"), &[])).collect();
    world.circuit(7, &[one]);
    world.circuit(3, &four);
    assert_eq!(world.publish("split", &[], &[(7, 0.7), (3, 0.3)]), "acked");

    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let mut connection = Connection::open(world.data(), PATIENCE).unwrap();
    for _ in 0..1000 {
        connection.send(&chat("split").bearer("sk-all")).unwrap();
        let answer = connection.answer().unwrap();
        assert_eq!(answer.status(), 200, "{}", answer.text());
        *counts.entry(served_by(&answer.body)).or_default() += 1;
    }
    let first = counts.get("a1").copied().unwrap_or(0);
    assert!(first.abs_diff(700) <= 2, "{counts:?}");
    for name in ["b1", "b2", "b3", "b4"] {
        assert!(counts.get(name).copied().unwrap_or(0).abs_diff(75) <= 4, "{counts:?}");
    }
}

/// The creation of a circuit blocks on our ack, in whichever dialect the coordinator understands.
pub(crate) fn creating_a_circuit_is_acked_within_a_second_in_both_dialects(shell: Shell) {
    for (setting, dialect) in
        [("both", Dialect::Args), ("both", Dialect::Payload), ("args", Dialect::Args), ("payload", Dialect::Payload)]
    {
        let setup = shell.setup().dialect(dialect).router(&format!("event_dialect: {setting}"));
        let world = setup.start();
        let began = Instant::now();
        // No routes, no publication: registered is enough.
        world.circuit(9, &[]);
        assert!(began.elapsed() < Duration::from_secs(1), "{setting} {dialect:?}: {:?}", began.elapsed());
        assert_eq!(world.publish("other", &[], &[(9, 1.0)]), "acked", "{setting} {dialect:?}");
        let state = world.done("GET", "/dev/state", &Value::Null);
        assert_eq!((&state["refused_acks"], &state["waiting_calls"]), (&json!([]), &json!(0)));
    }
}

/// The figure for the notes: from the manager's call to the first served request, over sockets. Its bound is loose; what
/// would break it is an ack or an event that waits for a pull.
pub(crate) fn publishing_to_serving_takes_milliseconds(shell: Shell) {
    let world = shell.setup().start();
    let mut took: Vec<Duration> = (0..20)
        .map(|number| {
            let model = format!("model-{number}");
            let began = Instant::now();
            assert_eq!(world.publish(&model, &[], &[(1, 1.0)]), "acked");
            assert_eq!(world.chat("sk-all", &model).status(), 200);
            began.elapsed()
        })
        .collect();
    took.sort();
    let median = (took[9] + took[10]) / 2;
    println!("publish to served: median {median:?}, least {:?}, most {:?}", took[0], took[19]);
    assert!(median < Duration::from_secs(1), "{took:?}");
}
