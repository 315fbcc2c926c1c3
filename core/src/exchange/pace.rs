//! The pace of a client's connection: a slow head told from an idle connection, a client that has only closed its side
//! from one that is gone, bytes that must not pass from those that may. HTTP libraries cannot tell them apart.

use core::time::Duration;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::framing::{BadHead, Framing};
use crate::time::Moment;

/// A client that has closed its side while it waits for an answer is gone when nothing could be written to it for this
/// long.
const GONE_AFTER: Duration = Duration::from_millis(800);

/// What the parts of one connection know of it.
#[derive(Debug, Default)]
pub struct Pace {
    busy: AtomicBool,
    upgraded: AtomicBool,
    /// The moment at which the first byte of an unfinished head came, and one; 0 when there is none.
    head_since: AtomicU64,
    /// The same of a write that the client does not take.
    write_since: AtomicU64,
    refused: OnceLock<BadHead>,
}

impl Pace {
    /// A request is being answered, or no more.
    pub fn set_busy(&self, busy: bool) {
        self.busy.store(busy, Ordering::Relaxed);
    }

    /// The connection becomes a tunnel: nothing is judged any more.
    pub fn upgrade(&self) {
        self.upgraded.store(true, Ordering::Relaxed);
    }

    /// The head that ended this connection.
    pub fn refused(&self) -> Option<&BadHead> {
        self.refused.get()
    }

    /// Whether a head has taken longer than `head`, or the client has taken nothing for `write`.
    pub fn is_slow(&self, head: Duration, write: Duration, now: Moment) -> bool {
        let late = |since: &AtomicU64, limit| {
            let since = since.load(Ordering::Relaxed).checked_sub(1);
            since.is_some_and(|since| now.since(Moment::from_millis(since)) >= limit)
        };
        late(&self.head_since, head) || late(&self.write_since, write)
    }

    fn note(since: &AtomicU64, waits: bool, now: Moment) {
        match (waits, since.load(Ordering::Relaxed)) {
            (true, 0) => since.store(now.as_millis().saturating_add(1), Ordering::Relaxed),
            (true, _) | (false, 0) => {}
            (false, _) => since.store(0, Ordering::Relaxed),
        }
    }
}

/// When the HTTP library is to hear that nothing more comes, which has it drop what runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// At once.
    Now,
    /// When the running answer has ended.
    WithTheAnswer,
    /// To be asked again then: the client may only have closed its side.
    LookAgain(Moment),
}

/// What comes in over one connection, and how what goes out is taken.
#[derive(Debug)]
pub struct Intake {
    framing: Framing,
    over: bool,
    written: u64,
    /// When a client that closed its side is looked at again, and what was written to it by then.
    leaving: Option<(Moment, u64)>,
}

impl Intake {
    /// A connection that begins. `max_head`: bytes of one head at most (`server.max_header_size`).
    #[must_use]
    pub fn new(max_head: u64) -> Self {
        Self { framing: Framing::new(max_head), over: false, written: 0, leaving: None }
    }

