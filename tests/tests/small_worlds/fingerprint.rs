//! What a worker's future depends on, as one number.

use core::fmt::{self, Write as _};
use core::hash::{Hash, Hasher};
use std::collections::hash_map::DefaultHasher;

use appproxy_core::time::Now;
use appproxy_core::worker::Worker;

/// Two 64-bit hashes: equal ones are taken for equal worlds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Fingerprint(u64, u64);

impl Fingerprint {
    pub(crate) fn of<T: Hash>(value: &T) -> Self {
        let (mut one, mut other) = (DefaultHasher::new(), DefaultHasher::new());
        1_u8.hash(&mut other);
        value.hash(&mut one);
        value.hash(&mut other);
        Self(one.finish(), other.finish())
    }
}

/// The whole of a worker as its `Debug` tells it, without what only counts: serial numbers and moments are told
/// relative to the newest one, so that workers which differ in nothing else are the same.
pub(crate) fn of_worker(worker: &Worker, now: Now) -> Fingerprint {
    let mut told = Told {
        text: String::with_capacity(8192),
        started: false,
        now: now.moment.as_millis(),
        call: 0,
        pull: None,
        field: Field::Other,
        word: Word::Other,
    };
    let written = write!(told, "{worker:?}");
    assert!(written.is_ok() && told.started && told.pull.is_some(), "the worker's Debug has changed its form");
    Fingerprint::of(&told.text)
}

/// `Debug` writes name, bracket and number one by one.
struct Told {
    text: String,
    /// Configuration, node id and draws come first and are left out: they change nothing that can happen here.
    started: bool,
    now: u64,
    call: u64,
    pull: Option<u64>,
    field: Field,
    word: Word,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    /// Moments beyond the horizon of a small world, or only shown.
    OutOfReach,
    Calls,
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Moment,
    CallId,
    /// Serial numbers that are equal whenever nothing is under way.
    Serial,
    Last,
    Pull,
    Other,
}

impl fmt::Write for Told {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        if !self.started {
            self.started = piece == "timers";
            return Ok(());
        }
        match piece.as_bytes().first() {
            Some(first) if first.is_ascii_digit() => self.number(piece),
            Some(first) if first.is_ascii_alphabetic() => {
                self.name(piece);
                self.text.push_str(piece);
            }
            _ => self.text.push_str(piece),
        }
        Ok(())
    }
}

impl Told {
    fn name(&mut self, name: &str) {
        self.word = match name {
            "Moment" => Word::Moment,
            "CallId" => Word::CallId,
            "Generation" | "AckId" | "sweep_at" => Word::Serial,
            "last" => Word::Last,
            "number" | "heard_before_pull" => Word::Pull,
            _ => Word::Other,
        };
        match name {
            "whole_at" | "last_full_pull" | "rejoin_not_before" | "Heartbeat" | "BusSettled" => {
                self.field = Field::OutOfReach;
            }
            "Calls" => self.field = Field::Calls,
            "Moment" | "Some" | "last" => {}
            _ => self.field = Field::Other,
        }
    }

    fn number(&mut self, digits: &str) {
        let Ok(number) = digits.parse::<u64>() else { return self.text.push_str(digits) };
        let relative = match (self.word, self.field) {
            (Word::Serial, _) | (Word::Moment, Field::OutOfReach) => return,
            (Word::Moment, _) => number.wrapping_sub(self.now),
            (Word::CallId, _) => self.call.wrapping_sub(number),
            (Word::Last, field) => {
                if field == Field::Calls {
                    self.call = number;
                }
                return;
            }
            // A notice was heard before the last pull was sent, or after: how long before makes no difference.
            (Word::Pull, _) => self.pull.get_or_insert(number).wrapping_sub(number).min(1),
            (Word::Other, _) => return self.text.push_str(digits),
        };
        // Writing into a string cannot fail.
        let _ = write!(self.text, "{relative}");
    }
}
