//! Which kinds of fault a deliberately wrong worker needs to be seen through.

use appproxy_core::worker::defects::Defect;

use super::fault::Fault;

/// Kinds that are always on, and strong, when this defect is looked for.
#[must_use]
pub const fn aim(defect: Defect) -> &'static [Fault] {
    match defect {
        Defect::NoOverlapReplay | Defect::OverlapEndsAtAnswer | Defect::NoticeAckedBy304 | Defect::AgainForgotten => {
            &[Fault::CallSlow]
        }
        Defect::TornAskedAsPartial => &[Fault::Lost, Fault::Delayed],
        Defect::RevisionSentWhileDirty => &[Fault::Delayed, Fault::Lost],
        Defect::NotModifiedCleans => &[Fault::CallSlow, Fault::Delayed],
        Defect::AckBeforeApply => &[Fault::SlowApply],
        Defect::AckOnMalformedKey | Defect::UnreadableRemovesCircuits => &[Fault::MalformedElement],
        Defect::NoticeLostOnFailedPull
        | Defect::HalfPullKept
        | Defect::FailedPullEmpties
        | Defect::FailedPullNotRetried
        | Defect::FailedHeartbeatStops => &[Fault::CallFailed],
        Defect::NoGuard | Defect::NoPullAfterGuard => &[Fault::EarlyRemoval],
        Defect::SubscribeAfterRegister | Defect::NeverWhole => &[],
        Defect::NoPullDeadline => &[Fault::CallLate],
        Defect::OldNotFoundObeyed => &[Fault::RowForgotten, Fault::CallSlow],
        Defect::NoRejoinBackoff => &[Fault::FalseLoss],
        Defect::HeartbeatAfterDelete | Defect::DeleteOverHeartbeat => &[Fault::NodeLeft, Fault::CallSlow],
        Defect::DeleteTwice => &[Fault::NodeLeft, Fault::CallFailed],
        Defect::RevisionByOrder => &[Fault::BackupRestored],
        Defect::AckFromShutdownOn => &[Fault::NodeLeft, Fault::SlowApply],
        Defect::AckWithoutFullPull => &[Fault::BusDown, Fault::SlowApply],
        Defect::AckTooLate => &[Fault::CallSlow, Fault::CallLate, Fault::BusDown],
        Defect::NoPullAfterSubscription | Defect::BusBackoffStartsOver => &[Fault::BusDown],
        Defect::DeadlinesByWallClock => &[Fault::WallStepped],
        Defect::RegisterGivesUp => &[Fault::CallFailed, Fault::CoordinatorRestarted],
        Defect::RegisterWithoutBackoff => &[Fault::CoordinatorRestarted],
        Defect::SecretRejectedUnsaid => &[Fault::SecretRejected],
        Defect::OldCoordinatorUnsaid => &[Fault::RegistrationRefused],
        Defect::HopelessTriedSoon => &[Fault::SecretRejected, Fault::RegistrationRefused],
        Defect::NotFoundIgnored | Defect::ConditionalAfterRejoin => &[Fault::RowForgotten],
        Defect::BackoffBlocksTick => &[Fault::CallFailed, Fault::Lost],
        Defect::UnreadableBodyIsEmpty | Defect::MalformedUnsaid => &[Fault::CallTruncated],
        Defect::AccessKeptOnRoutes
        | Defect::TokenOfAnyCircuit
        | Defect::AddressesNotAsked
        | Defect::ChainBeforeToken
        | Defect::ApexOpensAll => &[],
    }
}
