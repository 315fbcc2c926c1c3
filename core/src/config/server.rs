//! `server` and `admin`: where the worker listens, and within which bounds (data-plane 2).

use core::fmt;
use core::time::Duration;

use super::forms;
use super::reader::{Reader, Scalar, Section};
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

/// Reads `server`. `any_origin` is the default of `cors.allowed_origins` in legacy mode.
pub(super) fn read(reader: &mut Reader<'_>, root: &Section<'_>, any_origin: bool) -> Server {
    let section = reader.section(root, "server");
    let server = Server {
        bind: read_bind(reader, &section),
        socket_mode: reader.value(&section, "socket_mode", forms::mode),
        tls: read_tls(reader, &section),
        max_body_size: reader.value(&section, "max_body_size", forms::size).unwrap_or(100 << 20),
        max_buffered: reader.value(&section, "max_buffered", forms::size).unwrap_or(1 << 30),
        max_header_size: reader.value(&section, "max_header_size", forms::size).unwrap_or(64 << 10),
        header_timeout: reader.value(&section, "header_timeout", forms::time).unwrap_or(Duration::from_secs(10)),
        idle_timeout: reader.value(&section, "idle_timeout", forms::time).unwrap_or(Duration::from_secs(75)),
        max_connections: reader.value(&section, "max_connections", forms::positive).unwrap_or(10_000),
        trusted_proxies: read_proxies(reader, &section),
        cors_allowed_origins: read_origins(reader, &section, any_origin),
        shutdown_timeout: reader
            .value(&section, "shutdown_timeout", forms::duration)
            .unwrap_or(Duration::from_secs(30)),
        drain_notice: reader.value(&section, "drain_notice", forms::duration).unwrap_or(Duration::from_secs(2)),
    };
    if server.max_body_size > server.max_buffered {
        let right = "raise max_buffered, or lower max_body_size";
        reader.problem(section.place("max_buffered"), section.key("max_buffered"), "smaller than max_body_size", right);
    }
    reader.finish(&section);
    server
}

fn read_bind(reader: &mut Reader<'_>, section: &Section<'_>) -> Vec<BindAddress> {
    let mut bind: Vec<BindAddress> = Vec::new();
    let given = reader.list(section, "bind_address");
    let defaulted = given.is_none();
    for scalar in given.unwrap_or_default() {
        let Some(address) = reader.formed(&scalar, forms::bind_address) else { continue };
        let chosen_by_system = matches!(address, BindAddress::Tcp { port: 0, .. });
        if bind.contains(&address) && !chosen_by_system {
            let wrong = format!("{} is listened at twice", scalar.quoted());
            reader.problem(scalar.at, scalar.key, wrong, "keep one of them");
        } else {
            bind.push(address);
        }
    }
    if defaulted {
        bind.push(BindAddress::Tcp { host: "0.0.0.0".to_owned(), port: 8080 });
    } else if bind.is_empty() && reader.problems.is_empty() {
        let right = "give at least one address, such as \"0.0.0.0:8080\"";
        reader.problem(section.place("bind_address"), section.key("bind_address"), "an empty list", right);
    }
    bind
}

fn read_tls(reader: &mut Reader<'_>, server: &Section<'_>) -> Option<TlsFiles> {
    let section = reader.section(server, "tls");
    let cert_file = reader.file(&section, "cert_file");
    let key_file = reader.file(&section, "key_file");
    for (name, other) in [("cert_file", "key_file"), ("key_file", "cert_file")] {
        if section.has(other) && !section.has(name) {
            let right = format!("give both, or leave {other} out for listeners without TLS");
            reader.problem(section.place(other), section.key(name), format!("missing beside {other}"), right);
        }
    }
    reader.finish(&section);
    Some(TlsFiles { cert_file: cert_file?, key_file: key_file? })
}

fn read_proxies(reader: &mut Reader<'_>, section: &Section<'_>) -> Vec<String> {
    let mut proxies = Vec::new();
    for scalar in reader.list(section, "trusted_proxies").unwrap_or_default() {
        let Some(entry) = reader.formed(&scalar, forms::proxy_entry) else { continue };
        if entry.ends_with("/0") {
            reader.warn(scalar.at, scalar.key, "every client may claim any address, so address lists protect nothing");
        }
        proxies.push(entry);
    }
    proxies
}

fn read_origins(reader: &mut Reader<'_>, server: &Section<'_>, any_origin: bool) -> Vec<String> {
    let section = reader.section(server, "cors");
    let given = reader.list(&section, "allowed_origins");
    reader.finish(&section);
    match given {
        Some(scalars) => scalars.iter().filter_map(|scalar| reader.formed(scalar, forms::origin)).collect(),
        None if any_origin => vec!["*".to_owned()],
        None => Vec::new(),
    }
}

/// Reads `admin`, which may not share a listener with `server`.
pub(super) fn read_admin(reader: &mut Reader<'_>, root: &Section<'_>, server: &Server) -> Admin {
    let section = reader.section(root, "admin");
    let given: Option<Scalar> = reader.scalar(&section, "bind_address");
    let bind = given.as_ref().and_then(|scalar| reader.formed(scalar, forms::bind_address));
    let bind = bind.unwrap_or_else(|| BindAddress::Tcp { host: "127.0.0.1".to_owned(), port: 9464 });
    let token = reader.secret(&section, "token");
    let (at, key) = (section.place("bind_address"), section.key("bind_address"));
    let shown = given.as_ref().map_or_else(|| bind.to_string(), Scalar::quoted);
    if server.bind.contains(&bind) && !matches!(bind, BindAddress::Tcp { port: 0, .. }) {
        reader.problem(
            at,
            key,
            format!("{shown} is listened at by the data plane already"),
            "give it a port of its own",
        );
    }
    if !bind.is_loopback() && !section.has("token") {
        let right = "give admin.token, or listen at 127.0.0.1";
        reader.problem(at, section.key("token"), format!("missing although {shown} is not on loopback"), right);
    }
    reader.finish(&section);
    Admin { bind, token }
}

/// Whether `host` (a name or an address, no brackets) is this machine.
#[must_use]
pub(super) fn is_loopback_host(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<core::net::IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}
