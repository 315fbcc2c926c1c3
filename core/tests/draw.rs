//! The nested draw, held against exact rational arithmetic (worker-protocol 6.1; known trap H3).

#![allow(clippy::unwrap_used, reason = "a test may fail so")]
#![allow(clippy::disallowed_methods, reason = "threads share a picker as they do in a shell")]

use std::collections::BTreeMap;
use std::sync::Arc;

use appproxy_core::desired::{Backend, BackendKind};
use appproxy_core::exchange::selection::Selection;
use appproxy_core::serving::{
    Candidate, EndpointKey, EndpointPool, EndpointShare, GroupKey, GroupPool, Health, ModelPool, PoolKey,
    RoutingWeights,
};
use appproxy_core::wire::ids::{EndpointId, GroupId};
use proptest::prelude::*;
use uuid::Uuid;

/// The longest window the bound is promised for. A run of this length holds every shorter window.
const WINDOW: usize = 10_000;

/// An endpoint in whole numbers: its ratio, and its groups as weight and replica ratios.
type Endpoint = (u32, Vec<(u32, Vec<u32>)>);

fn backend(name: String, weight: u32) -> Arc<Backend> {
    Arc::new(Backend {
        name: name.into(),
        kind: BackendKind::Generic,
        tls: false,
        host: "replica".into(),
        port: 8000,
        base_path: "".into(),
        weight,
        models: Arc::from([]),
        served_names: Arc::from([]),
        aliases: Arc::from([]),
        credential: None,
    })
}

/// Names say where a replica belongs: `endpoint/group/replica`.
fn pool(endpoints: &[Endpoint], weights: RoutingWeights, scale: f64) -> ModelPool {
    let shares = endpoints.iter().enumerate().map(|(e, (ratio, groups))| {
        let groups = groups.iter().enumerate().map(|(g, (weight, replicas))| GroupPool {
            key: GroupKey::Listed(GroupId(Uuid::from_u128(g as u128))),
            traffic_weight: f64::from(*weight),
            candidates: replicas
                .iter()
                .enumerate()
                .map(|(r, part)| {
                    let composed = (f64::from(*ratio) * f64::from(*part)).round().clamp(1.0, 1000.0);
                    let backend = backend(format!("{e}/{g}/{r}"), composed as u32);
                    Candidate { backend, ratio: f64::from(*part) * scale, health: Health::Unknown, kept: false }
                })
                .collect(),
        });
        let key = EndpointKey::Deployment(EndpointId(Uuid::from_u128(e as u128)));
        let endpoint = Arc::new(EndpointPool { key, groups: groups.collect() });
        EndpointShare { ratio: f64::from(*ratio) * scale, endpoint }
    });
    ModelPool {
        key: PoolKey::Publication("m".into()),
        weights,
        endpoints: shares.collect(),
        no_circuit: Box::default(),
    }
}

/// How far one share strays: the largest and smallest of `picks - n * share`, in units of `1 / whole`.
struct Stray {
    part: i128,
    whole: i128,
    picks: i128,
    low: i128,
    high: i128,
}

impl Stray {
    fn new(part: i128, whole: i128) -> Self {
        Self { part, whole, picks: 0, low: 0, high: 0 }
    }

    fn look(&mut self, n: usize) {
        let stray = self.picks * self.whole - n as i128 * self.part;
        self.low = self.low.min(stray);
        self.high = self.high.max(stray);
    }

    /// Picked as request `n`, counted from 1. Between its picks a share only sinks, so its ends are here.
    fn pick(&mut self, n: usize) {
        self.look(n - 1);
        self.picks += 1;
        self.look(n);
    }

    /// The largest error of any window.
    fn window_error(&self) -> f64 {
        (self.high - self.low) as f64 / self.whole as f64
    }
}

/// The largest window errors over a run: of endpoints and of replicas. `between` may pick for further attempts.
fn errors(endpoints: &[Endpoint], pool: &ModelPool, mut between: impl FnMut(&mut Selection, usize)) -> (f64, f64) {
    let (mut selection, mut n) = (Selection::new(), 0);
    errors_over(endpoints, WINDOW, || {
        if n > 0 {
            between(&mut selection, n);
        }
        n += 1;
        selection.pick(pool, &[]).expect("something can serve").name.clone()
    })
}

