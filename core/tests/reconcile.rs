//! Reconcile, case by case (worker-protocol 6): what a desired state becomes.
//!
//! Each snapshot lists the published names with the shares of their replicas, and the backends.

mod states;

use appproxy_core::desired::{Desired, Rules, reconcile};
use appproxy_core::serving::{ModelPool, Serving, ServingSettings};
use appproxy_core::wire::circuit::{AppMode, Circuit, Protocol, Route};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

use states::{circuit, desired, group, in_group, key, publication, route};

#[derive(Serialize)]
struct Seen {
    names: BTreeMap<Arc<str>, BTreeMap<Arc<str>, f64>>,
    backends: Vec<String>,
    reports: Vec<String>,
}

/// What is served, by the whole reconcile, after the step-by-step one was seen to agree.
fn seen(desired: &Desired) -> Seen {
    let whole = reconcile(desired, Rules::Router);
    let mut serving = Serving::new(&ServingSettings { rules: Rules::Router, ..ServingSettings::default() });
    let _ = serving.update(desired, &desired.everything());
    let view = serving.view();
    assert_eq!(
        view.backends().map(|backend| (**backend).clone()).collect::<Vec<_>>(),
        whole.backends.values().cloned().collect::<Vec<_>>()
    );
    let shares = |pool: &ModelPool| {
        // Four digits are enough to read; the tests of the draw are exact.
        pool.shares().into_iter().map(|(one, share)| (one.name.clone(), (share * 1e4).round() / 1e4)).collect()
    };
    Seen {
        names: view.published().map(|(name, pool)| (name.clone(), shares(pool))).collect(),
        backends: whole
            .backends
            .values()
            .map(|one| {
                format!("{} {} {} weight={} models={}", one.name, one.kind, one.url(), one.weight, one.models.join(","))
            })
            .collect(),
        reports: whole.reports.iter().map(ToString::to_string).collect(),
    }
}

macro_rules! case {
    ($name:ident, $desired:expr) => {
        #[test]
        fn $name() {
            insta::assert_json_snapshot!(stringify!($name), seen(&$desired));
        }
    };
}

case!(nothing_at_all, desired(vec![], vec![]));

case!(empty_publication, desired(vec![circuit(1, 1, vec![route(1, 1.0)])], vec![publication("empty", &["void"], &[])]));

case!(publication_of_an_unknown_endpoint, desired(vec![], vec![publication("later", &[], &[(9, 1.0)])]));

case!(circuit_without_publication, desired(vec![circuit(1, 1, vec![route(1, 1.0)])], vec![]));

case!(
    seven_to_three_over_unequal_replicas,
    desired(
        vec![circuit(1, 1, vec![route(1, 1.0)]), circuit(2, 2, (2..6).map(|n| route(n, 1.0)).collect())],
        vec![publication("llama", &[], &[(1, 0.7), (2, 0.3)])],
    )
);

case!(
    shared_endpoint_takes_the_largest_ratio,
    desired(
        vec![circuit(1, 1, vec![route(1, 1.0)]), circuit(2, 2, vec![route(2, 1.0)])],
        vec![publication("big", &[], &[(1, 2.0), (2, 2.0)]), publication("small", &[], &[(1, 0.25), (2, 0.75)])],
    )
);

case!(
    endpoint_mapped_twice_takes_its_largest_ratio,
    desired(
        vec![circuit(1, 1, vec![route(1, 1.0)]), circuit(2, 2, vec![route(2, 1.0)])],
        vec![publication("twice", &[], &[(1, 1.0), (2, 1.0), (1, 3.0)])],
    )
);

case!(
    drained_by_ratio_zero,
    desired(
        vec![circuit(1, 1, vec![route(1, 1.0), route(2, 0.0)]), circuit(2, 2, vec![route(3, 1.0)])],
        vec![publication("m", &[], &[(1, 1.0), (2, 0.0)])],
    )
);

case!(
    everything_drained,
    desired(vec![circuit(1, 1, vec![route(1, 0.0), route(2, 0.0)])], vec![publication("m", &[], &[(1, 1.0)])])
);

case!(
    not_a_number_negative_and_infinite,
    desired(
        vec![
            circuit(1, 1, vec![route(1, f64::NAN), route(2, -1.0), route(3, f64::INFINITY), route(4, 1.0)]),
            circuit(2, 2, vec![route(5, 1.0)]),
        ],
        vec![publication("m", &[], &[(1, 1.0), (2, -0.5)])],
    )
);

case!(
    duplicate_route_and_alias_names,
    desired(
        vec![circuit(1, 1, vec![route(1, 1.0), route(1, 5.0)])],
        vec![publication("m", &["a", "m", "a"], &[(1, 1.0)])],
    )
);

case!(
    ipv6_host,
    desired(
        vec![circuit(
            1,
            1,
            vec![
                Route { kernel_host: Some("2001:db8::5".to_owned()), ..route(1, 1.0) },
                Route { kernel_host: Some("[::1]".to_owned()), ..route(2, 1.0) },
                Route { kernel_host: None, ..route(3, 1.0) },
            ],
        )],
        vec![publication("m", &[], &[(1, 1.0)])],
    )
);

