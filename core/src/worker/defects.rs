//! Deliberately wrong variants of this worker, for the tests that show that they would be found.
//!
//! Without the feature `defects` no variant can be chosen and `has` is a constant.

use super::Worker;
use super::acks::KeyNotices;
use super::pull::Leg;
use crate::wire::circuit::Circuit;
use crate::wire::event::Ack;
use crate::wire::malformed::Elements;

/// One rule that a wrong worker does not follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Defect {
    /// What was heard during a pull is not applied again on its answer.
    NoOverlapReplay,
    /// What was heard between an answer and the apply is not applied again.
    OverlapEndsAtAnswer,
    /// A partial pull that looks torn is asked again as a partial one.
    TornAskedAsPartial,
    /// A 304 acks a key notice.
    NoticeAckedBy304,
    /// Known_revision is sent although events have changed the state.
    RevisionSentWhileDirty,
    /// A 304 makes clean what changed after its request was sent.
    NotModifiedCleans,
    /// Acks go before the view is in force.
    AckBeforeApply,
    /// A notice of a malformed key is acked.
    AckOnMalformedKey,
    /// A failed pull loses the key notices.
    NoticeLostOnFailedPull,
    /// A removed circuit is brought back by an early answer.
    NoGuard,
    /// No pull follows a guard that overruled an answer.
    NoPullAfterGuard,
    /// The bus comes after the registration.
    SubscribeAfterRegister,
    /// Pulls have no deadline.
    NoPullDeadline,
    /// A 404 of an earlier registration starts another one.
    OldNotFoundObeyed,
    /// Registrations after a 404 have no back-off.
    NoRejoinBackoff,
    /// The answered half of a failed pull is kept.
    HalfPullKept,
    /// An element without a readable id removes circuits.
    UnreadableRemovesCircuits,
    /// Heartbeats go on after the DELETE.
    HeartbeatAfterDelete,
    /// A DELETE without an answer is sent again.
    DeleteTwice,
    /// The DELETE does not wait for a heartbeat in flight.
    DeleteOverHeartbeat,
    /// A snapshot with a lower revision is not applied.
    RevisionByOrder,
    /// A trigger during a pull is forgotten.
    AgainForgotten,
    /// Acks go out after shutdown.
    AckFromShutdownOn,
    /// Acks held when the bus dropped do not wait for the full pull.
    AckWithoutFullPull,
    /// Acks go out later than 15 s after their event.
    AckTooLate,
    /// No pull follows a later subscription.
    NoPullAfterSubscription,
    /// The back-off of the bus starts over at once.
    BusBackoffStartsOver,
    /// Known_revision is sent for ever.
    NeverWhole,
    /// Deadlines follow the wall clock.
    DeadlinesByWallClock,
    /// A failed registration is not tried again.
    RegisterGivesUp,
    /// A failed registration is tried again at once.
    RegisterWithoutBackoff,
    /// A rejected secret is not named to the operator.
    SecretRejectedUnsaid,
    /// A refused registration is not explained to the operator.
    OldCoordinatorUnsaid,
    /// What only an operator can mend is tried again soon.
    HopelessTriedSoon,
    /// A 404 does not start a registration.
    NotFoundIgnored,
    /// The first pull of a registration is conditional.
    ConditionalAfterRejoin,
    /// A failed pull takes the state away.
    FailedPullEmpties,
    /// A failed pull is not tried again.
    FailedPullNotRetried,
    /// A failed heartbeat is the last one.
    FailedHeartbeatStops,
    /// A pull that waits for its back-off blocks the periodic one.
    BackoffBlocksTick,
    /// A body that cannot be read counts as an empty one.
    UnreadableBodyIsEmpty,
    /// A body that cannot be read is not reported.
    MalformedUnsaid,
    /// Legacy: a change of routes keeps who may use the circuit, as the stock worker does.
    AccessKeptOnRoutes,
    /// Legacy: a good token opens every circuit.
    TokenOfAnyCircuit,
    /// Legacy: the address list of a circuit is not looked at.
    AddressesNotAsked,
    /// Legacy: a circuit without a live replica lets everybody in, on to its chain.
    ChainBeforeToken,
    /// Legacy: the aggregation surface takes every circuit of the model.
    ApexOpensAll,
}

