//! The registry kept step by step equals the one made whole, after any history.

use std::collections::BTreeMap;
use std::sync::Arc;

use appproxy_core::desired::{Backend, Desired, Learned, Rules, StateReport, reconcile};
use appproxy_core::serving::{ProbeSign, ServedCircuit, Serving, ServingSettings, ServingView};
use appproxy_core::time::Moment;
use appproxy_core::wire::circuit::Circuit;
use appproxy_core::wire::ids::CircuitId;
use proptest::prelude::*;

use crate::states::{circuit, circuit_id, endpoint_id, route};

#[derive(Debug, Clone)]
enum Edit {
    /// By an event.
    Circuit(Circuit),
    NoCircuit(u128),
    Pull(Vec<Circuit>),
    Learn(u128, Option<Learned>),
    /// What a probe of the n-th backend says.
    Probe(usize, ProbeSign),
    Update,
}

const LABELS: [&str; 3] = ["a", "b", "c"];
const MODELS: [&str; 4] = ["m", "n", "o", "p"];

fn any_circuit() -> impl Strategy<Value = Circuit> {
    let routes = proptest::collection::vec((0..6_u128, prop_oneof![Just(1.0), Just(0.0), Just(3.0)]), 0..4);
    let label = proptest::option::of(proptest::sample::select(&LABELS[..]));
    let ips = proptest::option::of(proptest::sample::select(&["10.0.0.0/8", "office", ""][..]));
    (0..5_u128, 0..3_u128, routes, label, ips, any::<bool>(), 0..8_u8, 0..3_u8).prop_map(
        |(id, endpoint, routes, label, ips, public, odd, day)| {
            let routes = routes.into_iter().map(|(number, ratio)| route(number, ratio)).collect();
            let mut circuit = circuit(id, endpoint, routes);
            circuit.subdomain = label.map(str::to_owned);
            circuit.allowed_client_ips = ips.map(str::to_owned);
            circuit.open_to_public = public;
            circuit.created_at = Some(format!("2026-11-0{day}"));
            if odd == 0 {
                circuit.endpoint_id = None;
            }
            circuit
        },
    )
}

fn any_list() -> impl Strategy<Value = Vec<Arc<str>>> {
    proptest::collection::vec(proptest::sample::select(&MODELS[..]).prop_map(Arc::from), 1..4)
}

fn any_edit() -> impl Strategy<Value = Edit> {
    let learned = prop_oneof![
        3 => any_list().prop_map(Learned::of_list),
        1 => Just(Some(Learned::Opaque)),
        1 => Just(None),
    ];
    let sign = prop_oneof![
        2 => any_list().prop_map(|mut names| { names.dedup(); ProbeSign::Good(Some(names.into())) }),
        1 => Just(ProbeSign::Bad),
        1 => Just(ProbeSign::Unavailable),
    ];
    prop_oneof![
        5 => any_circuit().prop_map(Edit::Circuit),
        2 => (0..5_u128).prop_map(Edit::NoCircuit),
        1 => proptest::collection::vec(any_circuit(), 0..4).prop_map(Edit::Pull),
        4 => (0..3_u128, learned).prop_map(|(endpoint, learned)| Edit::Learn(endpoint, learned)),
        3 => (0..8_usize, sign).prop_map(|(at, sign)| Edit::Probe(at, sign)),
        5 => Just(Edit::Update),
    ]
}

fn apply(desired: &mut Desired, serving: &mut Serving, edit: Edit) {
    match edit {
        Edit::Circuit(circuit) => {
            let id = circuit.id;
            desired.upsert_circuit(circuit);
            desired.note_arrival(id);
        }
        Edit::NoCircuit(number) => {
            desired.remove_circuit(circuit_id(number));
        }
        Edit::Pull(circuits) => {
            desired.replace_circuits(circuits.into_iter().map(|one| (one.id, one)).collect());
            desired.settle_arrivals(|_| false);
        }
        Edit::Learn(endpoint, learned) => {
            desired.learn(endpoint_id(endpoint), learned);
        }
        Edit::Probe(at, sign) => {
            let name = serving.view().backends().nth(at).map(|backend| backend.name.clone());
            if let Some(name) = name {
                serving.take_sign(&name, sign, Moment::START);
            }
        }
        Edit::Update => {}
    }
}

