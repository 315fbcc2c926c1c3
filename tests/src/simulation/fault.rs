//! What can go wrong in a simulated world, and how often it does in one run.

use appproxy_core::seed::Draws;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub enum Fault {
    /// A bus message does not reach a node (or an ack the coordinator).
    Lost,
    /// A bus message reaches a node twice.
    Duplicated,
    /// A bus message takes seconds.
    Delayed,
    /// A bus message is overtaken by the next ones.
    Reordered,
    /// The bus is away, for all or for one node, and comes back.
    BusDown,
    /// A call or its answer takes seconds.
    CallSlow,
    /// A call comes to nothing: refused, reset, not HTTP, 5xx, 429.
    CallFailed,
    /// The body of an answer is cut off.
    CallTruncated,
    /// An answer comes after the call's deadline, or never.
    CallLate,
    /// The coordinator restarts.
    CoordinatorRestarted,
    /// The coordinator forgets the worker's row, perhaps with its circuits.
    RowForgotten,
    /// The coordinator says 404 although the row is there.
    FalseLoss,
    /// The coordinator is restored from a backup: an older state under a lower revision.
    BackupRestored,
    /// The coordinator rejects the secret for a while.
    SecretRejected,
    /// The coordinator refuses registrations for a while, as one before BEP-1053 does.
    RegistrationRefused,
    /// A node's process is killed; another takes its place later.
    NodeKilled,
    /// A node's process leaves in good order; another takes its place later.
    NodeLeft,
    /// The wall clock is stepped, forward or back.
    WallStepped,
    /// A bus message is not readable.
    MalformedMessage,
    /// An element of the coordinator's answers is not readable, its id perhaps neither.
    MalformedElement,
    /// A circuit's removal is announced before it is committed.
    EarlyRemoval,
    /// The shell takes its time to swap a view in.
    SlowApply,
    /// An ack cannot be published at once.
    AckUnsent,
}

/// All kinds, in the order of [`Fault`].
pub const FAULTS: [Fault; 23] = [
    Fault::Lost,
    Fault::Duplicated,
    Fault::Delayed,
    Fault::Reordered,
    Fault::BusDown,
    Fault::CallSlow,
    Fault::CallFailed,
    Fault::CallTruncated,
    Fault::CallLate,
    Fault::CoordinatorRestarted,
    Fault::RowForgotten,
    Fault::FalseLoss,
    Fault::BackupRestored,
    Fault::SecretRejected,
    Fault::RegistrationRefused,
    Fault::NodeKilled,
    Fault::NodeLeft,
    Fault::WallStepped,
    Fault::MalformedMessage,
    Fault::MalformedElement,
    Fault::EarlyRemoval,
    Fault::SlowApply,
    Fault::AckUnsent,
];

impl Fault {
    /// Its name in the totals.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "message lost",
            Self::Duplicated => "message duplicated",
            Self::Delayed => "message delayed",
            Self::Reordered => "message reordered",
            Self::BusDown => "bus down and up",
            Self::CallSlow => "call slow",
            Self::CallFailed => "call failed",
            Self::CallTruncated => "answer truncated",
            Self::CallLate => "answer late or never",
            Self::CoordinatorRestarted => "coordinator restarted",
            Self::RowForgotten => "worker row forgotten",
            Self::FalseLoss => "404 though the row is there",
            Self::BackupRestored => "coordinator restored from a backup",
            Self::SecretRejected => "secret rejected",
            Self::RegistrationRefused => "registration refused",
            Self::NodeKilled => "node killed and restarted",
            Self::NodeLeft => "node left in good order",
            Self::WallStepped => "wall clock stepped",
            Self::MalformedMessage => "message malformed",
            Self::MalformedElement => "element malformed",
            Self::EarlyRemoval => "removal announced before its commit",
            Self::SlowApply => "apply slow",
            Self::AckUnsent => "ack not published at once",
        }
    }

    /// Whether it strikes single messages, calls, applies or changes; the others strike the world as a whole, each in
    /// its own time.
    #[must_use]
    pub const fn strikes_one_thing(self) -> bool {
        matches!(
            self,
            Self::Lost
                | Self::Duplicated
                | Self::Delayed
                | Self::Reordered
                | Self::CallSlow
                | Self::CallFailed
                | Self::CallTruncated
                | Self::CallLate
                | Self::MalformedMessage
                | Self::EarlyRemoval
                | Self::SlowApply
                | Self::AckUnsent
        )
    }

    /// How often it strikes with weight 1, in a thousand things.
    const fn permille(self) -> u64 {
        match self {
            Self::EarlyRemoval | Self::SlowApply => 60,
            Self::Lost | Self::CallSlow => 40,
            Self::Duplicated | Self::Delayed | Self::Reordered | Self::CallFailed => 20,
            _ => 10,
        }
    }
}

/// How much of each kind one run has; 0 is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mix {
    weights: [u64; FAULTS.len()],
}

impl Mix {
    /// No faults at all.
    #[must_use]
    pub const fn none() -> Self {
        Self { weights: [0; FAULTS.len()] }
    }

    /// The mix of a run: two kinds of five are off, the others skewed. `aim` are kinds that are always on, and strong.
    pub fn swarm(draws: &mut Draws, aim: &[Fault]) -> Self {
        let mut mix = Self::none();
        for (fault, weight) in FAULTS.into_iter().zip(&mut mix.weights) {
            let (on, skew) = (draws.below(5) >= 2, draws.below(10));
            *weight = if aim.contains(&fault) {
                12 + skew
            } else if on {
                1 + skew * skew / 16
            } else {
                0
            };
        }
        mix
    }

    /// The same without the kinds that `off` names.
    #[must_use]
    pub fn without(mut self, off: &[Fault]) -> Self {
        for fault in off {
            self.weights[*fault as usize] = 0;
        }
        self
    }

    /// The chance, in a thousand, that this kind strikes the thing at hand.
    #[must_use]
    pub fn permille(&self, fault: Fault) -> u64 {
        (self.weights[fault as usize] * fault.permille()).min(700)
    }

    /// A fault of the world as a whole, by weight; `None` when all of them are off.
    pub fn of_the_world(&self, draws: &mut Draws) -> Option<Fault> {
        let whole = || FAULTS.into_iter().filter(|fault| !fault.strikes_one_thing());
        let sum: u64 = whole().map(|fault| self.weights[fault as usize]).sum();
        let mut at = draws.below(sum);
        whole().find(|fault| {
            let weight = self.weights[*fault as usize];
            let here = at < weight;
            at = at.saturating_sub(weight);
            here
        })
    }
}
