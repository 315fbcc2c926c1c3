//! Each cause is named once, with what would change it and nothing else.

use std::sync::Arc;

use super::*;
use crate::exchange::testing::World;
use crate::serving::Candidate;
use crate::wire::ids::EndpointId;
use uuid::Uuid;

/// What is said of the pool of `two`, two replicas of one endpoint, after `change`.
fn told(change: impl FnOnce(&mut ModelPool, &mut EndpointShare)) -> Option<String> {
    let world = World::new();
    let mut pool = (**world.view.model("two").expect("published")).clone();
    let mut share = pool.endpoints.first().expect("an endpoint").clone();
    change(&mut pool, &mut share);
    if !pool.endpoints.is_empty() {
        pool.endpoints = [share].into();
    }
    causes([&pool].into_iter()).map(Cow::into_owned)
}

fn replicas(share: &mut EndpointShare) -> &mut Vec<Candidate> {
    &mut Arc::make_mut(&mut share.endpoint).groups.first_mut().expect("a group").candidates
}

fn all_are(health: Health) -> Option<String> {
    told(|_, share| replicas(share).iter_mut().for_each(|replica| replica.health = health))
}

#[test]
fn what_serves_has_no_cause() {
    assert_eq!(told(|_, _| ()), None);
    assert_eq!(all_are(Health::Ready), None);
    let kept = told(|_, share| {
        replicas(share).iter_mut().for_each(|replica| (replica.health, replica.kept) = (Health::Quarantined, true));
    });
    assert_eq!(kept, None);
}

#[test]
fn each_cause_has_its_own_cure() {
    let said = [
        (
            all_are(Health::Drained),
            "drained by an operator on this node (2 replicas): POST /admin/backends/NAME/undrain",
        ),
        (all_are(Health::Down), "down, its probes fail (2 replicas): start or mend it"),
        (all_are(Health::Quarantined), "quarantined, requests to it failed (2 replicas): mend it"),
        (all_are(Health::WarmingUp), "answers its probes with 503 (2 replicas): wait"),
        (
            told(|_, share| replicas(share).iter_mut().for_each(|replica| replica.ratio = 0.0)),
            "ratio 0 (2 replicas): raise its traffic ratio",
        ),
        (
            told(|_, share| {
                let groups = &mut Arc::make_mut(&mut share.endpoint).groups;
                groups.iter_mut().for_each(|group| group.traffic_weight = 0.0);
            }),
            "weight 0 (1 replica group): raise",
        ),
        (told(|_, share| share.ratio = 0.0), "ratio 0 (1 endpoint): raise it in the mapping"),
        (told(|_, share| Arc::make_mut(&mut share.endpoint).groups.clear()), "no replica (1 endpoint): start one"),
        (told(|pool, _| pool.endpoints = Arc::default()), "no endpoint is mapped (1 publication): map one"),
        (
            told(|pool, _| {
                pool.endpoints = Arc::default();
                pool.no_circuit = [EndpointId(Uuid::from_u128(5))].into();
            }),
            "no circuit here (1 mapped endpoint): create the endpoint",
        ),
    ];
    for (said, expected) in said {
        let said = said.expect(expected);
        assert!(said.starts_with(expected) && said.matches(": ").count() == 1, "{said}");
    }
}

#[test]
fn several_causes_are_each_named_once() {
    let said = told(|_, share| {
        share.ratio = 0.0;
        let all = replicas(share);
        let more = all.clone();
        all.extend(more);
        for (replica, health) in all.iter_mut().zip([Health::Down, Health::Drained, Health::Down, Health::Ready]) {
            replica.health = health;
        }
    });
    let said = said.expect("causes");
    let causes: Vec<&str> = said.split("; ").filter_map(|one| one.split_once(": ")).map(|(cause, _)| cause).collect();
    let expected = [
        "ratio 0 (1 endpoint)",
        "down, its probes fail (2 replicas)",
        "drained by an operator on this node (1 replica)",
    ];
    assert_eq!(causes, expected, "{said}");
}

#[test]
fn the_ratio_that_a_contested_name_gives_what_is_down_is_no_cause() {
    let said = told(|pool, share| {
        pool.key = PoolKey::Contested("two".into());
        share.ratio = 0.0;
        replicas(share).iter_mut().for_each(|replica| replica.health = Health::Down);
    });
    assert!(said.as_deref().is_some_and(|said| said.starts_with("down") && !said.contains("ratio")), "{said:?}");
}
