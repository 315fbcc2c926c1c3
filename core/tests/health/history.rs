//! Any history of edits, probes, ends and time.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use appproxy_core::desired::BackendKind;
use appproxy_core::serving::{
    AttemptEnd, Health, ModelPool, ProbeSign, Serving, ServingView, StaticBackend, StaticModel,
};
use appproxy_core::wire::circuit::Circuit;
use appproxy_core::wire::publication::Publication;

use crate::stage::{Stage, list, name};
use crate::states::{circuit, circuit_id, desired, group, in_group, publication, route};

#[derive(Debug, Clone)]
enum Step {
    Circuit(Circuit),
    NoCircuit(u128),
    Publication(Publication),
    NoPublication(&'static str),
    Sign(String, ProbeSign),
    End(String, AttemptEnd),
    Broke(String),
    Pass(u64),
}

const NAMES: [&str; 3] = ["a", "b", "c"];
const STATICS: [&str; 3] = ["s1", "s2", "s3"];

fn any_backend() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0..3_u128, 0..5_u128).prop_map(|(circuit, route)| name(circuit, route)),
        1 => proptest::sample::select(&STATICS[..]).prop_map(str::to_owned),
    ]
}

fn any_ratio() -> impl Strategy<Value = f64> {
    prop_oneof![4 => Just(1.0), 1 => Just(0.0), 1 => Just(7.0)]
}

fn any_circuit() -> impl Strategy<Value = Circuit> {
    let routes = proptest::collection::vec((0..5_u128, any_ratio(), 0..3_u128, any::<bool>()), 0..5);
    (0..3_u128, 0..2_u128, routes, any_ratio()).prop_map(|(id, endpoint, routes, weight)| {
        let routes = routes.into_iter().map(|(n, ratio, group, moved)| {
            let mut route = if group == 0 { route(n, ratio) } else { in_group(route(n, ratio), group) };
            route.kernel_port += u16::from(moved);
            route
        });
        let mut circuit = circuit(id, endpoint, routes.collect());
        circuit.replica_groups = vec![group(1, weight)];
        circuit
    })
}

fn any_sign() -> impl Strategy<Value = ProbeSign> {
    prop_oneof![
        3 => Just(ProbeSign::Good(None)),
        1 => proptest::sample::subsequence(&NAMES[..], 1..3).prop_map(|names| list(&names)),
        4 => Just(ProbeSign::Bad),
        2 => Just(ProbeSign::Unavailable),
    ]
}

fn any_end() -> impl Strategy<Value = AttemptEnd> {
    use AttemptEnd::{Abandoned, Answered, Broke, Silent};
    prop_oneof![4 => Just(Broke), 2 => Just(Silent), 1 => Just(Answered(200)), 1 => Just(Answered(404)), 1 => Just(Abandoned)]
}

fn any_step() -> impl Strategy<Value = Step> {
    let mappings = proptest::collection::vec((0..2_u128, any_ratio()), 0..3);
    let aliases = proptest::collection::vec(proptest::sample::select(&NAMES[..]), 0..2);
    let published = (proptest::sample::select(&NAMES[..]), aliases, mappings);
    prop_oneof![
        4 => any_circuit().prop_map(Step::Circuit),
        1 => (0..3_u128).prop_map(Step::NoCircuit),
        5 => published.prop_map(|(model, aliases, mappings)| Step::Publication(publication(model, &aliases, &mappings))),
        3 => proptest::sample::select(&NAMES[..]).prop_map(Step::NoPublication),
        8 => (any_backend(), any_sign()).prop_map(|(backend, sign)| Step::Sign(backend, sign)),
        6 => (any_backend(), any_end()).prop_map(|(backend, end)| Step::End(backend, end)),
        8 => any_backend().prop_map(Step::Broke),
        3 => (0..30_000_u64).prop_map(Step::Pass),
    ]
}

fn statics() -> Vec<StaticBackend> {
    let models: [&[&str]; 3] = [&["s", "t"], &["s"], &[]];
    let backend = |(name, models): (&str, &[&str])| StaticBackend {
        name: name.into(),
        kind: BackendKind::Generic,
        tls: false,
        host: "h".into(),
        port: 1,
        base_path: Arc::default(),
        credential: None,
        weight: 1,
        models: models.iter().map(|name| StaticModel { name: Arc::from(*name), aliases: Vec::new() }).collect(),
        probed: true,
    };
    STATICS.into_iter().zip(models).map(backend).collect()
}

fn take(stage: &mut Stage, step: Step) {
    match step {
        Step::Circuit(circuit) => drop(stage.desired.upsert_circuit(circuit)),
        Step::NoCircuit(number) => drop(stage.desired.remove_circuit(circuit_id(number))),
        Step::Publication(publication) => drop(stage.desired.upsert_publication(publication)),
        Step::NoPublication(model) => drop(stage.desired.remove_publication(model)),
        Step::Sign(backend, sign) => drop(stage.sign(&backend, sign)),
        Step::End(backend, end) => drop(stage.end(&backend, end)),
        Step::Broke(backend) => stage.broke(&backend),
        Step::Pass(millis) => stage.pass(Duration::from_millis(millis)),
    }
    stage.update();
}

