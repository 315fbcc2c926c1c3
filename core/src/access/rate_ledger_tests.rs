use super::*;
use proptest::prelude::*;

fn key(name: &str) -> LedgerKey {
    LedgerKey::Published(KeyId::from(name))
}

fn at(millis: u64) -> Moment {
    Moment::from_millis(millis)
}

fn accepted(ledger: &mut RateLedger, name: &str, limit: u32, millis: u64) -> bool {
    matches!(ledger.take(&key(name), limit, at(millis)), Taken::Accepted(_))
}

fn refused(ledger: &mut RateLedger, name: &str, limit: u32, millis: u64) -> RateFigures {
    match ledger.take(&key(name), limit, at(millis)) {
        Taken::Refused(figures) => figures,
        Taken::Accepted(figures) => panic!("accepted with {figures:?}"),
    }
}

#[test]
fn k3_a_the_fourth_waits_and_passes_after_a_minute() {
    let mut ledger = RateLedger::new();
    assert_eq!(ledger.take(&key("k"), 3, at(0)), Taken::Accepted(RateFigures { limit: 3, remaining: 2, reset: 0 }));
    assert!(accepted(&mut ledger, "k", 3, 0));
    assert_eq!(ledger.take(&key("k"), 3, at(0)), Taken::Accepted(RateFigures { limit: 3, remaining: 0, reset: 60 }));
    assert_eq!(refused(&mut ledger, "k", 3, 10_000), RateFigures { limit: 3, remaining: 0, reset: 50 });
    assert_eq!(refused(&mut ledger, "k", 3, 59_999).reset, 1);
    assert!(accepted(&mut ledger, "k", 3, 60_000));
}

#[test]
fn k3_b_exactly_the_limit_passes_at_one_instant() {
    let mut ledger = RateLedger::new();
    assert_eq!((0..10).filter(|_| accepted(&mut ledger, "k", 3, 500)).count(), 3);
}

#[test]
fn k3_c_refusals_do_not_count() {
    let mut ledger = RateLedger::new();
    for _ in 0..3 {
        assert!(accepted(&mut ledger, "k", 3, 0));
    }
    for second in 0..60 {
        refused(&mut ledger, "k", 3, second * 1000);
    }
    assert!(accepted(&mut ledger, "k", 3, 60_000));
}

#[test]
fn k3_d_a_clock_that_steps_back_locks_nobody_out() {
    let mut ledger = RateLedger::new();
    assert!(accepted(&mut ledger, "k", 3, 400_000));
    assert!(accepted(&mut ledger, "k", 3, 100_000));
    assert!(accepted(&mut ledger, "k", 3, 100_000));
    // Never more than the limit, and free again a minute after the latest moment that was seen.
    assert!(!accepted(&mut ledger, "k", 3, 100_000));
    assert!(accepted(&mut ledger, "k", 3, 460_000));
}

#[test]
fn k3_e_a_changed_limit_takes_effect_at_once() {
    let mut ledger = RateLedger::new();
    for _ in 0..3 {
        assert!(accepted(&mut ledger, "k", 3, 0));
    }
    refused(&mut ledger, "k", 3, 1000);
    assert!(accepted(&mut ledger, "k", 5, 1000));
    assert!(accepted(&mut ledger, "k", 5, 1000));
    refused(&mut ledger, "k", 5, 1000);
    // Down again: both later ones must go too before one fits into a limit of 2.
    assert_eq!(refused(&mut ledger, "k", 2, 2000).reset, 59);
    assert_eq!(refused(&mut ledger, "k", 1, 2000).reset, 59);
    assert_eq!(refused(&mut ledger, "k", 3, 2000).reset, 58);
}

#[test]
fn k3_f_one_count_for_a_key_whatever_the_model_and_one_for_each_key() {
    let mut ledger = RateLedger::new();
    assert!(accepted(&mut ledger, "a", 1, 0));
    assert!(!accepted(&mut ledger, "a", 1, 0));
    assert!(accepted(&mut ledger, "b", 1, 0));
    let operator = LedgerKey::Operator(KeyId::from("a"));
    assert!(matches!(ledger.take(&operator, 1, at(0)), Taken::Accepted(_)));
}

#[test]
fn a_limit_of_zero_lets_nothing_pass_and_keeps_no_entry() {
    let mut ledger = RateLedger::new();
    assert_eq!(refused(&mut ledger, "k", 0, 0), RateFigures { limit: 0, remaining: 0, reset: 60 });
    assert!(ledger.is_empty());
}

