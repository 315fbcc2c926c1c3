//! Probes and the view: shares, names, addresses, membership.

use std::sync::Arc;

use appproxy_core::exchange::selection::Selection;
use appproxy_core::serving::{Health, ProbeSign};

use crate::stage::{Stage, list, name};
use crate::states::{circuit, circuit_id, group, in_group, publication, route};

const GOOD: ProbeSign = ProbeSign::Good(None);

#[test]
fn what_does_not_serve_gives_its_share_to_its_siblings_on_every_level() {
    let mut first =
        circuit(1, 1, vec![in_group(route(1, 1.0), 1), in_group(route(2, 3.0), 1), in_group(route(3, 1.0), 2)]);
    first.replica_groups = vec![group(1, 80.0), group(2, 20.0)];
    let second = circuit(2, 2, vec![route(4, 1.0)]);
    let mut stage = Stage::new(vec![first, second], vec![publication("m", &[], &[(1, 0.5), (2, 0.5)])], vec![]);
    assert_eq!(stage.shares("m"), [10, 30, 10, 50]);
    stage.fell(&name(1, 2));
    assert_eq!(stage.shares("m"), [40, 0, 10, 50], "its group");
    stage.fell(&name(1, 1));
    assert_eq!(stage.shares("m"), [0, 0, 50, 50], "its endpoint");
    stage.fell(&name(1, 3));
    assert_eq!(stage.shares("m"), [0, 0, 0, 100], "its model");
    stage.fell(&name(2, 4));
    assert_eq!(stage.shares("m"), [0, 0, 0, 0]);
    assert!(!stage.pool("m").can_serve());
    assert!(Selection::new().pick(&stage.pool("m"), &[]).is_none());
    assert_eq!(stage.pool("m").candidates().count(), 4, "what was published stays");
    for back in [name(1, 1), name(1, 2), name(1, 3), name(2, 4)] {
        stage.sign(&back, GOOD);
        stage.sign(&back, GOOD);
    }
    assert_eq!(stage.shares("m"), [10, 30, 10, 50]);
}

