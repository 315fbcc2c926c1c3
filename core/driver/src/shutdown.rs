//! The end of a process: one signal drains, a second one cuts (data-plane 9).

use core::time::Duration;
use std::io;

use futures_util::FutureExt;

use crate::part::or;
use crate::runtime::{self, Runtime, Timer};
use crate::switch::Switch;

/// Signals so close to each other are one.
const TOGETHER: Duration = Duration::from_millis(50);

/// The signals of this process.
pub(crate) struct Signals<R: Runtime>(R::Signals);

impl<R: Runtime> Signals<R> {
    /// Takes the signals over from the system's default, which is to die.
    pub(crate) fn listen() -> io::Result<Self> {
        runtime::Signals::listen().map(Self)
    }

    /// The next signal of any kind, by name.
    pub(crate) async fn next_of_all(&mut self) -> &'static str {
        runtime::Signals::next_of_all(&mut self.0).await
    }

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
        let _: Option<()> = R::within(TOGETHER, together).await;
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
    pub(crate) async fn walk<R: Runtime>(
        &self,
        notice: Duration,
        patience: Duration,
        all_done: impl Future<Output = ()> + Send,
    ) {
        tracing::info!(seconds = notice.as_secs_f32(), "leaving: not ready any more, requests are still taken");
        R::Timer::after(notice).await;
        self.closing.turn();
        let mut all_done = core::pin::pin!(all_done);
        if R::within(patience, all_done.as_mut()).await.is_none() {
            tracing::warn!(seconds = patience.as_secs_f32(), "requests still run past server.shutdown_timeout: cut");
            self.cutting.turn();
            // Being cut takes no time worth speaking of; a connection that will not end must not keep us.
            let _ = R::within(Duration::from_secs(2), all_done).await;
        }
    }
}