/// Whether the worker has this defect.
#[cfg(not(feature = "defects"))]
pub(crate) const fn has(_: Defect) -> bool {
    false
}

#[cfg(feature = "defects")]
pub use chosen::choose;
#[cfg(feature = "defects")]
pub(crate) use chosen::has;

impl Worker {
    /// What wrong workers do with a pull that failed.
    pub(super) fn spoil_failed_pull(&mut self, circuits: Leg<Elements<Circuit>>) {
        if has(Defect::NoticeLostOnFailedPull) {
            self.notices = KeyNotices::default();
        }
        if has(Defect::FailedPullEmpties) {
            self.desired.replace_circuits(Default::default());
        }
        if let (true, Leg::Answered(answer)) = (has(Defect::HalfPullKept), circuits) {
            self.desired.replace_circuits(answer.good.into_iter().map(|circuit| (circuit.id, circuit)).collect());
        }
    }

    /// What wrong workers do with a change of routes.
    pub(super) fn spoil_route_update(&self, circuit: &mut Circuit) {
        if has(Defect::AccessKeptOnRoutes)
            && let Some(known) = self.desired.circuits().get(&circuit.id)
        {
            circuit.open_to_public = known.open_to_public;
            circuit.allowed_client_ips.clone_from(&known.allowed_client_ips);
        }
    }

    /// What wrong workers do with a 304.
    pub(super) fn spoil_not_modified(&mut self) {
        if has(Defect::NotModifiedCleans) {
            self.snapshot.clean = true;
        }
        if has(Defect::NoticeAckedBy304) {
            for (key, notice) in self.notices.take_answered(u64::MAX) {
                self.promise(Ack::Key(key), notice.request_id, notice.heard_at);
            }
        }
    }
}

#[cfg(feature = "defects")]
mod chosen {
    use core::sync::atomic::{AtomicU32, Ordering};

    use super::Defect;

    const NONE: u32 = u32::MAX;

    /// One for the whole process: tests run one variant at a time.
    static CHOSEN: AtomicU32 = AtomicU32::new(NONE);

    /// Gives every worker of this process this defect, or none.
    pub fn choose(defect: Option<Defect>) {
        CHOSEN.store(defect.map_or(NONE, |defect| defect as u32), Ordering::SeqCst);
    }

    /// Whether the worker has this defect.
    pub(crate) fn has(defect: Defect) -> bool {
        CHOSEN.load(Ordering::Relaxed) == defect as u32
    }

    impl Defect {
        /// All of them.
        pub const ALL: [Self; 47] = [
            Self::NoOverlapReplay,
            Self::OverlapEndsAtAnswer,
            Self::TornAskedAsPartial,
            Self::NoticeAckedBy304,
            Self::RevisionSentWhileDirty,
            Self::NotModifiedCleans,
            Self::AckBeforeApply,
            Self::AckOnMalformedKey,
            Self::NoticeLostOnFailedPull,
            Self::NoGuard,
            Self::NoPullAfterGuard,
            Self::SubscribeAfterRegister,
            Self::NoPullDeadline,
            Self::OldNotFoundObeyed,
            Self::NoRejoinBackoff,
            Self::HalfPullKept,
            Self::UnreadableRemovesCircuits,
            Self::HeartbeatAfterDelete,
            Self::DeleteTwice,
            Self::DeleteOverHeartbeat,
            Self::RevisionByOrder,
            Self::AgainForgotten,
            Self::AckFromShutdownOn,
            Self::AckWithoutFullPull,
            Self::AckTooLate,
            Self::NoPullAfterSubscription,
            Self::BusBackoffStartsOver,
            Self::NeverWhole,
            Self::DeadlinesByWallClock,
            Self::RegisterGivesUp,
            Self::RegisterWithoutBackoff,
            Self::SecretRejectedUnsaid,
            Self::OldCoordinatorUnsaid,
            Self::HopelessTriedSoon,
            Self::NotFoundIgnored,
            Self::ConditionalAfterRejoin,
            Self::FailedPullEmpties,
            Self::FailedPullNotRetried,
            Self::FailedHeartbeatStops,
            Self::BackoffBlocksTick,
            Self::UnreadableBodyIsEmpty,
            Self::MalformedUnsaid,
            Self::AccessKeptOnRoutes,
            Self::TokenOfAnyCircuit,
            Self::AddressesNotAsked,
            Self::ChainBeforeToken,
            Self::ApexOpensAll,
        ];

