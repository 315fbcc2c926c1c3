use super::*;
use crate::exchange::testing::{World, chat, header, said};
use crate::exchange::{Admitted, Attempt, Chosen, EndOfBody, Fallbacks};

/// One request at a time to each replica, and a second to wait.
fn world() -> World {
    let mut world = World::new();
    world.rules.max_in_flight = Some(1);
    world.rules.queue_timeout = Duration::from_secs(1);
    world
}

fn admitted(world: &mut World, key: &str, model: &str) -> Admitted {
    world.admit(chat(key), &format!("{{\"model\":\"{model}\"}}")).unwrap()
}

fn choose(world: &mut World, choosing: Choosing) -> Result<Chosen, Box<Answer>> {
    let node =
        Node { rules: &world.rules, view: &world.view, control: &world.control, now: world.now, file_refused: false };
    choosing.choose(&mut world.selection, node)
}

fn arrive(world: &mut World, key: &str, model: &str) -> Result<Chosen, Box<Answer>> {
    let admitted = admitted(world, key, model);
    let node =
        Node { rules: &world.rules, view: &world.view, control: &world.control, now: world.now, file_refused: false };
    let choosing = admitted.begin(&mut world.budget, node);
    choose(world, choosing)
}

fn queued(chosen: Result<Chosen, Box<Answer>>) -> Queued {
    match chosen.unwrap() {
        Chosen::Queue(queued) => queued,
        other => panic!("does not wait: {other:?}"),
    }
}

fn sent(chosen: Result<Chosen, Box<Answer>>) -> Attempt {
    match chosen.unwrap() {
        Chosen::Send(attempt) => attempt,
        other => panic!("not sent: {other:?}"),
    }
}

fn freed(world: &mut World, pool: &PoolKey) -> Option<Place> {
    world.selection.freed(pool, world.now.moment)
}

#[test]
fn a_request_waits_for_a_replica_and_is_called() {
    let mut world = world();
    let first = sent(arrive(&mut world, "all", "m1"));
    let pool = first.pool().clone();
    let one = queued(arrive(&mut world, "all", "m1"));
    let two = queued(arrive(&mut world, "some", "m1"));
    assert_eq!((one.pool(), one.pushed_out(), world.selection.waiting()), (&pool, None, 2));
    assert_eq!(one.look_again(), world.now.moment.after(LOOK_AGAIN));
    // Who looks again out of turn goes on waiting, also when there is room.
    drop(first);
    let two = queued(choose(&mut world, two.again()));
    // So does who comes now.
    let three = queued(arrive(&mut world, "all", "m1"));
    assert_eq!(freed(&mut world, &pool), Some(one.place()));
    let second = sent(choose(&mut world, one.again()));
    // Another key before the same one.
    drop(second);
    assert_eq!(freed(&mut world, &pool), Some(two.place()));
    let third = sent(choose(&mut world, two.again()));
    // Whoever leaves while waiting is not called.
    let outcome = three.gone(&mut world.selection);
    assert_eq!(outcome.end, EndOfBody::DownstreamGone);
    drop(third);
    assert_eq!(freed(&mut world, &pool), None);
    assert_eq!(world.selection.waiting(), 0);
}

#[test]
fn a_lost_call_is_made_up_for_by_looking_again() {
    let mut world = world();
    let first = sent(arrive(&mut world, "all", "m1"));
    let one = queued(arrive(&mut world, "all", "m1"));
    drop(first);
    world.now.moment = one.look_again();
    let _ = sent(choose(&mut world, one.again()));
}

#[test]
fn who_waited_long_enough_is_refused_or_goes_to_the_chain() {
    let mut world = world();
    let _first = sent(arrive(&mut world, "all", "m1"));
    let one = queued(arrive(&mut world, "all", "m1"));
    let two = queued(arrive(&mut world, "all", "m1"));
    world.now.moment = world.now.moment.after(Duration::from_secs(1));
    let answer = choose(&mut world, one.again()).unwrap_err();
    assert_eq!(said(&answer), "503 overloaded");
    assert!(!header(&answer.headers, "retry-after").is_empty());
    world.rules.fallbacks = Fallbacks::new(&[("m1".into(), vec!["two".into()])].into());
    let Ok(Chosen::Elsewhere(choosing)) = choose(&mut world, two.again()) else { panic!("no chain") };
    assert_eq!(sent(choose(&mut world, choosing)).pool(), &PoolKey::Publication("two".into()));
    assert_eq!(world.selection.waiting(), 0);
}

#[test]
fn without_a_queue_the_bound_refuses_at_once() {
    let mut world = world();
    world.rules.queue_timeout = Duration::ZERO;
    let held = [sent(arrive(&mut world, "all", "two")), sent(arrive(&mut world, "all", "two"))];
    assert_ne!(held[0].backend().name, held[1].backend().name);
    assert_eq!(said(&arrive(&mut world, "all", "two").unwrap_err()), "503 overloaded");
    drop(held);
    let _ = sent(arrive(&mut world, "all", "two"));
}
