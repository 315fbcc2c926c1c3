use proptest::prelude::*;
use std::sync::Arc;

use super::*;
use crate::wire::ids::KeyId;

const NOW: Moment = Moment::from_millis(1000);
const LATER: Moment = Moment::from_millis(9000);

fn pool() -> PoolKey {
    PoolKey::Publication(Arc::from("m"))
}

fn key(number: u8) -> Option<LedgerKey> {
    (number > 0).then(|| LedgerKey::Published(KeyId::from(format!("k{number}").as_str())))
}

fn join(queue: &mut WaitQueue, number: u8) -> Place {
    queue.join(&pool(), key(number), LATER, NOW).unwrap().0
}

#[test]
fn keys_take_turns_and_each_keeps_its_order() {
    let mut queue = WaitQueue::default();
    let (a1, a2, a3) = (join(&mut queue, 1), join(&mut queue, 1), join(&mut queue, 1));
    let (b1, b2, n1) = (join(&mut queue, 2), join(&mut queue, 2), join(&mut queue, 0));
    let called: Vec<_> = core::iter::from_fn(|| queue.freed(&pool(), NOW)).collect();
    assert_eq!(called, [a1, b1, n1, a2, b2, a3]);
    for place in called {
        assert_eq!(queue.standing(&pool(), place), Standing::Next);
        queue.leave(&pool(), place);
        assert_eq!(queue.standing(&pool(), place), Standing::Out);
    }
    assert!(queue.lanes.is_empty());
}

#[test]
fn who_was_called_and_found_nothing_waits_on_before_all_others() {
    let mut queue = WaitQueue::default();
    let (a, b) = (join(&mut queue, 1), join(&mut queue, 2));
    assert_eq!(queue.freed(&pool(), NOW), Some(a));
    let late = join(&mut queue, 1);
    queue.wait_on(&pool(), key(1), a, LATER);
    assert_eq!(queue.standing(&pool(), b), Standing::Behind);
    let called: Vec<_> = core::iter::from_fn(|| queue.freed(&pool(), NOW)).collect();
    assert_eq!(called, [a, b, late]);
}

#[test]
fn whose_time_is_over_is_not_called() {
    let mut queue = WaitQueue::default();
    let (gone, _) = queue.join(&pool(), key(1), NOW, NOW).unwrap();
    let stays = join(&mut queue, 2);
    assert_eq!(queue.freed(&pool(), NOW), Some(stays));
    assert_eq!(queue.standing(&pool(), gone), Standing::Out);
    assert_eq!(queue.freed(&pool(), NOW), None);
}

#[test]
fn a_full_queue_makes_room_for_a_key_with_less_in_it() {
    let mut queue = WaitQueue::default();
    let greedy: Vec<_> = (0..QUEUED_PER_POOL).map(|_| join(&mut queue, 1)).collect();
    assert_eq!(queue.join(&pool(), key(1), LATER, NOW), Err(NoRoom));
    let (modest, pushed_out) = queue.join(&pool(), key(2), LATER, NOW).unwrap();
    assert_eq!(pushed_out, greedy.last().copied());
    assert_eq!(queue.standing(&pool(), greedy[QUEUED_PER_POOL - 1]), Standing::Out);
    assert_eq!(queue.standing(&pool(), modest), Standing::Behind);
    assert_eq!(queue.len(), QUEUED_PER_POOL);
    // What is over makes room first.
    let mut queue = WaitQueue::default();
    for _ in 0..QUEUED_PER_POOL {
        queue.join(&pool(), key(1), NOW, NOW).unwrap();
    }
    assert_eq!(queue.join(&pool(), key(1), LATER, NOW).unwrap().1, None);
    assert_eq!(queue.len(), 1);
}

proptest! {
    /// Whatever comes and goes: everyone who waits is called once, and while two keys wait neither gets two turns ahead
    /// of the other.
    #[test]
    fn everyone_is_called_once_and_in_turn(steps in prop::collection::vec((0..4_u8, 0..3_u8), 1..200)) {
        let mut queue = WaitQueue::default();
        let mut waiting: Vec<(Place, u8)> = Vec::new();
        let mut since: [[u32; 4]; 4] = Default::default();
        for (number, step) in steps {
            if step < 2 {
                let was_waiting = waiting.iter().any(|(_, other)| *other == number);
                if !was_waiting {
                    since[usize::from(number)] = [0; 4];
                }
                waiting.push((join(&mut queue, number), number));
            } else if let Some(called) = queue.freed(&pool(), NOW) {
                let at = waiting.iter().position(|(place, _)| *place == called).unwrap();
                let (_, whose) = waiting.remove(at);
                prop_assert!(!waiting[..at.min(waiting.len())].iter().any(|(_, other)| *other == whose));
                for other in 0..4_u8 {
                    if other != whose && waiting.iter().any(|(_, number)| *number == other) {
                        let turns = &mut since[usize::from(other)][usize::from(whose)];
                        *turns += 1;
                        prop_assert!(*turns <= 1, "key {whose} twice before key {other}");
                    }
                }
                since[usize::from(whose)] = [0; 4];
                queue.leave(&pool(), called);
            } else {
                prop_assert!(waiting.is_empty());
            }
            prop_assert_eq!(queue.len(), waiting.len());
        }
    }
}
