//! Asking until something is so, within a limit.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

/// What most waits of a test allow. Long, because a busy machine is no failure; a wait that succeeds ends at once.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The pause between two questions: first short, so that quick things stay quick.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The moment after which a wait gives up.
#[derive(Debug, Clone, Copy)]
pub struct Limit(Instant);

impl Limit {
    /// `allowed` from now on.
    #[must_use]
    pub fn after(allowed: Duration) -> Self {
        Self(Instant::now() + allowed)
    }

    /// What is left, or nothing when the limit has passed.
    #[must_use]
    pub fn left(self) -> Option<Duration> {
        let left = self.0.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// What is left, or a `TimedOut` error which names `what` was awaited.
    ///
    /// # Errors
    /// When the limit has passed.
    pub fn left_for(self, what: &str) -> io::Result<Duration> {
        self.left().ok_or_else(|| io::Error::new(io::ErrorKind::TimedOut, format!("gave up waiting for {what}")))
    }
}

/// Asks `probe` until it gives a value.
///
/// # Panics
/// When `allowed` has passed; the message names `what` was awaited.
#[track_caller]
pub fn for_some<T>(what: &str, allowed: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    let limit = Limit::after(allowed);
    let mut pause = FIRST_PAUSE;
    loop {
        // Read before the question: a question asked within the limit counts, however long its answer took.
        let left = limit.left();
        if let Some(found) = probe() {
            return found;
        }
        let Some(left) = left else { panic!("gave up after {allowed:?} waiting for {what}") };
        thread::sleep(pause.min(left));
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Asks `probe` until it says yes.
///
/// # Panics
/// When `allowed` has passed; the message names `what` was awaited.
#[track_caller]
pub fn until(what: &str, allowed: Duration, mut probe: impl FnMut() -> bool) {
    for_some(what, allowed, || probe().then_some(()));
}

/// A loopback port nobody listens on right now. Somebody else may take it before it is used: whoever can, should
/// listen on port 0 and tell.
///
/// # Errors
/// When no port is to be had.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_comes_later_is_returned() {
        let mut asked = 0;
        let found = for_some("the third question", PATIENCE, || {
            asked += 1;
            (asked == 3).then_some("yes")
        });
        assert_eq!((found, asked), ("yes", 3));
    }

    #[test]
    #[should_panic(expected = "waiting for something that never comes")]
    fn what_never_comes_ends_the_wait_and_is_named() {
        until("something that never comes", Duration::from_millis(5), || false);
    }

    #[test]
    fn a_passed_limit_asks_once_more_before_giving_up() {
        assert_eq!(for_some("an answer that is there", Duration::ZERO, || Some(7)), 7);
    }

    #[test]
    fn a_passed_limit_has_nothing_left_and_names_what_was_awaited() {
        let limit = Limit::after(Duration::ZERO);
        assert_eq!(limit.left(), None);
        let refused = limit.left_for("the head of an answer").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        assert!(refused.to_string().contains("the head of an answer"), "{refused}");
    }
}