/// The same over so many picks as `pick` gives them.
fn errors_over(endpoints: &[Endpoint], picks: usize, mut pick: impl FnMut() -> Arc<str>) -> (f64, f64) {
    let all: i128 = endpoints.iter().map(|(ratio, _)| i128::from(*ratio)).sum();
    let mut by_endpoint = Vec::new();
    let mut by_replica = BTreeMap::new();
    for (e, (ratio, groups)) in endpoints.iter().enumerate() {
        by_endpoint.push(Stray::new(i128::from(*ratio), all));
        let group_sum: i128 = groups.iter().map(|(weight, _)| i128::from(*weight)).sum();
        for (g, (weight, replicas)) in groups.iter().enumerate() {
            let replica_sum: i128 = replicas.iter().map(|part| i128::from(*part)).sum();
            for (r, part) in replicas.iter().enumerate() {
                let part = i128::from(*ratio) * i128::from(*weight) * i128::from(*part);
                by_replica.insert(format!("{e}/{g}/{r}"), Stray::new(part, all * group_sum * replica_sum));
            }
        }
    }
    for n in 1..=picks {
        let picked = pick();
        let endpoint: usize = picked.split('/').next().unwrap().parse().unwrap();
        by_endpoint[endpoint].pick(n);
        by_replica.get_mut(&*picked).unwrap().pick(n);
    }
    let worst = |strays: &mut dyn Iterator<Item = &mut Stray>| {
        strays.fold(0.0, |worst: f64, stray| {
            stray.look(picks);
            worst.max(stray.window_error())
        })
    };
    (worst(&mut by_endpoint.iter_mut()), worst(&mut by_replica.values_mut()))
}

fn small() -> impl Strategy<Value = u32> {
    prop_oneof![3 => 1..=10_u32, 2 => 1..=1_000_u32, 1 => 1..=1_000_000_u32]
}

/// Up to 50 endpoints of up to 50 replicas, in one group.
fn plain_endpoints() -> impl Strategy<Value = Vec<Endpoint>> {
    let replicas = proptest::collection::vec(small(), 1..=50);
    proptest::collection::vec((small(), replicas.prop_map(|replicas| vec![(100, replicas)])), 1..=50)
}

fn grouped_endpoints() -> impl Strategy<Value = Vec<Endpoint>> {
    let replicas = proptest::collection::vec(small(), 1..=8);
    let groups = proptest::collection::vec((1..=100_u32, replicas), 1..=5);
    proptest::collection::vec((small(), groups), 1..=8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]

    #[test]
    fn every_window_keeps_its_bound(endpoints in plain_endpoints(), scale in prop_oneof![Just(1.0), Just(1e-6), Just(1e6)]) {
        let pool = pool(&endpoints, RoutingWeights::Normalised, scale);
        let (endpoint, replica) = errors(&endpoints, &pool, |_, _| ());
        prop_assert!(endpoint <= 2.0, "an endpoint strays by {endpoint}");
        prop_assert!(replica <= 4.0, "a replica strays by {replica}");
    }

    #[test]
    fn groups_keep_the_bound_too(endpoints in grouped_endpoints()) {
        let pool = pool(&endpoints, RoutingWeights::Normalised, 1.0);
        let (endpoint, replica) = errors(&endpoints, &pool, |_, _| ());
        prop_assert!(endpoint <= 2.0, "an endpoint strays by {endpoint}");
        prop_assert!(replica <= 4.0, "a replica strays by {replica}");
    }

    #[test]
    fn further_attempts_leave_the_bound_alone(endpoints in grouped_endpoints(), every in 1..7_usize) {
        let pool = pool(&endpoints, RoutingWeights::Normalised, 1.0);
        let candidates: Vec<Arc<str>> = pool.candidates().map(|one| one.backend.name.clone()).collect();
        let (endpoint, replica) = errors(&endpoints, &pool, |selection, n| {
            if n % every == 0 {
                let tried = [candidates[n % candidates.len()].clone()];
                let picked = selection.pick(&pool, &tried);
                assert_eq!(picked.is_some(), candidates.len() > 1);
                assert!(picked.is_none_or(|picked| picked.name != tried[0]));
            }
        });
        prop_assert!(endpoint <= 2.0, "an endpoint strays by {endpoint}");
        prop_assert!(replica <= 4.0, "a replica strays by {replica}");
    }

    #[test]
    fn any_numbers_at_all_are_survived(
        ratios in proptest::collection::vec((any::<f64>(), any::<f64>(), any::<f64>()), 0..6),
        tried in proptest::collection::vec(0..6_usize, 0..4),
    ) {
        let sane = |number: f64| if number.is_finite() && number > 0.0 { number } else { 0.0 };
        let shares = ratios.iter().enumerate().map(|(at, (ratio, weight, part))| {
            let candidates = vec![Candidate { backend: backend(format!("{at}"), 1), ratio: sane(*part), health: Health::Unknown, kept: false }];
            let group = GroupPool { key: GroupKey::Implicit, traffic_weight: sane(*weight), candidates };
            let key = EndpointKey::Deployment(EndpointId(Uuid::from_u128(at as u128)));
            EndpointShare { ratio: sane(*ratio), endpoint: Arc::new(EndpointPool { key, groups: vec![group] }) }
        });
        let pool = ModelPool { key: PoolKey::Publication("m".into()), weights: RoutingWeights::Normalised, endpoints: shares.collect(), no_circuit: Box::default() };
        let tried: Vec<Arc<str>> = tried.into_iter().map(|at| at.to_string().into()).collect();
        let serves = |at: usize| ratios.get(at).is_some_and(|(a, b, c)| sane(*a) > 0.0 && sane(*b) > 0.0 && sane(*c) > 0.0);
        let left = (0..ratios.len()).filter(|at| serves(*at) && !tried.iter().any(|name| **name == at.to_string())).count();
        let mut selection = Selection::new();
        for _ in 0..20 {
            match selection.pick(&pool, &tried) {
                None => prop_assert_eq!(left, 0),
                Some(picked) => prop_assert!(serves(picked.name.parse().unwrap()) && !tried.contains(&picked.name)),
            }
        }
        let shares = pool.shares();
        prop_assert!(shares.iter().all(|(_, share)| (0.0..=1.0).contains(share)));
    }
}