fn pools(view: &ServingView) -> BTreeMap<&str, &ModelPool> {
    view.published().chain(view.static_models()).map(|(name, pool)| (&**name, &**pool)).collect()
}

/// The replicas that this model would ask were they not in quarantine.
fn passed_over(pool: &ModelPool) -> impl Iterator<Item = &Arc<str>> {
    let out = pool.candidates().filter(|one| one.health == Health::Quarantined && !one.kept);
    out.map(|one| &one.backend.name)
}

/// What quarantine may take of one model.
fn check_pool(pool: &ModelPool) -> Result<(), TestCaseError> {
    let active: Vec<(Health, bool)> = pool
        .endpoints
        .iter()
        .filter(|share| share.ratio > 0.0)
        .flat_map(|share| share.endpoint.groups.iter().filter(|group| group.traffic_weight > 0.0))
        .flat_map(|group| group.candidates.iter().filter(|candidate| candidate.ratio > 0.0))
        .map(|candidate| (candidate.health, candidate.kept))
        .collect();
    let passed_over = active.iter().filter(|one| **one == (Health::Quarantined, false)).count();
    prop_assert!(passed_over * 2 <= active.len(), "{active:?}");
    let serves = active.iter().any(|(health, kept)| health.serves() || *kept);
    prop_assert!(passed_over == 0 || serves, "{active:?}");
    // None is kept that could be passed over, but to have one that serves.
    let kept = active.iter().filter(|(_, kept)| *kept).count();
    let last = active.iter().filter(|(health, kept)| health.serves() || *kept).count() == 1;
    prop_assert!(kept == 0 || last || (passed_over + 1) * 2 > active.len(), "{active:?}");
    prop_assert!(pool.candidates().all(|one| !one.kept || one.health == Health::Quarantined));
    let sum: f64 = pool.shares().iter().map(|(_, share)| share).sum();
    prop_assert_eq!(pool.can_serve(), serves);
    prop_assert!((sum - f64::from(u8::from(serves))).abs() < 1e-9);
    for ((_, share), candidate) in pool.shares().iter().zip(pool.candidates()) {
        prop_assert!(candidate.serves() || *share == 0.0);
    }
    Ok(())
}

fn check_whole(stage: &Stage) -> Result<(), TestCaseError> {
    let (view, whole): (_, Serving) = (stage.view(), stage.serving.rebuilt(&stage.desired));
    prop_assert_eq!(pools(view), pools(whole.view()));
    prop_assert_eq!(view.counts(), whole.view().counts());
    prop_assert!(view.backends().eq(whole.view().backends()));
    prop_assert!(view.static_backends().eq(whole.view().static_backends()));
    // Health says nothing that the coordinator did not: neither names, nor backends, nor the digest.
    let mut plain = Stage::new(vec![], vec![], statics());
    plain.desired = desired(
        stage.desired.circuits().values().cloned().collect(),
        stage.desired.publications().values().map(|one| (**one).clone()).collect(),
    );
    plain.update();
    prop_assert_eq!(plain.view().digest(), view.digest());
    prop_assert!(plain.view().published().map(|(name, _)| name).eq(view.published().map(|(name, _)| name)));
    prop_assert!(plain.view().backends().map(|one| &one.name).eq(view.backends().map(|one| &one.name)));
    let health = view.counts().health;
    let counted = Health::ALL.map(|state| health.of(state)).iter().sum::<usize>();
    prop_assert_eq!(counted, view.counts().backends + view.counts().static_backends);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn quarantine_keeps_its_bounds_and_step_by_step_equals_whole(steps in proptest::collection::vec(any_step(), 0..60)) {
        let mut stage = Stage::new(vec![], vec![], statics());
        let mut roster = std::collections::BTreeSet::new();
        for step in steps {
            take(&mut stage, step);
            let pools = pools(stage.view());
            for pool in pools.values() {
                check_pool(pool)?;
            }
            // A quarantine that every model keeps is none.
            for one in pools.values().flat_map(|pool| pool.candidates()).filter(|one| one.kept) {
                let name = &one.backend.name;
                let mut places = pools.values().flat_map(|pool| passed_over(pool));
                prop_assert!(places.any(|other| other == name), "{name}");
            }
            // Who is probed is who is there.
            let news = stage.serving.take_roster();
            roster.retain(|name| !news.gone.contains(name));
            roster.extend(news.came);
            let view = stage.view();
            let mut there: Vec<_> = view.backends().chain(view.static_backends()).map(|one| one.name.clone()).collect();
            there.sort();
            prop_assert!(roster.iter().eq(&there));
        }
        check_whole(&stage)?;
    }

    #[test]
    fn whatever_happened_good_answers_and_time_bring_everything_back(steps in proptest::collection::vec(any_step(), 0..60)) {
        let mut stage = Stage::new(vec![], vec![], statics());
        steps.into_iter().for_each(|step| take(&mut stage, step));
        stage.pass(Duration::from_secs(300));
        let view = stage.view().clone();
        for backend in view.backends().chain(view.static_backends()) {
            stage.sign(&backend.name, ProbeSign::Good(None));
            stage.sign(&backend.name, ProbeSign::Good(None));
        }
        let counts = stage.view().counts();
        prop_assert_eq!(counts.health.ready, counts.backends + counts.static_backends);
        prop_assert_eq!(stage.serving.next_release(), None);
    }
}