#[derive(Debug, PartialEq)]
struct Seen {
    circuits: BTreeMap<CircuitId, ServedCircuit>,
    sub_domains: BTreeMap<Arc<str>, CircuitId>,
    models: BTreeMap<Arc<str>, Vec<CircuitId>>,
    backends: Vec<Backend>,
}

fn seen(view: &ServingView) -> Seen {
    let registry = view.registry();
    Seen {
        circuits: registry.circuits().map(|one| (one.id, (**one).clone())).collect(),
        sub_domains: registry.sub_domains().map(|(label, id)| (label.clone(), *id)).collect(),
        models: registry
            .models()
            .map(|name| (name.clone(), registry.serving(name).map(|one| one.id).collect()))
            .collect(),
        backends: view.backends().map(|one| (**one).clone()).collect(),
    }
}

/// What the registry should be, said anew in a few words.
fn check(desired: &Desired, view: &ServingView) -> Result<(), TestCaseError> {
    let registry = view.registry();
    for circuit in desired.circuits().values() {
        let served = registry.circuit(circuit.id);
        prop_assert_eq!(served.is_some(), circuit.routable().is_some());
        let Some(served) = served else { continue };
        prop_assert_eq!(served.open_to_public, circuit.open_to_public);
        let in_place =
            circuit.subdomain.as_deref().is_none_or(|label| registry.at(label).is_some_and(|one| one.id == circuit.id));
        for name in served.models() {
            prop_assert_eq!(registry.serving(name).any(|one| one.id == circuit.id), in_place);
        }
        let own = format!("appproxy-{}-", circuit.id);
        prop_assert!(served.pool.candidates().all(|candidate| candidate.backend.name.starts_with(&own)));
    }
    prop_assert_eq!(
        registry.circuits().count(),
        desired.circuits().values().filter(|one| one.routable().is_some()).count()
    );
    let counts = view.counts().registry.unwrap_or_default();
    prop_assert_eq!(counts.known + counts.opaque + counts.held, registry.circuits().count());
    prop_assert_eq!((counts.sub_domains, counts.models), (registry.sub_domains().count(), registry.models().count()));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn step_by_step_equals_whole(edits in proptest::collection::vec(any_edit(), 0..40)) {
        let settings = ServingSettings { rules: Rules::Legacy, ..ServingSettings::default() };
        let (mut desired, mut serving) = (Desired::new("here"), Serving::new(&settings));
        for edit in edits.into_iter().chain([Edit::Update]) {
            let update = matches!(edit, Edit::Update | Edit::Probe(..));
            apply(&mut desired, &mut serving, edit);
            if !update {
                continue;
            }
            let before = serving.view().clone();
            let touched = desired.take_touched();
            let changed = serving.update(&desired, &touched);
            let view = serving.view();
            let whole = serving.rebuilt(&desired);
            prop_assert_eq!(seen(view), seen(whole.view()));
            prop_assert_eq!(view.counts(), whole.view().counts());
            prop_assert!(serving.reports().eq(whole.reports()));
            check(&desired, view)?;
            let differs = seen(&before) != seen(view) || before.digest() != view.digest() || before.counts() != view.counts();
            prop_assert!(changed.is_some() || !differs, "a change was not told");
            if let Some(update) = changed {
                let (old, new) = (seen(&before), seen(view));
                let changed = old.circuits.keys().chain(new.circuits.keys());
                let wanted: std::collections::BTreeSet<_> = changed.filter(|id| old.circuits.get(*id) != new.circuits.get(*id)).collect();
                prop_assert!(wanted.iter().all(|id| update.changes.circuits.contains(id)));
                let names = old.models.keys().chain(new.models.keys());
                let wanted: std::collections::BTreeSet<_> = names.filter(|name| old.models.contains_key(*name) != new.models.contains_key(*name)).cloned().collect();
                prop_assert_eq!(wanted.into_iter().collect::<Vec<_>>(), update.changes.names);
            }
            let reconciled = reconcile(&desired, Rules::Legacy);
            // But for what probes teach.
            let plain = |one: &Backend| Backend { served_names: Arc::default(), ..one.clone() };
            prop_assert!(view.backends().map(|one| plain(one)).eq(reconciled.backends.values().map(plain)));
            let said: Vec<_> = serving.reports().filter(|one| !matches!(one, StateReport::CircuitAddressesRejected { .. })).cloned().collect();
            prop_assert_eq!(said.len(), reconciled.reports.len());
            prop_assert!(reconciled.reports.iter().all(|report| said.contains(report)));
        }
    }
}
