use super::*;
use crate::desired::BackendKind;

const BAD: ProbeSign = ProbeSign::Bad;
const LOADING: ProbeSign = ProbeSign::Unavailable;
const GOOD: ProbeSign = ProbeSign::Good(None);

fn backend() -> Backend {
    Backend {
        name: "b".into(),
        kind: BackendKind::Vllm,
        tls: false,
        host: "10.0.0.1".into(),
        port: 8000,
        base_path: Arc::default(),
        weight: 100,
        models: Arc::default(),
        served_names: Arc::default(),
        aliases: Arc::default(),
        credential: None,
    }
}

/// Three bad ones put it down, two good ones bring it back; 10 s to warm up.
fn checks() -> HealthChecks {
    HealthChecks { max_warmup_duration: Duration::from_secs(10), ..HealthChecks::default() }
}

/// The states after each sign, a second apart.
fn states(signs: &[ProbeSign]) -> Vec<Health> {
    let mut record = Record::new(&backend());
    let after = |(second, sign): (u64, &ProbeSign)| {
        record.take_sign(sign.clone(), Moment::from_millis(second * 1000), &checks());
        record.health()
    };
    (0..).zip(signs).map(after).collect()
}

#[test]
fn results_that_alternate_change_nothing() {
    assert_eq!(states(&[GOOD, BAD, GOOD, BAD, GOOD, LOADING, GOOD, BAD, BAD, GOOD]), [Health::Ready; 10]);
    assert_eq!(
        states(&[BAD, BAD, GOOD, BAD, BAD]),
        [Health::Unknown, Health::Unknown, Health::Ready, Health::Ready, Health::Ready]
    );
}

#[test]
fn the_third_bad_one_removes_it_and_the_second_good_one_in_a_row_restores_it() {
    use Health::{Down, Ready};
    let signs = [GOOD, BAD, BAD, BAD, GOOD, BAD, GOOD, GOOD, BAD];
    assert_eq!(states(&signs), [Ready, Ready, Ready, Down, Down, Down, Down, Ready, Ready]);
    assert_eq!(states(&[BAD, BAD, BAD])[2], Down, "a new one is no different");
}

#[test]
fn a_new_one_that_says_503_is_not_served_from_and_comes_by_two_good_ones() {
    use Health::{Ready, WarmingUp};
    assert_eq!(
        states(&[LOADING, LOADING, GOOD, LOADING, GOOD, GOOD]),
        [WarmingUp, WarmingUp, WarmingUp, WarmingUp, WarmingUp, Ready]
    );
}

#[test]
fn one_that_served_needs_three_503_in_a_row_and_then_warms_up() {
    use Health::{Ready, WarmingUp};
    assert_eq!(states(&[GOOD, LOADING, LOADING, LOADING]), [Ready, Ready, Ready, WarmingUp]);
    assert_eq!(states(&[GOOD, BAD, BAD, LOADING])[3], WarmingUp, "the last one says which it is");
}

#[test]
fn warming_up_has_its_time_and_begins_anew_only_after_something_else() {
    let mut signs = vec![LOADING; 10];
    signs.extend([LOADING, LOADING, BAD, LOADING, GOOD, GOOD]);
    let states = states(&signs);
    assert_eq!(states[..10], [Health::WarmingUp; 10]);
    use Health::{Down, Ready, WarmingUp};
    // Down at 10 s, and still; another process seems to have begun at 13 s.
    assert_eq!(states[10..], [Down, Down, Down, WarmingUp, WarmingUp, Ready]);
}

#[test]
fn one_that_warms_up_and_then_is_silent_is_down_after_three() {
    use Health::{Down, WarmingUp};
    assert_eq!(
        states(&[LOADING, BAD, BAD, LOADING, BAD, BAD, BAD])[2..],
        [WarmingUp, WarmingUp, WarmingUp, WarmingUp, Down]
    );
}

#[test]
fn waits_are_short_while_it_warms_up_or_comes_back() {
    let checks = checks();
    let mut record = Record::new(&backend());
    let mut wait = |sign| {
        record.take_sign(sign, Moment::START, &checks);
        record.wait(&checks)
    };
    assert_eq!(wait(GOOD), checks.interval);
    assert_eq!(wait(BAD), checks.interval, "a doubt is no reason to ask a busy one more often");
    wait(BAD);
    assert_eq!(wait(BAD), checks.interval);
    assert_eq!(wait(GOOD), checks.warmup_check_interval);
    assert_eq!(wait(BAD), checks.interval);
    assert_eq!(wait(LOADING), checks.warmup_check_interval);
    wait(GOOD);
    assert_eq!(wait(GOOD), checks.interval);
}

#[test]
fn only_a_list_teaches_names_and_they_stay() {
    let mut record = Record::new(&backend());
    let names = |names: &[&str]| Some(names.iter().map(|name| Arc::from(*name)).collect::<Arc<[Arc<str>]>>());
    record.take_sign(ProbeSign::Good(names(&["a", "b"])), Moment::START, &checks());
    for sign in [GOOD, BAD, BAD, BAD, LOADING] {
        record.take_sign(sign, Moment::START, &checks());
        assert_eq!(record.served, names(&["a", "b"]));
    }
    record.take_sign(ProbeSign::Good(names(&["c"])), Moment::START, &checks());
    assert_eq!(record.served, names(&["c"]));
}

#[test]
fn another_address_is_another_process() {
    let record = Record::new(&backend());
    let moved: [fn(&mut Backend); 4] =
        [|it| it.tls = true, |it| it.host = "h".into(), |it| it.port = 1, |it| it.base_path = "/x".into()];
    for change in moved {
        let mut other = backend();
        change(&mut other);
        assert!(!record.is_of(&other));
    }
    let same = Backend { weight: 1, kind: BackendKind::Generic, models: Arc::from([Arc::from("m")]), ..backend() };
    assert!(record.is_of(&same));
}
