use proptest::prelude::{ProptestConfig, Strategy as _, any, prop, prop_assert, prop_assert_eq, prop_assume, proptest};
use std::collections::BTreeMap;
use uuid::Uuid;

use super::*;
use crate::exchange::rendezvous::mix;
use crate::serving::{Candidate, EndpointKey, EndpointPool, GroupKey, GroupPool, Health};
use crate::wire::ids::EndpointId;
use core::time::Duration;

const ALL: [Strategy; 7] = [
    Strategy::Weighted,
    Strategy::RoundRobin,
    Strategy::Random,
    Strategy::LeastLatency,
    Strategy::LeastLoaded,
    Strategy::ConsistentHash,
    Strategy::PrefixAware,
];

fn backend(name: String, weight: u32) -> Arc<Backend> {
    Arc::new(Backend {
        name: name.into(),
        kind: BackendKind::Vllm,
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

/// Endpoints as ratio and replicas; replicas as number and ratio. Names are `endpoint/replica`.
type Endpoints = Vec<(u32, Vec<(usize, u32)>)>;

fn pool(endpoints: &Endpoints) -> ModelPool {
    let shares = endpoints.iter().enumerate().map(|(e, (ratio, replicas))| {
        let candidates = replicas.iter().map(|(r, part)| Candidate {
            backend: backend(format!("{e}/{r}"), *part),
            ratio: f64::from(*part),
            health: Health::Unknown,
            kept: false,
        });
        let group = GroupPool { key: GroupKey::Implicit, traffic_weight: 100.0, candidates: candidates.collect() };
        let key = EndpointKey::Deployment(EndpointId(Uuid::from_u128(e as u128)));
        EndpointShare { ratio: f64::from(*ratio), endpoint: Arc::new(EndpointPool { key, groups: vec![group] }) }
    });
    let key = PoolKey::Publication("m".into());
    ModelPool { key, weights: RoutingWeights::Normalised, endpoints: shares.collect(), no_circuit: Box::default() }
}

fn name(choice: &Choice) -> Option<&str> {
    match choice {
        Choice::Picked(pick) => Some(&pick.backend.name),
        _ => None,
    }
}

/// The `n`-th request.
fn ask(strategy: Strategy, n: u64) -> Ask<'static> {
    Ask { strategy, draw: mix(n), key: mix(n ^ 77), ..Ask::default() }
}

/// How many of `n` requests, each over before the next, each replica gets.
fn counts(pool: &ModelPool, strategy: Strategy, n: u64) -> BTreeMap<String, u64> {
    let mut selection = Selection::new();
    let mut counts = BTreeMap::new();
    for at in 0..n {
        let choice = selection.choose(pool, &ask(strategy, at));
        *counts.entry(name(&choice).unwrap().to_owned()).or_default() += 1;
    }
    counts
}

fn endpoints() -> impl proptest::strategy::Strategy<Value = Endpoints> {
    let replicas = prop::collection::vec(0..8_u32, 1..6).prop_map(|parts| parts.into_iter().enumerate().collect());
    prop::collection::vec((0..8_u32, replicas), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// An idle pool is picked from by its shares, whatever the strategy; 0 is never picked.
    #[test]
    fn h3_every_strategy_keeps_the_shares(endpoints in endpoints()) {
        let pool = pool(&endpoints);
        let shares: Vec<_> = pool.shares();
        let n = 4000_u64;
        for strategy in ALL {
            if !pool.can_serve() {
                prop_assert!(matches!(Selection::new().choose(&pool, &ask(strategy, 0)), Choice::Nothing));
                continue;
            }
            let counts = counts(&pool, strategy, n);
            for (backend, share) in &shares {
                let count = counts.get(&*backend.name).copied().unwrap_or_default() as f64;
                let expected = share * n as f64;
                // Exact strategies: a few requests. The others: six standard deviations.
                let stray = match strategy {
                    Strategy::Weighted | Strategy::RoundRobin => 4.0,
                    _ => 6.0 * (expected * (1.0 - share)).sqrt() + 1.0,
                };
                prop_assert!((count - expected).abs() <= stray, "{strategy:?} {}: {count} of {expected}", backend.name);
                prop_assert!(*share > 0.0 || count == 0.0);
            }
        }
    }

    /// The same state, the same picks; and tried or full ones are never picked, by any strategy.
    #[test]
    fn picks_follow_from_the_state_and_avoid_what_is_closed(
        endpoints in endpoints(),
        asks in prop::collection::vec((0..7_usize, any::<u64>(), prop::collection::vec((0..5_usize, 0..6_usize), 0..4), any::<bool>()), 1..60),
    ) {
        let pool = pool(&endpoints);
        let (mut one, mut two) = (Selection::new(), Selection::new());
        let mut held = Vec::new();
        for (strategy, number, tried, limited) in asks {
            let tried: Vec<_> =
                tried.iter().map(|(e, r)| AttemptRecord::begun(format!("{e}/{r}").into(), Moment::START)).collect();
            let ask = Ask { tried: &tried, max_in_flight: limited.then_some(2), ..ask(ALL[strategy], number) };
            let before = |backend: &Backend| one_in_flight(&one, backend);
            let open = |backend: &Backend| {
                !tried.iter().any(|attempt| attempt.ended.backend == backend.name) && (!limited || before(backend) < 2)
            };
            let any_open = pool.shares().iter().any(|(backend, share)| *share > 0.0 && open(backend));
            let opens: Vec<_> = pool.shares().into_iter().filter(|(backend, share)| *share > 0.0 && open(backend)).collect();
            let (choice, same) = (one.choose(&pool, &ask), two.choose(&pool, &ask));
            prop_assert_eq!(name(&choice), name(&same));
            prop_assert_eq!(name(&choice).is_some(), any_open);
            if let Some(name) = name(&choice) {
                prop_assert!(opens.iter().any(|(backend, _)| *backend.name == *name));
            }
            held.push((choice, same));
            if number.is_multiple_of(3) {
                held.clear();
            }
        }
    }

    /// When a replica goes, its keys move and no others; those of a nested pool stay at their endpoint.
    #[test]
    fn affinity_moves_only_what_must_move(
        mut endpoints in endpoints(),
        at in any::<prop::sample::Index>(),
        sticky in any::<bool>(),
    ) {
        let before = pool(&endpoints);
        prop_assume!(before.can_serve());
        let e = at.index(endpoints.len());
        let gone = {
            let replicas = &mut endpoints[e].1;
            prop_assume!(replicas.len() > 1);
            let gone = at.index(replicas.len());
            format!("{e}/{}", replicas.remove(gone).0)
        };
        let after = pool(&endpoints);
        let endpoint_stays = endpoints[e].1.iter().any(|(_, part)| *part > 0);
        let (mut one, mut two) = (Selection::new(), Selection::new());
        for key in 0..300 {
            let mut ask = ask(Strategy::ConsistentHash, key);
            ask.sticky = sticky.then_some(key);
            let first = one.choose(&before, &ask);
            let Some(now) = name(&first) else { continue };
            let second = two.choose(&after, &ask);
            let then = name(&second);
            if now != gone {
                prop_assert_eq!(then, Some(now));
            } else if endpoint_stays {
                let stays_at = format!("{e}/");
                prop_assert!(then.is_some_and(|then| then.starts_with(&stays_at)));
            }
        }
    }

    /// However keys are spread, no replica holds much more than its share of what is in flight.
    #[test]
    fn a_hot_key_is_bounded(endpoints in endpoints(), hot in 0..4_u64, n in 1..300_usize) {
        let pool = pool(&endpoints);
        prop_assume!(pool.can_serve());
        let mut selection = Selection::new();
        let mut held = Vec::new();
        for at in 0..n {
            let choice = selection.choose(&pool, &ask(Strategy::PrefixAware, at as u64 % (hot + 1)));
            prop_assert!(name(&choice).is_some());
            held.push(choice);
        }
        for (backend, share) in pool.shares() {
            let most = (n as f64 * 1.25 * share + 1e-9).ceil();
            prop_assert!(f64::from(one_in_flight(&selection, &backend)) <= most, "{}", backend.name);
        }
        held.clear();
        prop_assert!(pool.shares().iter().all(|(backend, _)| one_in_flight(&selection, backend) == 0));
    }

    /// Requests that stay: in flight follows the shares.
    #[test]
    fn least_loaded_levels_the_load(endpoints in endpoints()) {
        let pool = pool(&endpoints);
        prop_assume!(pool.can_serve());
        let mut selection = Selection::new();
        let n = 1000;
        let _held: Vec<_> = (0..n).map(|at| selection.choose(&pool, &ask(Strategy::LeastLoaded, at))).collect();
        for (backend, share) in pool.shares() {
            let stray = (f64::from(one_in_flight(&selection, &backend)) - n as f64 * share).abs();
            // Pairs by chance leave less than a tenth of what single draws would.
            prop_assert!(stray <= 4.0 + 0.06 * n as f64 * share, "{} of {}", stray, n as f64 * share);
        }
    }
}

fn one_in_flight(selection: &Selection, backend: &Backend) -> u32 {
    selection.loads().look(&backend.name).map_or(0, |load| load.in_flight())
}

#[test]
fn h3_round_robin_goes_round() {
    let pool = pool(&vec![(1, vec![(0, 1), (1, 1), (2, 1)])]);
    let mut selection = Selection::new();
    let picked: Vec<_> =
        (0..6).map(|at| name(&selection.choose(&pool, &ask(Strategy::RoundRobin, at))).unwrap().to_owned()).collect();
    assert_eq!(picked, ["0/0", "0/1", "0/2", "0/0", "0/1", "0/2"]);
}

#[test]
fn least_latency_prefers_the_faster_and_finds_a_recovered_one() {
    let pool = pool(&vec![(1, vec![(0, 1), (1, 1), (2, 1)])]);
    let mut selection = Selection::new();
    let _ = selection.pick(&pool, &[]);
    for (at, millis) in [10, 20, 1000].into_iter().enumerate() {
        let load = selection.loads().look(&format!("0/{at}")).unwrap();
        load.note_first_byte(Duration::from_millis(millis), Moment::START);
        assert_eq!(load.first_byte(), Some(Duration::from_millis(millis)));
    }
    let mut share = |now: u64| {
        let mut counts = [0; 3];
        for at in 0..5000 {
            let ask = Ask { now: Moment::from_millis(now), ..ask(Strategy::LeastLatency, at) };
            let choice = selection.choose(&pool, &ask);
            counts[usize::from(name(&choice).unwrap().as_bytes()[2] - b'0')] += 1;
        }
        counts
    };
    let now = share(0);
    assert!(now[0] > 3800 && now[1] > 800 && now[1] < 1200 && now[2] < 10, "{now:?}");
    let later = share(600_000);
    assert!(later[2] > 100, "{later:?}");
}

#[test]
fn least_loaded_takes_the_less_loaded_of_two() {
    let pool = pool(&vec![(1, vec![(0, 1), (1, 1)])]);
    let mut selection = Selection::new();
    let busy = selection.pick(&pool, &[]).unwrap();
    let _ticket = Ticket::take(&selection.loads().look(&busy.name).unwrap());
    for at in 0..100 {
        let choice = selection.choose(&pool, &ask(Strategy::LeastLoaded, at));
        assert_ne!(name(&choice), Some(&*busy.name));
    }
}

#[test]
fn a_client_keeps_its_replica_until_that_is_closed() {
    let pool = pool(&vec![(7, vec![(0, 1), (1, 3)]), (3, vec![(0, 1)])]);
    let mut selection = Selection::new();
    for client in 0..50_u64 {
        let ask = |strategy, n| Ask { sticky: Some(mix(client)), ..ask(strategy, n) };
        let first = selection.choose(&pool, &ask(Strategy::Weighted, 0));
        let home = name(&first).unwrap().to_owned();
        for (n, strategy) in (0..).zip(ALL) {
            assert_eq!(name(&selection.choose(&pool, &ask(strategy, n))), Some(&*home));
        }
        let tried = [AttemptRecord::begun(home.as_str().into(), Moment::START)];
        let other = selection.choose(&pool, &Ask { tried: &tried, ..ask(Strategy::Random, 1) });
        assert!(name(&other).is_some_and(|other| other != home));
    }
}

#[test]
fn r5_one_full_replica_takes_no_more_and_all_full_is_full() {
    let pool = pool(&vec![(1, vec![(0, 1), (1, 1)])]);
    for strategy in ALL {
        let mut selection = Selection::new();
        let ask = |n| Ask { max_in_flight: Some(3), ..ask(strategy, n) };
        let mut held: Vec<_> = (0..6).map(|at| selection.choose(&pool, &ask(at))).collect();
        assert!(held.iter().all(|choice| name(choice).is_some()), "{strategy:?}");
        assert!(matches!(selection.choose(&pool, &ask(6)), Choice::Full), "{strategy:?}");
        held.pop();
        assert!(name(&selection.choose(&pool, &ask(7))).is_some(), "{strategy:?}");
    }
}

#[test]
fn loads_are_one_for_all_shards_and_go_with_their_backends() {
    let loads = Loads::new();
    let pool = pool(&vec![(1, vec![(0, 1)])]);
    let (mut one, mut two) = (Selection::counting_in(&loads), Selection::counting_in(&loads));
    let first = one.choose(&pool, &Ask::default());
    let second = two.choose(&pool, &Ask::default());
    assert_eq!(loads.look("0/0").unwrap().in_flight(), 2);
    loads.forget_absent(&ServingView::default());
    assert_eq!(loads.len(), 1);
    drop((first, second));
    loads.forget_absent(&ServingView::default());
    assert!(loads.is_empty());
}