    /// Whether nothing more is to be read: the client closed its side, or a head was refused.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.over
    }

    /// These bytes came, none when the client closed its side. How many of them pass; once none does, [`Self::end`] tells
    /// when the library hears of it.
    #[must_use]
    pub fn came(&mut self, bytes: &[u8], pace: &Pace, now: Moment) -> usize {
        if bytes.is_empty() {
            self.over = true;
            return 0;
        }
        if pace.upgraded.load(Ordering::Relaxed) {
            self.framing.upgraded();
        }
        let judged = self.framing.see(bytes);
        Pace::note(&pace.head_since, self.framing.in_head(), now);
        let Err(fault) = judged else { return bytes.len() };
        self.over = true;
        if let Some(head) = fault.head {
            // It ends the connection, so there is no second one.
            drop(pace.refused.set(head));
        }
        fault.passes
    }

    /// When the library is to hear of the end.
    #[must_use]
    pub fn end(&mut self, pace: &Pace, now: Moment) -> Ended {
        if !pace.busy.load(Ordering::Relaxed) || self.framing.in_body() {
            return Ended::Now;
        }
        if pace.refused().is_some() {
            return Ended::WithTheAnswer;
        }
        match self.leaving {
            Some((due, _)) if now < due => Ended::LookAgain(due),
            Some((_, before)) if before == self.written => Ended::Now,
            _ => {
                let due = now.after(GONE_AFTER);
                self.leaving = Some((due, self.written));
                Ended::LookAgain(due)
            }
        }
    }

    /// So many bytes were written, or (`None`) the client takes none for now.
    pub fn wrote(&mut self, bytes: Option<usize>, pace: &Pace, now: Moment) {
        Pace::note(&pace.write_since, bytes.is_none(), now);
        self.written = self.written.saturating_add(bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    fn at(millis: u64) -> Moment {
        Moment::from_millis(millis)
    }

    #[test]
    fn an_unfinished_head_and_a_write_that_is_not_taken_are_slow_and_nothing_else() {
        let (mut intake, pace) = (Intake::new(65536), Pace::default());
        let slow = |now| pace.is_slow(LIMIT, LIMIT, at(now));
        assert!(!slow(60_000), "an idle connection is none of its business");
        let head = b"POST / HTTP/1.1\r\nContent-Length: 4\r\n";
        assert_eq!(intake.came(head, &pace, at(60_000)), head.len());
        assert!(!slow(69_999) && slow(70_000));
        assert_eq!(intake.came(b"\r\nbo", &pace, at(70_000)), 4);
        assert!(!slow(130_000), "a body is no head");
        intake.wrote(None, &pace, at(130_000));
        intake.wrote(None, &pace, at(139_000));
        assert!(!slow(139_999) && slow(140_000), "nobody reads");
        intake.wrote(Some(1), &pace, at(140_000));
        assert!(!slow(200_000));
    }

    #[test]
    fn a_client_that_closed_its_side_gets_what_can_be_written_and_one_that_takes_nothing_is_gone() {
        let (mut intake, pace) = (Intake::new(65536), Pace::default());
        let head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        assert_eq!(intake.came(head, &pace, at(0)), head.len());
        pace.set_busy(true);
        assert_eq!(intake.came(b"", &pace, at(0)), 0);
        assert!(intake.is_over());
        let mut now = at(0);
        for _ in 0..5 {
            let Ended::LookAgain(due) = intake.end(&pace, now) else { panic!("it takes what is written") };
            assert_eq!(due, now.after(GONE_AFTER));
            assert_eq!(intake.end(&pace, now.after(Duration::from_millis(1))), Ended::LookAgain(due));
            intake.wrote(Some(1), &pace, now);
            now = due;
        }
        let Ended::LookAgain(due) = intake.end(&pace, now) else { panic!("it took something") };
        assert_eq!(intake.end(&pace, due), Ended::Now);
    }

    #[test]
    fn a_bad_head_stays_unread_until_the_answer_before_it_has_ended() {
        let (mut intake, pace) = (Intake::new(65536), Pace::default());
        let both = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nContent-Length: x\r\n\r\n";
        assert_eq!(intake.came(both, &pace, at(0)), 27);
        assert!(pace.refused().is_some() && intake.is_over());
        pace.set_busy(true);
        assert_eq!(intake.end(&pace, at(60_000)), Ended::WithTheAnswer);
        pace.set_busy(false);
        assert_eq!(intake.end(&pace, at(60_000)), Ended::Now);
    }

    #[test]
    fn a_client_that_leaves_in_the_middle_of_its_body_is_gone_at_once_and_a_tunnel_is_not_judged() {
        let (mut intake, pace) = (Intake::new(65536), Pace::default());
        let head = b"POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nbo";
        assert_eq!(intake.came(head, &pace, at(0)), head.len());
        pace.set_busy(true);
        assert_eq!(intake.came(b"", &pace, at(0)), 0);
        assert_eq!(intake.end(&pace, at(0)), Ended::Now);
        let mut tunnel = Intake::new(65536);
        pace.upgrade();
        assert_eq!(tunnel.came(b"\x81\x00 no head\r\n\r\n", &pace, at(0)), 14);
        assert!(!pace.is_slow(LIMIT, LIMIT, at(60_000)));
    }
}
