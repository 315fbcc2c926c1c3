//! What becomes of a file that is read while the worker runs: whole or not at all, and what needs a restart is named
//! (data-plane 8).

use core::fmt;
use sha2::{Digest, Sha256};

use super::Config;
use super::server::{Admin, Server};
use super::worker::WorkerConfig;
use crate::defects::{Defect, has};

/// What a reload comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What is in force from now on: the file, but for what needs a restart.
    pub config: Config,
    /// Keys and sections that changed in the file and count only after a restart, sorted.
    pub restart: Vec<&'static str>,
    /// Keys and sections whose change counts now, sorted.
    pub applied: Vec<&'static str>,
    /// Static backends whose credential is another one.
    pub rekeyed: Vec<std::sync::Arc<str>>,
}

impl Plan {
    /// Whether anything differs.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.restart.is_empty() && self.applied.is_empty()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.applied.is_empty(), self.restart.is_empty()) {
            (true, true) => write!(f, "nothing in it differs"),
            (false, true) => write!(f, "in force: {}", self.applied.join(", ")),
            (true, false) => write!(f, "counts after a restart: {}", self.restart.join(", ")),
            (false, false) => {
                write!(f, "in force: {}; counts after a restart: {}", self.applied.join(", "), self.restart.join(", "))
            }
        }
    }
}

/// What `read` changes of `running`.
#[must_use]
pub fn plan(running: &Config, read: Config) -> Plan {
    let read = if has(Defect::ReloadUnheard) { running.clone() } else { read };
    let mut notes = Notes::default();
    // Taken apart without `..`: a new key has to be put somewhere.
    let Config {
        worker,
        server,
        admin,
        routing,
        request,
        fallback,
        backends,
        api_keys,
        health_checks,
        passive,
        logging,
        journal,
    } = read;
    let section = running.worker.as_ref().or(worker.as_ref()).map_or("appproxy_router", WorkerConfig::section);
    let old_keys = |name: &str| running.backends.iter().find(|old| *old.name == *name).map(|old| &old.api_key);
    let rekeyed = backends.iter().filter(|new| old_keys(&new.name).is_some_and(|old| *old != new.api_key));
    let rekeyed = rekeyed.map(|new| new.name.clone()).collect();
    let config = Config {
        worker: notes.fixed(section, &running.worker, worker),
        server: plan_server(&mut notes, &running.server, server),
        admin: plan_admin(&mut notes, &running.admin, admin),
        routing: notes.live("routing", &running.routing, routing),
        request: notes.live("request", &running.request, request),
        fallback: notes.live("fallback", &running.fallback, fallback),
        backends: notes.live("backends", &running.backends, backends),
        api_keys: notes.live("api_keys", &running.api_keys, api_keys),
        health_checks: notes.live("health_checks", &running.health_checks, health_checks),
        passive: notes.live("passive", &running.passive, passive),
        logging: notes.live("logging", &running.logging, logging),
        journal: notes.fixed("journal", &running.journal, journal),
    };
    notes.restart.sort_unstable();
    notes.applied.sort_unstable();
    Plan { config, restart: notes.restart, applied: notes.applied, rekeyed }
}

fn plan_server(notes: &mut Notes, running: &Server, read: Server) -> Server {
    let Server {
        bind,
        socket_mode,
        tls,
        max_body_size,
        max_buffered,
        max_header_size,
        header_timeout,
        idle_timeout,
        max_connections,
        trusted_proxies,
        cors_allowed_origins,
        shutdown_timeout,
        drain_notice,
    } = read;
    Server {
        bind: notes.fixed("server.bind_address", &running.bind, bind),
        socket_mode: notes.fixed("server.socket_mode", &running.socket_mode, socket_mode),
        tls: notes.fixed("server.tls", &running.tls, tls),
        max_body_size: notes.live("server.max_body_size", &running.max_body_size, max_body_size),
        max_buffered: notes.live("server.max_buffered", &running.max_buffered, max_buffered),
        max_header_size: notes.live("server.max_header_size", &running.max_header_size, max_header_size),
        header_timeout: notes.live("server.header_timeout", &running.header_timeout, header_timeout),
        idle_timeout: notes.live("server.idle_timeout", &running.idle_timeout, idle_timeout),
        max_connections: notes.live("server.max_connections", &running.max_connections, max_connections),
        trusted_proxies: notes.live("server.trusted_proxies", &running.trusted_proxies, trusted_proxies),
        cors_allowed_origins: notes.live("server.cors", &running.cors_allowed_origins, cors_allowed_origins),
        shutdown_timeout: notes.live("server.shutdown_timeout", &running.shutdown_timeout, shutdown_timeout),
        drain_notice: notes.live("server.drain_notice", &running.drain_notice, drain_notice),
    }
}

fn plan_admin(notes: &mut Notes, running: &Admin, read: Admin) -> Admin {
    let Admin { bind, token } = read;
    Admin {
        bind: notes.fixed("admin.bind_address", &running.bind, bind),
        token: notes.live("admin.token", &running.token, token),
    }
}

#[derive(Default)]
struct Notes {
    restart: Vec<&'static str>,
    applied: Vec<&'static str>,
}

impl Notes {
    /// The new value, noted when it is one.
    fn live<T: PartialEq>(&mut self, key: &'static str, running: &T, read: T) -> T {
        if *running != read {
            self.applied.push(key);
        }
        read
    }

    /// The running value; another one is noted.
    fn fixed<T: PartialEq + Clone>(&mut self, key: &'static str, running: &T, read: T) -> T {
        if *running != read {
            self.restart.push(key);
        }
        running.clone()
    }
}

/// Tells when files that are looked at now and then are to be read anew: once for every content, when it has stood
/// still from one look to the next. So a file half-written is not judged, and one put back is.
#[derive(Debug, Clone)]
pub struct Watch {
    judged: [u8; 32],
    last: [u8; 32],
}

impl Watch {
    /// Files whose contents have been judged.
    #[must_use]
    pub fn new(contents: &[Vec<u8>]) -> Self {
        let hash = hash(contents);
        Self { judged: hash, last: hash }
    }

    /// Takes a look; whether they are to be judged now. Files that cannot be read are on their way: give nothing.
    pub fn look(&mut self, contents: &[Vec<u8>]) -> bool {
        let seen = hash(contents);
        let still = seen == core::mem::replace(&mut self.last, seen);
        let due = still && seen != self.judged;
        if due {
            self.judged = seen;
        }
        due
    }

    /// They were judged without being asked for.
    pub fn judged(&mut self, contents: &[Vec<u8>]) {
        *self = Self::new(contents);
    }
}

fn hash(contents: &[Vec<u8>]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for content in contents {
        hasher.update(u64::try_from(content.len()).unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(content);
    }
    hasher.finalize().into()
}

#[cfg(test)]
#[path = "tests/reload.rs"]
mod tests;
