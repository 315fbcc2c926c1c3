//! The serving view kept step by step equals the one made whole, after any history (worker-protocol 6, 9).

#![allow(clippy::unwrap_used, reason = "a test may fail so")]

mod states;

use std::collections::BTreeMap;
use std::sync::Arc;

use appproxy_core::desired::{Backend, Desired, Rules, StateReport, reconcile};
use appproxy_core::exchange::selection::Selection;
use appproxy_core::serving::{ChangeSet, Generation, ModelPool, Serving, ServingSettings, ServingView};
use appproxy_core::wire::circuit::{AppMode, Circuit, Protocol};
use appproxy_core::wire::ids::KeyId;
use appproxy_core::wire::key::{ApiKey, TokenHash};
use appproxy_core::wire::publication::Publication;
use proptest::prelude::*;

use states::{circuit, circuit_id, desired, group, in_group, key, publication, route};

/// One edit, as an event or a pull makes it.
#[derive(Debug, Clone)]
enum Edit {
    Circuit(Circuit),
    NoCircuit(u128),
    Publication(Publication),
    NoPublication(&'static str),
    Key(ApiKey),
    NoKey(&'static str),
    Pull(Vec<Circuit>, Vec<Publication>, Vec<ApiKey>),
    Update,
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const KEYS: [&str; 3] = ["k1", "k2", "k3"];

fn any_ratio() -> impl Strategy<Value = f64> {
    prop_oneof![Just(1.0), Just(0.0), Just(0.3), Just(7.0), Just(-1.0), Just(f64::NAN), Just(1e308), Just(1e-320)]
}

fn any_circuit() -> impl Strategy<Value = Circuit> {
    let routes = proptest::collection::vec((0..6_u128, any_ratio(), 0..4_u128), 0..4);
    let groups = proptest::collection::vec((1..3_u128, any_ratio()), 0..3);
    (0..4_u128, 0..3_u128, routes, groups, 0..8_u8).prop_map(|(id, endpoint, routes, groups, odd)| {
        let routes = routes.into_iter().map(|(n, ratio, group)| match group {
            0 => route(n, ratio),
            group => in_group(route(n, ratio), group),
        });
        let mut circuit = circuit(id, endpoint, routes.collect());
        circuit.replica_groups = groups.into_iter().map(|(id, weight)| group(id, weight)).collect();
        match odd {
            0 => circuit.endpoint_id = None,
            1 => circuit.app_mode = AppMode::Interactive,
            _ => (),
        }
        circuit
    })
}

fn any_publication() -> impl Strategy<Value = Publication> {
    let aliases = proptest::collection::vec(proptest::sample::select(&NAMES[..]), 0..3);
    let mappings = proptest::collection::vec((0..3_u128, any_ratio()), 0..4);
    (proptest::sample::select(&NAMES[..]), aliases, mappings)
        .prop_map(|(model, aliases, mappings)| publication(model, &aliases, &mappings))
}

fn any_key() -> impl Strategy<Value = ApiKey> {
    let allowed = proptest::collection::vec(proptest::sample::select(&NAMES[..]), 0..3);
    let addresses =
        proptest::option::of(proptest::collection::vec(proptest::sample::select(&["10.0.0.1", "bad", ""][..]), 0..3));
    (proptest::sample::select(&KEYS[..]), 0..3_u8, allowed, addresses).prop_map(|(id, hash, allowed, addresses)| {
        ApiKey {
            allowed_client_ips: addresses.map(|entries| entries.into_iter().map(str::to_owned).collect()),
            ..key(id, hash, &allowed)
        }
    })
}

fn any_edit() -> impl Strategy<Value = Edit> {
    let many = (
        proptest::collection::vec(any_circuit(), 0..4),
        proptest::collection::vec(any_publication(), 0..4),
        proptest::collection::vec(any_key(), 0..4),
    );
    prop_oneof![
        6 => any_circuit().prop_map(Edit::Circuit),
        2 => (0..4_u128).prop_map(Edit::NoCircuit),
        4 => any_publication().prop_map(Edit::Publication),
        2 => proptest::sample::select(&NAMES[..]).prop_map(Edit::NoPublication),
        3 => any_key().prop_map(Edit::Key),
        2 => proptest::sample::select(&KEYS[..]).prop_map(Edit::NoKey),
        1 => many.prop_map(|(circuits, publications, keys)| Edit::Pull(circuits, publications, keys)),
        5 => Just(Edit::Update),
    ]
}

fn apply(desired: &mut Desired, edit: Edit) {
    match edit {
        Edit::Circuit(circuit) => {
            desired.upsert_circuit(circuit);
        }
        Edit::NoCircuit(number) => {
            desired.remove_circuit(circuit_id(number));
        }
        Edit::Publication(publication) => {
            desired.upsert_publication(publication);
        }
        Edit::NoPublication(model) => {
            desired.remove_publication(model);
        }
        Edit::Key(key) => {
            desired.upsert_key(key);
        }
        Edit::NoKey(id) => {
            desired.remove_key(&KeyId::from(id));
        }
        Edit::Pull(circuits, publications, keys) => {
            desired.replace_circuits(circuits.into_iter().map(|one| (one.id, one)).collect());
            desired.replace_publications(publications.into_iter().map(|one| (one.model.clone(), one)).collect());
            desired.replace_keys(keys.into_iter().map(|one| (one.key_id.clone(), one)).collect());
        }
        Edit::Update => (),
    }
}

fn router() -> Serving {
    Serving::new(&ServingSettings { rules: Rules::Router, ..ServingSettings::default() })
}

type Backends = BTreeMap<Arc<str>, Backend>;
type Pools = BTreeMap<Arc<str>, ModelPool>;

fn backends(view: &ServingView) -> Backends {
    view.backends().map(|one| (one.name.clone(), (**one).clone())).collect()
}

fn pools(view: &ServingView) -> Pools {
    view.published().map(|(name, pool)| (name.clone(), (**pool).clone())).collect()
}

/// The state made whole: a fresh desired state given the final contents in another order, a fresh serving state.
fn rebuilt(desired: &Desired) -> (Desired, Serving) {
    let mut fresh = Desired::new("worker01");
    desired.keys().values().rev().cloned().for_each(|key| {
        fresh.upsert_key(key);
    });
    desired.publications().values().rev().for_each(|one| {
        fresh.upsert_publication((**one).clone());
    });
    desired.circuits().values().rev().cloned().for_each(|one| {
        fresh.upsert_circuit(one);
    });
    if desired.keys_loaded() {
        fresh.replace_keys(desired.keys().clone());
    }
    let mut serving = router();
    let touched = fresh.take_touched();
    let _ = serving.update(&fresh, &touched);
    (fresh, serving)
}

/// What a change set should say, worked out from the outside.
fn difference(before: &ServingView, after: &ServingView) -> ChangeSet {
    let (old, new) = (backends(before), backends(after));
    let (old_pools, new_pools) = (pools(before), pools(after));
    let names = old_pools.keys().chain(new_pools.keys()).filter(|name| old_pools.get(*name) != new_pools.get(*name));
    let mut changes = ChangeSet {
        added: new.keys().filter(|name| !old.contains_key(*name)).cloned().collect(),
        removed: old.keys().filter(|name| !new.contains_key(*name)).cloned().collect(),
        updated: new
            .iter()
            .filter(|(name, one)| old.get(*name).is_some_and(|held| held != *one))
            .map(|(name, _)| name.clone())
            .collect(),
        names: names.cloned().collect(),
        ..ChangeSet::default()
    };
    changes.names.sort();
    changes.names.dedup();
    changes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn step_by_step_equals_whole(edits in proptest::collection::vec(any_edit(), 0..30)) {
        let (mut desired, mut serving) = (Desired::new("worker01"), router());
        let mut reported: Vec<StateReport> = Vec::new();
        for edit in edits.into_iter().chain([Edit::Update]) {
            let update = matches!(edit, Edit::Update);
            apply(&mut desired, edit);
            if !update {
                continue;
            }
            let before = serving.view().clone();
            let touched = desired.take_touched();
            match serving.update(&desired, &touched) {
                None => prop_assert_eq!(before.generation, serving.view().generation),
                Some(update) => {
                    prop_assert_eq!(update.view.generation, Generation(before.generation.0 + 1));
                    prop_assert_eq!(ChangeSet { keys: 0, ..update.changes }, difference(&before, &update.view));
                    reported.extend(update.reports);
                }
            }
            let view = serving.view();
            let (fresh, whole) = rebuilt(&desired);
            prop_assert_eq!(desired.digest(), fresh.digest());
            prop_assert_eq!(view.digest(), fresh.digest());
            prop_assert_eq!(view.counts(), whole.view().counts());
            prop_assert_eq!(view.keys_loaded(), whole.view().keys_loaded());
            prop_assert_eq!(backends(view), backends(whole.view()));
            prop_assert_eq!(pools(view), pools(whole.view()));
            let reconciled = reconcile(&desired, Rules::Router);
            prop_assert_eq!(backends(view), reconciled.backends);
            prop_assert!(serving.reports().eq(whole.reports()));
            prop_assert!(serving.reports().all(|report| reported.contains(report)));
            let standing: Vec<_> = serving.reports().filter(|one| !matches!(one, StateReport::AddressesRejected { .. })).collect();
            prop_assert_eq!(standing.len(), reconciled.reports.len());
            prop_assert!(reconciled.reports.iter().all(|report| standing.contains(&report)));
            for hash in 0..3 {
                let hash = TokenHash([hash; 32]);
                prop_assert_eq!(view.keys_by_hash(&hash), whole.view().keys_by_hash(&hash));
                let held: Vec<_> = view.keys_by_hash(&hash).iter().map(|record| record.key_id().clone()).collect();
                let wanted: Vec<_> = desired.keys().values().filter(|key| key.token_hash == hash).map(|key| key.key_id.clone()).collect();
                prop_assert_eq!(held, wanted);
            }
            for (name, backend) in backends(view) {
                prop_assert_eq!(view.backend(&name).map(|one| &**one), Some(&backend));
            }
        }
    }

    #[test]
    fn the_digest_tells_states_apart(edits in proptest::collection::vec(any_edit(), 0..12), more in any_edit()) {
        let mut desired = Desired::new("worker01");
        edits.into_iter().for_each(|edit| apply(&mut desired, edit));
        let mut other = desired.clone();
        apply(&mut other, more);
        let same = (desired.circuits(), desired.publications(), desired.keys()) == (other.circuits(), other.publications(), other.keys());
        // Equal states have equal digests; unequal ones may (ratios that count as 0 are one), mostly they do not.
        prop_assert!(!same || desired.digest() == other.digest());
    }
}

#[test]
fn the_digest_sees_every_kind_of_change_and_not_the_order() {
    let base = || {
        desired(
            vec![circuit(1, 1, vec![route(1, 1.0), route(2, 1.0)])],
            vec![publication("m", &["x", "y"], &[(1, 1.0)])],
        )
    };
    let with = |edit: &dyn Fn(&mut Desired)| {
        let mut state = base();
        edit(&mut state);
        state.digest()
    };
    let plain = base().digest();
    assert_eq!(
        plain,
        with(&|state| {
            state.upsert_publication(publication("m", &["y", "x"], &[(1, 1.0)]));
        })
    );
    assert_eq!(
        plain,
        with(&|state| {
            state.upsert_circuit(circuit(1, 1, vec![route(2, 1.0), route(1, 1.0)]));
        })
    );
    let different = [
        with(&|state| {
            state.upsert_publication(publication("m", &["x", "y"], &[(1, 2.0)]));
        }),
        with(&|state| {
            state.upsert_publication(publication("m", &["x"], &[(1, 1.0)]));
        }),
        with(&|state| {
            state.upsert_circuit(circuit(1, 1, vec![route(1, 1.0)]));
        }),
        with(&|state| {
            state.upsert_circuit(Circuit {
                protocol: Protocol::Other,
                ..circuit(1, 1, vec![route(1, 1.0), route(2, 1.0)])
            });
        }),
        with(&|state| {
            state.upsert_circuit(Circuit {
                replica_groups: vec![group(1, 0.5)],
                ..circuit(1, 1, vec![route(1, 1.0), route(2, 1.0)])
            });
        }),
        with(&|state| {
            state.upsert_circuit(Circuit {
                replica_groups: vec![group(1, 2.0)],
                ..circuit(1, 1, vec![route(1, 1.0), route(2, 1.0)])
            });
        }),
        with(&|state| {
            state.upsert_key(key("k", 1, &[]));
        }),
        with(&|state| {
            state.upsert_key(key("k", 2, &[]));
        }),
        with(&|state| {
            state.upsert_key(ApiKey { rate_limit: None, ..key("k", 1, &[]) });
        }),
        with(&|state| {
            state.remove_circuit(circuit_id(1));
        }),
    ];
    let all: std::collections::BTreeSet<String> = different.iter().chain([&plain]).map(ToString::to_string).collect();
    assert_eq!(all.len(), different.len() + 1);
    // Nodes of different authorities cannot compare hashes with each other.
    let of = |authority: &str| {
        let mut state = Desired::new(authority);
        state.upsert_key(key("k", 1, &[]));
        state.digest()
    };
    assert_ne!(of("worker01"), of("worker02"));
}

#[test]
fn nothing_new_is_no_view() {
    let mut state = desired(vec![circuit(1, 1, vec![route(1, 1.0)])], vec![publication("m", &[], &[(1, 1.0)])]);
    let mut serving = router();
    let touched = state.take_touched();
    assert!(!touched.is_empty() && serving.update(&state, &touched).is_some());
    assert!(!state.upsert_circuit(circuit(1, 1, vec![route(1, 1.0)])));
    let touched = state.take_touched();
    assert!(touched.is_empty());
    assert!(serving.update(&state, &touched).is_none());
    // There and back again between two updates.
    state.remove_publication("m");
    state.upsert_publication(publication("m", &[], &[(1, 1.0)]));
    let touched = state.take_touched();
    assert!(serving.update(&state, &touched).is_none());
    // The first key set, though empty, opens the gate.
    assert!(!serving.view().keys_loaded());
    state.replace_keys(BTreeMap::new());
    let touched = state.take_touched();
    assert!(serving.update(&state, &touched).is_some_and(|update| update.view.keys_loaded()));
    state.replace_keys(BTreeMap::new());
    assert!(state.take_touched().is_empty());
}

#[test]
fn an_old_view_never_changes() {
    let mut state = desired(vec![circuit(1, 1, vec![route(1, 1.0)])], vec![publication("m", &[], &[(1, 1.0)])]);
    state.upsert_key(key("k", 1, &[]));
    let mut serving = router();
    let touched = state.take_touched();
    let old = serving.update(&state, &touched).unwrap().view;
    let before = (backends(&old), pools(&old), old.keys().len());
    state.remove_circuit(circuit_id(1));
    state.remove_publication("m");
    state.remove_key(&KeyId::from("k"));
    let touched = state.take_touched();
    let new = serving.update(&state, &touched).unwrap();
    assert_eq!(before, (backends(&old), pools(&old), old.keys().len()));
    assert_eq!((backends(&new.view).len(), pools(&new.view).len(), new.view.keys().len()), (0, 0, 0));
    assert_eq!(new.changes.keys, 1);
    assert_eq!(new.changes.removed.len(), 1);
}

#[test]
fn pools_no_longer_there_are_forgotten() {
    let mut state = desired(vec![circuit(1, 1, vec![route(1, 1.0)])], vec![]);
    let (mut serving, mut selection) = (router(), Selection::new());
    for round in 0..50 {
        let name = format!("m{round}");
        state.upsert_publication(publication(&name, &["alias"], &[(1, 1.0)]));
        let touched = state.take_touched();
        let view = serving.update(&state, &touched).unwrap().view;
        selection.forget_absent(&view);
        // Primary and alias are one pool.
        assert!(selection.pick(view.model(&name).unwrap(), &[]).is_some());
        assert!(selection.pick(view.model("alias").unwrap(), &[]).is_some());
        assert!(selection.pools() <= 3, "{}", selection.pools());
        state.remove_publication(&name);
    }
}

#[test]
fn a_name_is_contested_while_several_claim_it() {
    let claims = |model| publication(model, &["x"], &[]);
    let mut state = desired(vec![], vec![claims("a"), claims("b"), claims("c")]);
    for (gone, contested) in [("none", true), ("a", true), ("b", false), ("c", false)] {
        state.remove_publication(gone);
        assert_eq!(state.contested("x"), contested, "after {gone} went");
    }
}
