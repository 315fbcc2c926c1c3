//! The end of a process: one signal drains, a second one cuts (data-plane 9).

use core::time::Duration;

use futures_util::FutureExt;

use crate::executor::{Switch, Timer, within};
use crate::part::or;

pub(crate) use crate::executor::Signals;

/// Signals so close to each other are one.
const TOGETHER: Duration = Duration::from_millis(50);

impl Signals {
    /// The next signal to end, by name.
    async fn next(&mut self) -> &'static str {
        loop {
            match self.next_of_all().await {
                // A worker that leaves has no use for another configuration.
                "SIGHUP" => {}
                signal => return signal,
            }
        }
    }

    /// Waits for the end; `Err` when one more signal is to cut it short.
    pub(crate) async fn unless_again(&mut self, end: impl Future<Output = ()>) -> Result<(), &'static str> {
        or(end.map(Ok), self.again().map(Err)).await
    }

    /// One more signal after the first. What comes together with it (process groups deliver twice) is still the first.
    async fn again(&mut self) -> &'static str {
        let together = async {
            loop {
                self.next_of_all().await;
            }
        };
        let _: Option<()> = within(TOGETHER, together).await;
        self.next().await
    }
}

/// The phases of the end, as the parts of this process wait for them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Phases {
    /// The listeners close; running requests go on.
    pub(crate) closing: Switch,
    /// Running requests are cut.
    pub(crate) cutting: Switch,
}

impl Phases {
    /// Walks through the phases. `all_done` resolves when no request runs any more.
    pub(crate) async fn walk(&self, notice: Duration, patience: Duration, all_done: impl Future<Output = ()>) {
        tracing::info!(seconds = notice.as_secs_f32(), "leaving: not ready any more, requests are still taken");
        Timer::after(notice).await;
        self.closing.turn();
        let mut all_done = core::pin::pin!(all_done);
        if within(patience, all_done.as_mut()).await.is_none() {
            tracing::warn!(seconds = patience.as_secs_f32(), "requests still run past server.shutdown_timeout: cut");
            self.cutting.turn();
            // Being cut takes no time worth speaking of; a connection that will not end must not keep us.
            let _ = within(Duration::from_secs(2), all_done).await;
        }
    }
}