        /// Whether only a legacy worker can have it.
        #[must_use]
        pub const fn is_legacy(self) -> bool {
            matches!(
                self,
                Self::AccessKeptOnRoutes
                    | Self::TokenOfAnyCircuit
                    | Self::AddressesNotAsked
                    | Self::ChainBeforeToken
                    | Self::ApexOpensAll
            )
        }

        /// Its name on the command line.
        #[must_use]
        pub const fn name(self) -> &'static str {
            match self {
                Self::NoOverlapReplay => "no-overlap-replay",
                Self::OverlapEndsAtAnswer => "overlap-ends-at-answer",
                Self::TornAskedAsPartial => "torn-asked-as-partial",
                Self::NoticeAckedBy304 => "notice-acked-by-304",
                Self::RevisionSentWhileDirty => "revision-sent-while-dirty",
                Self::NotModifiedCleans => "not-modified-cleans",
                Self::AckBeforeApply => "ack-before-apply",
                Self::AckOnMalformedKey => "ack-on-malformed-key",
                Self::NoticeLostOnFailedPull => "notice-lost-on-failed-pull",
                Self::NoGuard => "no-guard",
                Self::NoPullAfterGuard => "no-pull-after-guard",
                Self::SubscribeAfterRegister => "subscribe-after-register",
                Self::NoPullDeadline => "no-pull-deadline",
                Self::OldNotFoundObeyed => "old-not-found-obeyed",
                Self::NoRejoinBackoff => "no-rejoin-backoff",
                Self::HalfPullKept => "half-pull-kept",
                Self::UnreadableRemovesCircuits => "unreadable-removes-circuits",
                Self::HeartbeatAfterDelete => "heartbeat-after-delete",
                Self::DeleteTwice => "delete-twice",
                Self::DeleteOverHeartbeat => "delete-over-heartbeat",
                Self::RevisionByOrder => "revision-by-order",
                Self::AgainForgotten => "again-forgotten",
                Self::AckFromShutdownOn => "ack-from-shutdown-on",
                Self::AckWithoutFullPull => "ack-without-full-pull",
                Self::AckTooLate => "ack-too-late",
                Self::NoPullAfterSubscription => "no-pull-after-subscription",
                Self::BusBackoffStartsOver => "bus-backoff-starts-over",
                Self::NeverWhole => "never-whole",
                Self::DeadlinesByWallClock => "deadlines-by-wall-clock",
                Self::RegisterGivesUp => "register-gives-up",
                Self::RegisterWithoutBackoff => "register-without-backoff",
                Self::SecretRejectedUnsaid => "secret-rejected-unsaid",
                Self::OldCoordinatorUnsaid => "old-coordinator-unsaid",
                Self::HopelessTriedSoon => "hopeless-tried-soon",
                Self::NotFoundIgnored => "not-found-ignored",
                Self::ConditionalAfterRejoin => "conditional-after-rejoin",
                Self::FailedPullEmpties => "failed-pull-empties",
                Self::FailedPullNotRetried => "failed-pull-not-retried",
                Self::FailedHeartbeatStops => "failed-heartbeat-stops",
                Self::BackoffBlocksTick => "backoff-blocks-tick",
                Self::UnreadableBodyIsEmpty => "unreadable-body-is-empty",
                Self::MalformedUnsaid => "malformed-unsaid",
                Self::AccessKeptOnRoutes => "access-kept-on-routes",
                Self::TokenOfAnyCircuit => "token-of-any-circuit",
                Self::AddressesNotAsked => "addresses-not-asked",
                Self::ChainBeforeToken => "chain-before-token",
                Self::ApexOpensAll => "apex-opens-all",
            }
        }
    }
}
