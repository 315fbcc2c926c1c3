//! The end of a process: one signal drains, a second one cuts (data-plane 9).

use core::time::Duration;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// SIGTERM and SIGINT.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes both signals over from the system's default, which is to die.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The next signal's name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// The phases of the end, as the parts of this process wait for them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Phases {
    /// `/readyz` says 503; requests are still taken.
    pub(crate) leaving: CancellationToken,
    /// The listeners close; running requests go on.
    pub(crate) closing: CancellationToken,
    /// Running requests are cut.
    pub(crate) cutting: CancellationToken,
}

impl Phases {
    /// Walks through the phases. `all_done` resolves when no request runs any more.
    pub(crate) async fn walk(&self, notice: Duration, patience: Duration, all_done: impl Future<Output = ()>) {
        self.leaving.cancel();
        tracing::info!(seconds = notice.as_secs_f32(), "leaving: not ready any more, requests are still taken");
        tokio::time::sleep(notice).await;
        self.closing.cancel();
        tokio::pin!(all_done);
        if tokio::time::timeout(patience, &mut all_done).await.is_err() {
            tracing::warn!(seconds = patience.as_secs_f32(), "requests still run past server.shutdown_timeout: cut");
            self.cutting.cancel();
            // Being cut takes no time worth speaking of; a connection that will not end must not keep us.
            drop(tokio::time::timeout(Duration::from_secs(2), all_done).await);
        }
    }
}
