//! `run`: the worker until a signal ends it, on the configuration as it is from time to time (data-plane 8).

use core::marker::PhantomData;
use core::time::Duration;
use std::path::{Path, PathBuf};

use appproxy_core::config::reload::Watch;
use appproxy_core::config::server::TlsFiles;
use appproxy_core::telemetry::Reading;
use futures_util::FutureExt;

use crate::part::or;
use crate::runtime::{Runtime, Timer};
use crate::shutdown::Signals;
use crate::start::Running;
use crate::{Failed, check, logs};

/// How often files are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// What ends waiting.
enum Met {
    Signal(&'static str),
    Broken(Failed),
    Changed,
}

/// Runs the worker of `config`, or of the first file found.
///
/// # Errors
/// Exit code 2 for a configuration that is wrong, 1 for what fails here, or for a second signal.
pub fn main<R: Runtime>(config: Option<&Path>) -> Result<(), Failed> {
    let path = check::find(config)?;
    let loaded = check::load_to_start(&path)?;
    logs::start_as(&loaded.config.logging).map_err(Failed::config)?;
    tracing::info!(config = %path.display(), version = env!("CARGO_PKG_VERSION"), "starting");
    check::warn(&loaded);
    R::block_on(async {
        let mut signals = Signals::<R>::listen().map_err(|error| Failed::run(format!("signals: {error}")))?;
        let mut files = Files::<R>::of(path, loaded.config.server.tls.as_ref()).await;
        let mut running = Running::start(loaded.config).await?;
        let signal = loop {
            let (signal, broken) = (signals.next_of_all().map(Met::Signal), running.broken().map(Met::Broken));
            match or(signal, or(broken, files.changed().map(|()| Met::Changed))).await {
                Met::Signal("SIGHUP") => {
                    tracing::info!("SIGHUP: the configuration is read anew");
                    files.judged().await;
                }
                Met::Signal(signal) => break signal,
                Met::Broken(failed) => return Err(failed),
                Met::Changed => tracing::info!("the configuration has changed and is read anew"),
            }
            reload(&files, &mut running).await;
        };
        tracing::info!(signal, "stopping");
        let cut = |signal| Failed::run(format!("a second signal ({signal}): stopped at once"));
        signals.unless_again(running.stop()).await.map_err(cut)
    })?
}

async fn reload<R: Runtime>(files: &Files<R>, running: &mut Running<R>) {
    let path = files.config().to_owned();
    let judged = match R::aside(move || check::load(&path)).await {
        Some(Ok(loaded)) => {
            check::warn(&loaded);
            running.reload(loaded.config).await
        }
        Some(Err(failed)) => Err(failed.message),
        None => Err("to read it met a fault of this worker; please report it".to_owned()),
    };
    match judged {
        Ok(plan) if plan.is_empty() => {
            running.note_reload(Reading::Unchanged);
            tracing::info!("configuration: {plan}");
        }
        Ok(plan) => {
            running.note_reload(Reading::Applied);
            tracing::info!("configuration: {plan}");
            if !plan.restart.is_empty() {
                tracing::warn!(keys = plan.restart.join(", "), "restart the worker for these to count");
            }
        }
        Err(problems) => {
            running.note_reload(Reading::Refused(&problems));
            tracing::error!("the configuration is refused, and the one in force stays:\n{problems}");
        }
    }
}

/// The files a worker runs on: its configuration, and a certificate and its key.
struct Files<R> {
    paths: Vec<PathBuf>,
    watch: Watch,
    runtime: PhantomData<R>,
}

impl<R: Runtime> Files<R> {
    async fn of(config: PathBuf, tls: Option<&TlsFiles>) -> Self {
        let mut paths = vec![config];
        if let Some(TlsFiles { cert_file, key_file }) = tls {
            paths.extend([cert_file.into(), key_file.into()]);
        }
        let contents = contents::<R>(&paths).await.unwrap_or_default();
        Self { paths, watch: Watch::new(&contents), runtime: PhantomData }
    }

    fn config(&self) -> &Path {
        self.paths.first().map_or_else(|| Path::new(""), PathBuf::as_path)
    }

    /// Resolves when they are to be read anew.
    async fn changed(&mut self) {
        loop {
            R::Timer::after(LOOK).await;
            if let Some(contents) = contents::<R>(&self.paths).await
                && self.watch.look(&contents)
            {
                return;
            }
        }
    }

    async fn judged(&mut self) {
        if let Some(contents) = contents::<R>(&self.paths).await {
            self.watch.judged(&contents);
        }
    }
}

/// `None` while one of them cannot be read: it may be on its way.
async fn contents<R: Runtime>(paths: &[PathBuf]) -> Option<Vec<Vec<u8>>> {
    let paths = paths.to_owned();
    R::aside(move || paths.iter().map(|path| std::fs::read(path).ok()).collect()).await?
}
