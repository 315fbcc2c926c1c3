//! A switch that is turned once, and that many wait for.

use core::convert::Infallible;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use async_channel::{Receiver, Sender, bounded};

/// A switch that is turned once, and that many wait for.
#[derive(Debug, Clone)]
pub(crate) struct Switch(Arc<Turning>);

#[derive(Debug)]
struct Turning {
    turned: AtomicBool,
    turn: Sender<Infallible>,
    wait: Receiver<Infallible>,
}

impl Default for Switch {
    fn default() -> Self {
        let (turn, wait) = bounded(1);
        Self(Arc::new(Turning { turned: AtomicBool::new(false), turn, wait }))
    }
}

impl Switch {
    /// Turns it, for good.
    pub(crate) fn turn(&self) {
        self.0.turned.store(true, Ordering::Release);
        self.0.turn.close();
    }

    /// Whether it is turned: without a lock, for those who ask often.
    pub(crate) fn is_turned(&self) -> bool {
        self.0.turned.load(Ordering::Acquire)
    }

    /// Resolves when it is turned.
    pub(crate) fn turned(&self) -> impl Future<Output = ()> + Send + use<> {
        let wait = self.0.wait.clone();
        // Nothing is ever sent: the channel closes.
        async move { while wait.recv().await.is_ok() {} }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::Plain;
    use crate::runtime::Runtime;
    use core::time::Duration;

    #[test]
    fn every_waiter_hears_of_a_switch() {
        let switch = Switch::default();
        let waiters: Vec<_> = (0..3).map(|_| Plain::spawn(switch.turned())).collect();
        assert!(!switch.is_turned());
        let within = |limit, turned| Plain::block_on(Plain::within(limit, turned)).expect("a runtime");
        assert_eq!(within(Duration::from_millis(1), switch.turned()), None);
        switch.turn();
        for waiter in waiters {
            let heard = Plain::block_on(Plain::within(Duration::from_secs(10), waiter)).expect("a runtime");
            assert!(matches!(heard, Some(Ok(()))));
        }
        assert!(switch.is_turned());
    }
}