#[test]
fn looking_counts_nothing() {
    let mut ledger = RateLedger::new();
    for _ in 0..10 {
        assert_eq!(ledger.look(&key("k"), 3, at(0)), RateFigures { limit: 3, remaining: 3, reset: 0 });
    }
    assert!(ledger.is_empty());
    assert!(accepted(&mut ledger, "k", 3, 0));
    assert_eq!(ledger.look(&key("k"), 3, at(0)).remaining, 2);
    assert_eq!(ledger.look(&key("k"), 3, at(61_000)).remaining, 3);
}

#[test]
fn a_count_holds_one_bucket_for_each_second_of_its_minute() {
    let mut ledger = RateLedger::new();
    // Up to the middle of a second, so that the first and the last one are there in part.
    for millis in (0..199_600).step_by(100) {
        assert!(accepted(&mut ledger, "k", u32::MAX, millis));
    }
    assert!(!ledger.is_empty());
    assert_eq!(ledger.counts[&key("k")].buckets.len(), 61, "however many requests there were");
}

#[test]
fn idle_entries_go_and_busy_ones_stay() {
    let mut ledger = RateLedger::new();
    for number in 0..1000 {
        assert!(accepted(&mut ledger, &format!("idle-{number}"), 10, 0));
    }
    assert_eq!(ledger.len(), 1000);
    for number in 0..1000u64 {
        accepted(&mut ledger, "busy", 1_000_000, 70_000 + number);
    }
    assert_eq!(ledger.len(), 1);
    assert_eq!(ledger.look(&key("busy"), 1_000_000, at(71_000)).remaining, 999_000);
}

#[test]
fn an_entry_holds_at_most_61_buckets() {
    let mut window = Window::default();
    for second in 0..1000 {
        window.forget(at(second * 1000));
        window.add(at(second * 1000));
        assert!(window.buckets.len() <= 61);
    }
}

#[test]
fn nobody_waits_longer_than_the_window_nor_is_sent_too_early() {
    let mut ledger = RateLedger::new();
    // At the beginning and the end of a second, which the bucket of that second must not mix up.
    assert!(accepted(&mut ledger, "k", 2, 5_000));
    assert!(accepted(&mut ledger, "k", 2, 5_990));
    assert_eq!(refused(&mut ledger, "k", 2, 5_990).reset, 60);
    assert_eq!(refused(&mut ledger, "k", 2, 6_990).reset, 59);
    assert_eq!(refused(&mut ledger, "k", 2, 65_989).reset, 1);
    assert!(accepted(&mut ledger, "k", 2, 65_990));
}

proptest! {
    /// Against an exact log of accepted timestamps: no window of 60 s holds more than the limit, nothing is refused once
    /// 61 s have passed since enough of them, and the figures are right.
    #[test]
    fn exact_against_a_log_of_timestamps(
        limit in 1u32..6,
        gaps in prop::collection::vec(prop_oneof![0u64..300, 0u64..20_000, 50_000u64..70_000], 1..80),
    ) {
        let mut ledger = RateLedger::new();
        let mut log: Vec<u64> = Vec::new();
        let mut now = 0;
        for gap in gaps {
            now += gap;
            let within = |age: u64| log.iter().filter(|then| now - **then < age).count() as u32;
            let (surely, maybe) = (within(60_000), within(61_000));
            match ledger.take(&key("k"), limit, at(now)) {
                Taken::Accepted(figures) => {
                    prop_assert!(surely < limit, "more than {limit} within 60 s at {now}");
                    log.push(now);
                    prop_assert!(figures.remaining < limit);
                }
                Taken::Refused(figures) => {
                    prop_assert!(maybe >= limit, "refused at {now} with {maybe} within 61 s");
                    prop_assert_eq!(figures.remaining, 0);
                    prop_assert!((1..=60).contains(&figures.reset), "a wait of {} s", figures.reset);
                    // One second before its reset it would still be refused, at its reset it is accepted.
                    let free = now + u64::from(figures.reset) * 1000;
                    prop_assert!(matches!(ledger.clone().take(&key("k"), limit, at(free)), Taken::Accepted(_)));
                    let early = free.saturating_sub(1000);
                    if early > now {
                        prop_assert!(matches!(ledger.clone().take(&key("k"), limit, at(early)), Taken::Refused(_)));
                    }
                }
            }
        }
    }
}
