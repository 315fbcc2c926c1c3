//! How often the one replica that there is may be asked, and after which pause (data-plane 3.4, 3.7).

use core::time::Duration;

use crate::config::backends::RetryOverride;

/// The wait before the only replica is asked once more, unless it has settings of its own.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);

/// Whether a replica that was asked `asked` times may be asked again; `retries_left` is what counts without settings of
/// its own.
pub(super) fn may_ask(own: Option<&RetryOverride>, asked: u32, retries_left: bool) -> bool {
    own.and_then(|own| own.max_attempts).map_or(retries_left, |most| asked < most)
}

/// The pause before try `number` (from 0), `chance` being any number. Doubles with each, less a part by chance.
pub(super) fn pause(own: Option<&RetryOverride>, number: u32, chance: u64) -> Duration {
    let own = own.cloned().unwrap_or_default();
    let doublings = if own.exponential_backoff.unwrap_or(true) { number.min(6) } else { 0 };
    let step = own.base_delay.unwrap_or(FIRST_BACKOFF).saturating_mul(1 << doublings);
    let step = own.max_delay.map_or(step, |most| step.min(most));
    if own.jitter.unwrap_or(true) { step / 2 + step.mul_f64((chance % 512) as f64 / 1024.0) } else { step }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn pauses_double_and_vary_unless_told_otherwise() {
        for number in 0..4 {
            let step = FIRST_BACKOFF * (1 << number);
            let all: Vec<Duration> = (0..512).map(|chance| pause(None, number, chance)).collect();
            assert!(all.iter().all(|pause| (step / 2..=step).contains(pause)) && all[0] != all[511]);
        }
        let own = RetryOverride {
            max_attempts: Some(5),
            base_delay: Some(millis(10)),
            max_delay: Some(millis(25)),
            exponential_backoff: None,
            jitter: Some(false),
        };
        assert_eq!([0, 1, 2, 9].map(|number| pause(Some(&own), number, 7)), [10, 20, 25, 25].map(millis));
        assert!(may_ask(Some(&own), 4, false) && !may_ask(Some(&own), 5, true), "its own number is what counts");
        let steady = RetryOverride { exponential_backoff: Some(false), ..own };
        assert_eq!([0, 9].map(|number| pause(Some(&steady), number, 7)), [10, 10].map(millis));
        assert!(may_ask(None, 9, true) && !may_ask(None, 1, false));
    }
}