/// The strays of a list of picks, in their order.
fn errors_of(endpoints: &[Endpoint], picks: &[Arc<str>]) -> (f64, f64) {
    let mut order = picks.iter();
    errors_over(endpoints, picks.len(), || order.next().expect("so many were picked").clone())
}

/// One picker under its lock, as a shell has it, taken by eight threads, which also try again and hold what they got.
#[test]
fn eight_threads_stray_no_further_than_twice() {
    const THREADS: usize = 8;
    let endpoints: Vec<Endpoint> =
        (1..=50_u32).map(|e| (e * 7 % 23 + 1, vec![(100, (1..=e).map(|r| r * 5 % 11 + 1).collect())])).collect();
    let pool = pool(&endpoints, RoutingWeights::Normalised, 1.0);
    let shared = std::sync::Mutex::new((Selection::new(), Vec::with_capacity(WINDOW)));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (shared, pool) = (&shared, &pool);
            scope.spawn(move || {
                for n in 0..WINDOW / THREADS {
                    let first = {
                        let (selection, order) = &mut *shared.lock().unwrap();
                        let picked = selection.pick(pool, &[]).expect("something can serve").name.clone();
                        order.push(picked.clone());
                        picked
                    };
                    if n % (thread + 2) == 0 {
                        let again =
                            shared.lock().unwrap().0.pick(pool, std::slice::from_ref(&first)).expect("another one");
                        assert_ne!(again.name, first);
                    }
                }
            });
        }
    });
    let (_, order) = shared.into_inner().unwrap();
    assert_eq!(order.len(), WINDOW);
    let (endpoint, replica) = errors_of(&endpoints, &order);
    assert!(endpoint <= 4.0, "an endpoint strays by {endpoint}");
    assert!(replica <= 8.0, "a replica strays by {replica}");
}

#[test]
fn literal_weights_break_the_promise() {
    // 0.7 : 0.3 over one and four replicas (in hundredths) serves 37 : 63.
    let unequal: Vec<Endpoint> = vec![(70, vec![(100, vec![1])]), (30, vec![(100, vec![1, 1, 1, 1])])];
    let (endpoint, _) = errors(&unequal, &pool(&unequal, RoutingWeights::Normalised, 1.0), |_, _| ());
    assert!(endpoint <= 2.0);
    let literal = pool(&unequal, RoutingWeights::Literal, 1.0);
    let (endpoint, _) = errors(&unequal, &literal, |_, _| ());
    assert!(endpoint > 3_000.0, "{endpoint}");
    let first: f64 =
        literal.shares().iter().filter(|(one, _)| one.name.starts_with("0/")).map(|(_, share)| share).sum();
    assert!((first - 70.0 / 190.0).abs() < 1e-12);
    // 70 : 30 as whole numbers clamps to 1000 : 1000.
    let clamped: Vec<Endpoint> = vec![(7_000, vec![(100, vec![1])]), (3_000, vec![(100, vec![1])])];
    let (endpoint, _) = errors(&clamped, &pool(&clamped, RoutingWeights::Literal, 1.0), |_, _| ());
    assert!(endpoint > 1_000.0, "{endpoint}");
}

