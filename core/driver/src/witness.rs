//! What requests met at the replicas, on its way to the control loop, where the core judges it (data-plane 4).

use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use appproxy_core::serving::{Drain, ExchangeEnded, Testimony, Witnesses};
use async_channel::{Receiver, Sender, TrySendError, bounded};

/// Ends on their way. Beyond: dropped and counted.
const ON_THE_WAY: usize = 1024;

/// The requests' side.
#[derive(Debug)]
pub(crate) struct Witness {
    witnesses: Mutex<Witnesses>,
    tell: Sender<Testimony>,
}

impl Witness {
    /// Both sides.
    pub(crate) fn new() -> (Self, Receiver<Testimony>) {
        let (tell, told) = bounded(ON_THE_WAY);
        (Self { witnesses: Mutex::default(), tell }, told)
    }

    fn witnesses(&self) -> MutexGuard<'_, Witnesses> {
        self.witnesses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells an end that changes something; `false`: it was lost, there are too many on the way.
    pub(crate) fn saw(&self, ended: &ExchangeEnded) -> bool {
        let mut witnesses = self.witnesses();
        // Sent under the lock: the ends of one backend are told in the order in which they were judged.
        !witnesses.tells(ended)
            || !matches!(self.tell.try_send(Testimony::Ended(ended.clone())), Err(TrySendError::Full(_)))
    }

    /// Tells what an operator said; `false`: it was lost, there are too many on the way.
    pub(crate) fn drain(&self, drain: Drain) -> bool {
        self.tell.try_send(Testimony::Drain(drain)).is_ok()
    }

    /// Lets go of backends that are gone.
    pub(crate) fn forget(&self, removed: &[Arc<str>]) {
        if !removed.is_empty() {
            self.witnesses().forget(removed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use appproxy_core::serving::AttemptEnd;
    use appproxy_core::time::Moment;

    #[test]
    fn what_changes_nothing_is_not_told_and_what_finds_no_room_is_lost() {
        let (witness, told) = Witness::new();
        let ended = |end| ExchangeEnded { backend: "b".into(), began: Moment::START, end };
        assert!(witness.saw(&ended(AttemptEnd::Answered(200))) && told.try_recv().is_err());
        assert!((0..ON_THE_WAY).all(|_| witness.saw(&ended(AttemptEnd::Broke))));
        assert!(!witness.saw(&ended(AttemptEnd::Silent)));
        assert_eq!(told.try_recv(), Ok(Testimony::Ended(ended(AttemptEnd::Broke))));
        assert!(witness.saw(&ended(AttemptEnd::Answered(200))), "there is room again");
        witness.forget(&["b".into()]);
        drop(told);
        assert!(witness.saw(&ended(AttemptEnd::Broke)), "a worker that is gone misses nothing");
    }
}