case!(
    null_route_id_takes_its_index,
    desired(
        vec![circuit(
            1,
            1,
            vec![Route { route_id: None, ..route(1, 1.0) }, route(2, 1.0), Route { route_id: None, ..route(3, 1.0) }]
        )],
        vec![publication("m", &[], &[(1, 1.0)])],
    )
);

case!(
    groups_listed_unlisted_and_implicit,
    desired(
        vec![Circuit {
            replica_groups: vec![group(1, 75.0), group(2, 25.0), group(3, 0.0)],
            ..circuit(
                1,
                1,
                vec![
                    in_group(route(1, 1.0), 1),
                    in_group(route(2, 1.0), 1),
                    in_group(route(3, 1.0), 2),
                    in_group(route(4, 1.0), 3),
                    in_group(route(5, 1.0), 9),
                    route(6, 1.0),
                ],
            )
        }],
        vec![publication("m", &[], &[(1, 1.0)])],
    )
);

case!(
    empty_group_gives_its_share_to_its_siblings,
    desired(
        vec![Circuit {
            replica_groups: vec![group(1, 75.0), group(2, 25.0)],
            ..circuit(1, 1, vec![in_group(route(1, 0.0), 1), in_group(route(2, 1.0), 2)])
        }],
        vec![publication("m", &[], &[(1, 1.0)])],
    )
);

case!(
    weights_are_rounded_and_clamped,
    desired(
        vec![circuit(
            1,
            1,
            [1e-9, 0.004, 0.015, 0.125, 1.0, 9.994, 10.0, 1e308]
                .into_iter()
                .zip(1..)
                .map(|(ratio, n)| route(n, ratio))
                .collect()
        )],
        vec![publication("m", &[], &[(1, 1.0)])],
    )
);

case!(
    product_too_small_for_a_number,
    desired(vec![circuit(1, 1, vec![route(1, 1e-200), route(2, 1.0)])], vec![publication("m", &[], &[(1, 1e-200)])])
);

case!(
    only_http_inference_with_an_endpoint,
    desired(
        vec![
            Circuit { app_mode: AppMode::Interactive, ..circuit(1, 1, vec![route(1, 1.0)]) },
            Circuit { endpoint_id: None, ..circuit(2, 1, vec![route(2, 1.0)]) },
            circuit(3, 1, vec![Route { protocol: Protocol::Other, ..route(3, 1.0) }, route(4, 1.0)]),
            Circuit { runtime_variant: None, ..circuit(4, 1, vec![route(5, 1.0)]) },
        ],
        vec![publication("m", &[], &[(1, 1.0)])],
    )
);

case!(
    aliases_of_several_publications_unite,
    desired(
        vec![circuit(1, 1, vec![route(1, 1.0)])],
        vec![publication("b", &["b2"], &[(1, 1.0)]), publication("a", &["a2", "b"], &[(1, 1.0)])],
    )
);

case!(
    contested_name_is_parted_equally,
    desired(
        vec![
            circuit(1, 1, vec![route(1, 1.0)]),
            circuit(2, 2, vec![route(2, 1.0)]),
            circuit(3, 3, vec![route(3, 1.0)])
        ],
        vec![
            publication("x", &["chat"], &[(1, 300.0), (2, 100.0)]),
            publication("y", &["chat"], &[(2, 1.0), (3, 1.0)]),
            publication("z", &["chat"], &[]),
        ],
    )
);

case!(
    two_circuits_of_one_endpoint,
    desired(
        vec![
            circuit(1, 1, vec![route(1, 1.0), route(2, 1.0)]),
            circuit(2, 1, vec![route(3, 2.0)]),
            circuit(3, 2, vec![route(4, 1.0)])
        ],
        vec![publication("m", &[], &[(1, 1.0), (2, 1.0)])],
    )
);

#[test]
fn circuits_first_or_publications_first_is_one_result() {
    let circuits = vec![circuit(1, 1, vec![route(1, 1.0)]), circuit(2, 2, vec![route(2, 0.5)])];
    let publications = vec![publication("m", &["alias"], &[(1, 7.0), (2, 3.0)]), publication("n", &[], &[(2, 1.0)])];
    let mut circuits_first = desired(circuits.clone(), vec![]);
    publications.iter().cloned().for_each(|one| assert!(circuits_first.upsert_publication(one)));
    let mut publications_first = desired(vec![], publications);
    circuits.into_iter().rev().for_each(|one| assert!(publications_first.upsert_circuit(one)));
    let first = serde_json::to_string(&seen(&circuits_first)).unwrap();
    assert_eq!(first, serde_json::to_string(&seen(&publications_first)).unwrap());
    assert_eq!(circuits_first.digest(), publications_first.digest());
    insta::assert_json_snapshot!("circuits_first_or_publications_first", seen(&publications_first));
}

#[test]
fn keys_of_one_hash_are_reported_without_it() {
    let mut desired = desired(vec![], vec![]);
    desired.upsert_key(key("key-b", 0xAB, &[]));
    desired.upsert_key(key("key-a", 0xAB, &[]));
    desired.upsert_key(key("key-c", 0xCD, &[]));
    insta::assert_json_snapshot!("keys_of_one_hash", seen(&desired));
    assert!(!format!("{desired:?}").contains("abab"));
}
