//! `server` and `admin`: where the worker listens, and within which bounds (data-plane 2).

use core::fmt;
use core::time::Duration;

use crate::secret::Secret;

/// One place to listen at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum BindAddress {
    /// A TCP listener; `host` is a name or an address (IPv6 without brackets).
    Tcp {
        /// Name or address.
        host: String,
        /// Port; 0 has the system choose one.
        port: u16,
    },
    /// A unix socket at this path.
    Unix(String),
}

impl BindAddress {
    /// Whether only this machine can reach it.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Tcp { host, .. } => is_loopback_host(host),
            Self::Unix(_) => true,
        }
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{path}"),
        }
    }
}

/// `server`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Listeners of the data plane, in the order of the file; at least one, none twice.
    pub bind: Vec<BindAddress>,
    /// Permission bits of unix sockets.
    pub socket_mode: Option<u32>,
    /// Certificate and key of the TCP listeners.
    pub tls: Option<TlsFiles>,
    /// Bytes of one request body; above: 413.
    pub max_body_size: u64,
    /// Bytes of all bodies held in memory; above: 503 `overloaded`.
    pub max_buffered: u64,
    /// Bytes of one request head.
    pub max_header_size: u64,
    /// Time for a request head to arrive.
    pub header_timeout: Duration,
    /// Time a connection may stay without a request.
    pub idle_timeout: Duration,
    /// Connections at once.
    pub max_connections: u32,
    /// Addresses, networks or `unix`, checked, whose `X-Forwarded-*` are believed.
    pub trusted_proxies: Vec<String>,
    /// Origins whose pre-flights are granted; `*` is any.
    pub cors_allowed_origins: Vec<String>,
    /// Time for running requests to end at shutdown.
    pub shutdown_timeout: Duration,
    /// Time between `/readyz` turning 503 and the listeners closing.
    pub drain_notice: Duration,
}

/// Paths of a PEM certificate chain and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The chain.
    pub cert_file: String,
    /// The private key.
    pub key_file: String,
}

/// `admin`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Metrics, status page, explain.
    pub bind: BindAddress,
    /// What `Authorization: Bearer` must carry there; always there when the address is not loopback.
    pub token: Option<Secret>,
}

/// Whether `host` (a name or an address, no brackets) is this machine.
#[must_use]
pub(super) fn is_loopback_host(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<core::net::IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}
