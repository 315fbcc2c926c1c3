//! Reconcile of a wildcard worker, case by case (worker-protocol 4.3). Each snapshot lists the backends, the sub-domains
//! with what is met there, and the names of the aggregation surface.

use std::collections::BTreeMap;

use appproxy_core::desired::{Desired, Learned, Rules, reconcile};
use appproxy_core::serving::{Serving, ServingSettings};
use appproxy_core::wire::circuit::{AppMode, Circuit, Protocol, Route};
use serde::Serialize;

use crate::states::{circuit, circuit_id, desired, endpoint_id, group, in_group, route};

#[derive(Serialize)]
struct Seen {
    backends: Vec<String>,
    sub_domains: BTreeMap<String, String>,
    models: BTreeMap<String, Vec<String>>,
    reports: Vec<String>,
}

/// What is served, by the whole reconcile, after the step-by-step one was seen to agree.
fn seen(desired: &Desired) -> Seen {
    let whole = reconcile(desired, Rules::Legacy);
    let mut serving = Serving::new(&ServingSettings { rules: Rules::Legacy, ..ServingSettings::default() });
    let _ = serving.update(desired, &desired.everything());
    let view = serving.view();
    assert!(view.backends().map(|backend| (**backend).clone()).eq(whole.backends.values().cloned()));
    let registry = view.registry();
    let met = |label: &str| {
        let circuit = registry.at(label).expect("a circuit");
        let shares = circuit.pool.shares().into_iter();
        let shares: Vec<String> = shares.map(|(one, share)| format!("{} {share:.4}", one.url())).collect();
        let door = if circuit.open_to_public { "public" } else { "private" };
        format!("{} {door} {:?} {:?}: {}", circuit.id, circuit.addresses, circuit.model, shares.join(", "))
    };
    Seen {
        backends: whole
            .backends
            .values()
            .map(|one| {
                format!("{} {} {} weight={} models={}", one.name, one.kind, one.url(), one.weight, one.models.join(","))
            })
            .collect(),
        sub_domains: registry.sub_domains().map(|(label, _)| (label.to_string(), met(label))).collect(),
        models: registry
            .models()
            .map(|name| (name.to_string(), registry.serving(name).map(|one| one.id.to_string()).collect()))
            .collect(),
        reports: serving.reports().map(ToString::to_string).collect(),
    }
}

fn at(label: &str, circuit: Circuit) -> Circuit {
    Circuit { subdomain: Some(label.to_owned()), ..circuit }
}

fn learned(circuits: Vec<Circuit>, names: &[(u128, &[&str])]) -> Desired {
    let mut desired = desired(circuits, vec![]);
    for (endpoint, names) in names {
        let learned = Learned::of_list(names.iter().map(|name| (*name).into())).unwrap_or(Learned::Opaque);
        desired.learn(endpoint_id(*endpoint), Some(learned));
    }
    desired
}

macro_rules! case {
    ($name:ident, $desired:expr) => {
        #[test]
        fn $name() {
            insta::assert_json_snapshot!(stringify!($name), seen(&$desired));
        }
    };
}

case!(nothing_at_all, learned(vec![], &[]));

case!(
    one_circuit_with_its_canonical_model,
    learned(vec![at("foo", circuit(1, 1, vec![route(1, 1.0), route(2, 0.5)]))], &[(1, &["org/m", "lora"])])
);

case!(a_held_circuit_has_no_backends, learned(vec![at("foo", circuit(1, 1, vec![route(1, 1.0)]))], &[]));

case!(an_opaque_circuit_has_backends_without_a_model, {
    let odd = Circuit { runtime_variant: Some("custom".to_owned()), ..circuit(1, 1, vec![route(1, 1.0)]) };
    learned(vec![at("foo", odd)], &[(1, &[])])
});

case!(hosts_of_every_kind, {
    let host = |number, host: Option<&str>| Route { kernel_host: host.map(str::to_owned), ..route(number, 1.0) };
    let routes = vec![host(1, Some("2001:db8::1")), host(2, None), host(3, Some("replica")), host(4, Some(""))];
    learned(vec![at("foo", circuit(1, 1, routes))], &[(1, &["m"])])
});

case!(null_route_id_takes_its_index, {
    let unnamed = |number| Route { route_id: None, ..route(number, 1.0) };
    learned(vec![at("foo", circuit(1, 1, vec![unnamed(1), unnamed(2)]))], &[(1, &["m"])])
});

case!(weights_are_rounded_clamped_and_drained, {
    let ratios = [0.0, -1.0, f64::NAN, f64::INFINITY, 0.001, 0.125, 70.0, 1e308];
    let routes = (1..).zip(ratios).map(|(number, ratio)| route(number, ratio)).collect();
    learned(vec![at("foo", circuit(1, 1, routes))], &[(1, &["m"])])
});

case!(only_http_inference_with_an_endpoint, {
    let tcp = Route { protocol: Protocol::Other, ..route(1, 1.0) };
    let no_endpoint = Circuit { endpoint_id: None, ..circuit(2, 2, vec![route(2, 1.0)]) };
    let interactive = Circuit { app_mode: AppMode::Interactive, ..circuit(3, 3, vec![route(3, 1.0)]) };
    let circuits = vec![at("one", circuit(1, 1, vec![tcp])), at("two", no_endpoint), at("three", interactive)];
    learned(circuits, &[(1, &["a"]), (2, &["b"]), (3, &["c"])])
});

case!(replica_groups_part_the_requests, {
    let routes = vec![in_group(route(1, 1.0), 1), in_group(route(2, 1.0), 2), route(3, 1.0)];
    let mut grouped = at("foo", circuit(1, 1, routes));
    grouped.replica_groups = vec![group(1, 75.0), group(2, 25.0)];
    learned(vec![grouped], &[(1, &["m"])])
});

case!(two_circuits_of_one_endpoint_keep_to_themselves, {
    let circuits = vec![at("one", circuit(1, 1, vec![route(1, 1.0)])), at("two", circuit(2, 1, vec![route(2, 1.0)]))];
    learned(circuits, &[(1, &["m"])])
});

case!(doors_of_every_kind, {
    let open = Circuit { open_to_public: true, ..circuit(1, 1, vec![]) };
    let listed = Circuit { allowed_client_ips: Some("192.0.2.9/24, office".to_owned()), ..circuit(2, 2, vec![]) };
    let broken = Circuit { allowed_client_ips: Some("10.0.0.0/33".to_owned()), ..circuit(3, 3, vec![]) };
    let nameless = circuit(4, 4, vec![route(4, 1.0)]);
    learned(vec![at("one", open), at("two", listed), at("three", broken), nameless], &[(4, &["m"])])
});

case!(one_sub_domain_twice, {
    let made = |number, day: &str| Circuit {
        created_at: Some(format!("2026-11-{day}T00:00:00Z")),
        ..at("foo", circuit(number, number, vec![route(number, 1.0)]))
    };
    let mut desired =
        learned(vec![made(1, "02"), made(2, "01"), made(3, "03")], &[(1, &["m"]), (2, &["m"]), (3, &["m"])]);
    desired.remove_circuit(circuit_id(3));
    desired
});
