//! Settings that a wrong program reads and does not keep.

use core::time::Duration;

use super::{Defect, has};
use crate::config::Config;
use crate::config::api_keys::KeyMode;
use crate::config::keys::KeyDoc;
use crate::config::routing::Weights;
use crate::config::server::BindAddress;
#[cfg(feature = "appproxy-router")]
use crate::config::worker::Mode;

/// What a wrong program keeps of an accepted configuration.
pub(crate) fn forget_some(config: &mut Config) {
    forget_of_server(config);
    if has(Defect::SilenceIgnored) {
        config.request.first_byte_timeout = Duration::from_secs(300);
        config.request.idle_timeout = Duration::from_secs(300);
    }
    if has(Defect::RetryBufferIgnored) {
        config.request.retry_buffer = 1 << 20;
    }
    if has(Defect::NoRetries) {
        config.request.max_retries = 0;
    }
    if has(Defect::RetryOverrideIgnored) {
        config.backends.iter_mut().for_each(|backend| backend.retry_override = None);
    }
    if has(Defect::FallbackIgnored) {
        config.fallback.clear();
    }
    if has(Defect::WeightsLiteral) {
        config.routing.weights = Weights::Literal;
    }
    if has(Defect::KeyAlwaysAsked) {
        config.api_keys.mode = KeyMode::Blocking;
    }
    if has(Defect::OneProbeDecides) {
        config.health_checks.unhealthy_threshold = 1;
    }
    if has(Defect::DownForEver) {
        config.health_checks.healthy_threshold = u32::MAX;
    }
    if has(Defect::TrafficUnheard) {
        config.passive.failures = u32::MAX;
    }
    let Some(worker) = &mut config.worker else { return };
    if has(Defect::PullsRare) {
        worker.reconcile_interval = Duration::from_secs(600);
    }
    if has(Defect::StalenessIgnored) {
        worker.max_staleness = None;
        #[cfg(feature = "appproxy-router")]
        if let Mode::Router(router) = &mut worker.mode {
            router.max_key_staleness = None;
        }
    }
}

fn forget_of_server(config: &mut Config) {
    let server = &mut config.server;
    if has(Defect::BodySizeIgnored) {
        server.max_body_size = 100 << 20;
    }
    if has(Defect::BodySizeOffByOne) {
        server.max_body_size += 1;
    }
    if has(Defect::BufferedIgnored) {
        server.max_buffered = 1 << 30;
    }
    if has(Defect::HeaderSizeIgnored) {
        server.max_header_size = 64 << 10;
    }
    if has(Defect::SlowPeersStay) {
        (server.header_timeout, server.idle_timeout) = (Duration::from_secs(3600), Duration::from_secs(3600));
    }
    if has(Defect::ConnectionsIgnored) {
        server.max_connections = 10_000;
    }
    if has(Defect::FewConnections) {
        server.max_connections = 50;
    }
    if has(Defect::SocketModeIgnored) {
        server.socket_mode = None;
    }
    if has(Defect::NoticeTooLong) {
        server.drain_notice = Duration::from_secs(60);
    }
    if has(Defect::CutAtOnce) {
        server.shutdown_timeout = Duration::ZERO;
    }
    if has(Defect::NeverCut) {
        server.shutdown_timeout = Duration::from_secs(3600);
    }
    if has(Defect::AnyPort) {
        for bind in &mut server.bind {
            if let BindAddress::Tcp { port, .. } = bind {
                *port = 0;
            }
        }
    }
}

/// What a wrong program makes of a variable's value.
pub(crate) fn forget_variables(value: Option<String>) -> Option<String> {
    value.filter(|_| !has(Defect::VariablesUnread))
}

/// Whether a key of the file is described to who asks for all of them: by a wrong program, not those of `fallback`.
pub(crate) fn told(doc: &&KeyDoc) -> bool {
    !(has(Defect::SectionUntold) && doc.key.starts_with("fallback"))
}