#[test]
fn selection_passes_over_what_does_not_serve() {
    let routes = (1..=3).map(|n| route(n, 1.0)).collect();
    let mut stage = Stage::new(vec![circuit(1, 1, routes)], vec![publication("m", &[], &[(1, 1.0)])], vec![]);
    let mut selection = Selection::new();
    let mut picks = |stage: &Stage, tried: &[Arc<str>]| {
        let picked = (0..30).filter_map(|_| selection.pick(&stage.pool("m"), tried));
        picked.map(|backend| backend.name.to_string()).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(picks(&stage, &[]).len(), 3);
    stage.sign(&name(1, 2), ProbeSign::Unavailable);
    assert_eq!(picks(&stage, &[]).into_iter().collect::<Vec<_>>(), [name(1, 1), name(1, 3)]);
    assert_eq!(picks(&stage, &[name(1, 1).into()]).into_iter().collect::<Vec<_>>(), [name(1, 3)]);
}

#[test]
fn health_changes_neither_the_digest_nor_the_documented_backend() {
    let mut stage = Stage::new(
        vec![circuit(1, 1, vec![route(1, 1.0), route(2, 1.0)])],
        vec![publication("m", &["a"], &[(1, 1.0)])],
        vec![],
    );
    let (digest, backend) = (stage.view().digest(), stage.view().backend(&name(1, 1)).unwrap().clone());
    stage.fell(&name(1, 1));
    assert_eq!(stage.view().digest(), digest);
    assert_eq!(stage.view().backend(&name(1, 1)).unwrap(), &backend);
    assert_eq!(stage.view().published().count(), 2);
    let health = stage.view().counts().health;
    assert_eq!((health.down, health.unknown, health.of(Health::Ready)), (1, 1, 0));
}

#[test]
fn a_view_is_made_only_when_something_differs_and_names_what_does() {
    let circuits = vec![circuit(1, 1, vec![route(1, 1.0)]), circuit(2, 2, vec![route(2, 1.0)])];
    let publications = vec![publication("m", &["a"], &[(1, 1.0)]), publication("n", &[], &[(2, 1.0)])];
    let mut stage = Stage::new(circuits, publications, vec![]);
    let other = stage.pool("n");
    let update = stage.sign(&name(1, 1), GOOD).unwrap();
    assert_eq!(update.changes.names, ["a".into(), "m".into()]);
    assert!(update.changes.added.is_empty() && update.changes.updated.is_empty() && update.changes.removed.is_empty());
    assert!(Arc::ptr_eq(&other, &stage.pool("n")), "the neighbours stay the same object");
    assert!(stage.sign(&name(1, 1), GOOD).is_none());
    assert!(stage.sign(&name(1, 1), ProbeSign::Bad).is_none(), "a doubt alone is nothing to see");
    let update = stage.sign(&name(1, 1), list(&["served"])).unwrap();
    assert_eq!(update.changes.updated, [name(1, 1).into()]);
    assert!(stage.sign(&name(1, 1), list(&["served"])).is_none());
    assert!(stage.sign("appproxy-unknown", GOOD).is_none());
}

#[test]
fn a_list_teaches_what_to_call_the_model() {
    let mut stage =
        Stage::new(vec![circuit(1, 1, vec![route(1, 1.0)])], vec![publication("m", &["lora"], &[(1, 1.0)])], vec![]);
    let own_name = |stage: &Stage, model: &str| {
        let pool = stage.pool(model);
        let backend = &pool.candidates().next().unwrap().backend;
        assert!(Arc::ptr_eq(backend, stage.view().backend(&backend.name).unwrap()));
        backend.own_name(model).map(ToString::to_string)
    };
    assert_eq!(own_name(&stage, "m"), None, "nothing known, nothing changed");
    stage.sign(&name(1, 1), list(&["org/m", "lora"]));
    assert_eq!(own_name(&stage, "m").as_deref(), Some("org/m"));
    assert_eq!(own_name(&stage, "lora"), None, "an adapter it lists");
    // What was learned outlives whatever makes the backend anew.
    stage.desired.upsert_publication(publication("m", &["lora", "x"], &[(1, 0.5)]));
    stage.update();
    assert_eq!(own_name(&stage, "x").as_deref(), Some("org/m"));
    stage.sign(&name(1, 1), list(&["m"]));
    assert_eq!(own_name(&stage, "m"), None);
}

#[test]
fn another_route_at_the_same_address_starts_clean_and_so_does_another_address() {
    let at = |number: u128, host: &str| {
        let mut route = route(number, 1.0);
        route.kernel_host = Some(host.to_owned());
        circuit(1, 1, vec![route])
    };
    let mut stage = Stage::new(vec![at(1, "h")], vec![publication("m", &[], &[(1, 1.0)])], vec![]);
    let roster = stage.serving.take_roster();
    assert!(roster.gone.is_empty() && roster.came.into_iter().eq([name(1, 1).into()]));
    stage.sign(&name(1, 1), list(&["x"]));
    stage.fell(&name(1, 1));
    assert_eq!(stage.health("m").into_values().collect::<Vec<_>>(), [Health::Down]);

    stage.desired.upsert_circuit(at(2, "h"));
    stage.update();
    assert_eq!(stage.health("m"), [(name(1, 2), Health::Unknown)].into());
    assert!(stage.view().backend(&name(1, 2)).unwrap().served_names.is_empty());
    let roster = stage.serving.take_roster();
    assert_eq!((roster.gone, roster.came), ([name(1, 1).into()].into(), [name(1, 2).into()].into()));

    stage.sign(&name(1, 2), list(&["x"]));
    stage.fell(&name(1, 2));
    stage.serving.take_news();
    stage.desired.upsert_circuit(at(2, "elsewhere"));
    stage.update();
    assert_eq!(stage.health("m"), [(name(1, 2), Health::Unknown)].into());
    assert!(stage.view().backend(&name(1, 2)).unwrap().served_names.is_empty());
    let roster = stage.serving.take_roster();
    assert_eq!((roster.gone.len(), roster.came.len()), (1, 1), "it is probed anew");
    let news = stage.serving.take_news();
    assert_eq!((news.len(), news[0].to, &*news[0].why), (1, Health::Unknown, "moved"));
    assert_eq!(stage.view().counts().health.unknown, 1);
}

#[test]
fn a_route_update_keeps_what_is_known_of_those_that_stay() {
    let of = |numbers: &[u128]| circuit(1, 1, numbers.iter().map(|n| route(*n, 1.0)).collect());
    let mut stage = Stage::new(vec![of(&[1, 2])], vec![publication("m", &[], &[(1, 1.0)])], vec![]);
    stage.fell(&name(1, 1));
    stage.desired.upsert_circuit(of(&[1, 3]));
    stage.update();
    assert_eq!(stage.health("m"), [(name(1, 1), Health::Down), (name(1, 3), Health::Unknown)].into());
    stage.desired.remove_circuit(circuit_id(1));
    stage.update();
    assert_eq!(stage.view().counts().health, Default::default());
    stage.desired.upsert_circuit(of(&[1]));
    stage.update();
    assert_eq!(stage.health("m"), [(name(1, 1), Health::Unknown)].into());
    // Came, went and came between two looks: probed once.
    assert_eq!(stage.serving.take_roster().came.len(), 1);
}
