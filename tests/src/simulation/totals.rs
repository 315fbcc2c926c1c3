//! What was seen in runs, added up.

use core::fmt;

use super::fault::{FAULTS, Fault};

/// Numbers of things that happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// How often each kind of fault struck, in the order of [`FAULTS`].
    pub faults: [u64; FAULTS.len()],
    /// Things that happened, one input, message, call or change each.
    pub steps: u64,
    /// Changes that the manager made.
    pub changes: u64,
    /// Requests of clients.
    pub asked: u64,
    /// Those that reached a replica.
    pub served: u64,
    /// Requests of a circuit's callers that a fallback was asked for.
    pub stood_in: u64,
    /// Those answered 404 `model_not_found`.
    pub not_found: u64,
    /// Those refused for their key.
    pub refused: u64,
    /// Acks that nodes sent.
    pub acks: u64,
    /// Strict revocations whose confirmations were held against what the nodes serve.
    pub revocations: u64,
    /// Pulls applied.
    pub pulls: u64,
    /// Of these, with events heard between sending and applying.
    pub overlaps: u64,
    /// Pulls asked again because they looked torn.
    pub torn: u64,
    /// 304 answers applied.
    pub not_modified: u64,
}

impl Totals {
    /// Counts a fault.
    pub const fn struck(&mut self, fault: Fault) {
        self.faults[fault as usize] += 1;
    }

    /// Adds another run's numbers.
    pub fn add(&mut self, other: &Self) {
        for (sum, one) in self.faults.iter_mut().zip(other.faults) {
            *sum += one;
        }
        for (sum, one) in [
            (&mut self.steps, other.steps),
            (&mut self.changes, other.changes),
            (&mut self.asked, other.asked),
            (&mut self.served, other.served),
            (&mut self.stood_in, other.stood_in),
            (&mut self.not_found, other.not_found),
            (&mut self.refused, other.refused),
            (&mut self.acks, other.acks),
            (&mut self.revocations, other.revocations),
            (&mut self.pulls, other.pulls),
            (&mut self.overlaps, other.overlaps),
            (&mut self.torn, other.torn),
            (&mut self.not_modified, other.not_modified),
        ] {
            *sum += one;
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (fault, count) in FAULTS.iter().zip(self.faults) {
            writeln!(f, "{count:>12}  {}", fault.name())?;
        }
        writeln!(f, "steps {}, changes {}, acks {}", self.steps, self.changes, self.acks)?;
        writeln!(
            f,
            "requests {}: served {}, refused {}, 404s {}; revocations checked {}",
            self.asked, self.served, self.refused, self.not_found, self.revocations
        )?;
        write!(
            f,
            "pulls applied {}, overlaps {}, torn {}, not modified {}",
            self.pulls, self.overlaps, self.torn, self.not_modified
        )
    }
}