#[test]
fn literal_weights_are_drawn_flat_within_two() {
    let endpoints: Vec<Endpoint> = vec![(70, vec![(100, vec![1])]), (30, vec![(100, vec![1, 1, 1, 1])])];
    let pool = pool(&endpoints, RoutingWeights::Literal, 1.0);
    let mut strays: BTreeMap<Arc<str>, Stray> = pool
        .candidates()
        .map(|one| (one.backend.name.clone(), Stray::new(i128::from(one.backend.weight), 70 + 4 * 30)))
        .collect();
    let mut selection = Selection::new();
    for n in 1..=WINDOW {
        strays.get_mut(&selection.pick(&pool, &[]).unwrap().name).unwrap().pick(n);
    }
    for (name, mut stray) in strays {
        stray.look(WINDOW);
        assert!(stray.window_error() <= 2.0, "{name} strays by {}", stray.window_error());
    }
}

fn flat(ratios: &[f64]) -> ModelPool {
    let candidates = ratios.iter().enumerate().map(|(at, ratio)| Candidate {
        backend: backend(format!("{at}"), 1),
        ratio: *ratio,
        health: Health::Unknown,
        kept: false,
    });
    let group = GroupPool { key: GroupKey::Implicit, traffic_weight: 100.0, candidates: candidates.collect() };
    let endpoint = Arc::new(EndpointPool { key: EndpointKey::Static, groups: vec![group] });
    let endpoints = Arc::from([EndpointShare { ratio: 1.0, endpoint }]);
    ModelPool {
        key: PoolKey::Publication("m".into()),
        weights: RoutingWeights::Normalised,
        endpoints,
        no_circuit: Box::default(),
    }
}

fn counts(ratios: &[f64], picks: usize) -> Vec<usize> {
    let (pool, mut selection) = (flat(ratios), Selection::new());
    let mut counts = vec![0; ratios.len()];
    for _ in 0..picks {
        let picked = selection.pick(&pool, &[]).unwrap();
        counts[picked.name.parse::<usize>().unwrap()] += 1;
    }
    counts
}

#[test]
fn zero_means_none_even_when_nothing_else_is_left() {
    let mut selection = Selection::new();
    assert_eq!(selection.pick(&flat(&[0.0, 0.0]), &[]), None);
    assert_eq!(selection.pick(&flat(&[]), &[]), None);
    assert_eq!(counts(&[0.0, 1.0], 100), [0, 100]);
    assert_eq!(selection.pick(&flat(&[0.0, 1.0]), &["1".into()]), None);
}

#[test]
fn huge_tiny_and_many() {
    assert_eq!(counts(&[1e308, 1e308], 100), [50, 50]);
    assert_eq!(counts(&[1e-320, 3e-320], 100), [25, 75]);
    assert_eq!(counts(&[1.0; 12], 1_200), [100; 12]);
    assert_eq!(counts(&[1.0, 2.0, 7.0], 10_000), [1_000, 2_000, 7_000]);
    // Next to a huge one a tiny one is as good as never drawn, but it is there when the huge one has been tried.
    let (pool, mut selection) = (flat(&[1e308, 1e-320]), Selection::new());
    assert_eq!(&*selection.pick(&pool, &[]).unwrap().name, "0");
    assert_eq!(&*selection.pick(&pool, &["0".into()]).unwrap().name, "1");
    assert!(flat(&[1e308, 1e308]).shares().iter().all(|(_, share)| *share == 0.5));
}

#[test]
fn further_attempts_follow_the_shares_of_what_is_left() {
    let (pool, mut selection) = (flat(&[1.0, 2.0, 6.0]), Selection::new());
    let mut counts = [0; 3];
    for _ in 0..300 {
        let picked = selection.pick(&pool, &["2".into()]).unwrap();
        counts[picked.name.parse::<usize>().unwrap()] += 1;
    }
    assert_eq!(counts, [100, 200, 0]);
}

#[test]
fn a_changed_level_starts_over_and_its_neighbours_go_on() {
    let endpoints =
        |second: u32| -> Vec<Endpoint> { vec![(1, vec![(100, vec![1, 1, 1])]), (1, vec![(100, vec![1, second])])] };
    let (before, after) =
        (pool(&endpoints(1), RoutingWeights::Normalised, 1.0), pool(&endpoints(2), RoutingWeights::Normalised, 1.0));
    let mut selection = Selection::new();
    let mut first = Vec::new();
    for n in 0..12 {
        // The second endpoint changes at every pick; the first one's three replicas still take turns.
        let picked = selection.pick(if n % 2 == 0 { &before } else { &after }, &[]).unwrap();
        if picked.name.starts_with("0/") {
            first.push(picked.name.to_string());
        }
    }
    assert_eq!(first, ["0/0/0", "0/0/1", "0/0/2", "0/0/0", "0/0/1", "0/0/2"]);
    assert_eq!(selection.pools(), 1);
}
