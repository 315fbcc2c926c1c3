//! Listeners: TCP and unix sockets.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};

use appproxy_core::config::server::BindAddress;

use crate::streams::{TcpListener, UnixListener, UnixStream};

/// An open listener.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, OwnSocket),
}

/// A socket file of ours, removed with its listener.
pub(crate) struct OwnSocket(String);

impl Drop for OwnSocket {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// Where a listener really is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoundAddress {
    /// A TCP address, its port chosen.
    Tcp(SocketAddr),
    /// A unix socket's path.
    Unix(String),
}

impl core::fmt::Display for BoundAddress {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{path}"),
        }
    }
}

impl Listener {
    /// Opens `address`, which stands at `key`; the error names both.
    pub(crate) async fn open(key: &str, address: &BindAddress, socket_mode: Option<u32>) -> Result<Self, String> {
        let opened = match address {
            BindAddress::Tcp { host, port } => TcpListener::bind((host.as_str(), *port)).await.map(Self::Tcp),
            BindAddress::Unix(path) => open_unix(path, socket_mode).await,
        };
        opened.map_err(|error| format!("{key}: cannot listen at {address}: {error}"))
    }

    /// Where it is.
    pub(crate) fn address(&self) -> io::Result<BoundAddress> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(BoundAddress::Tcp),
            Self::Unix(_, socket) => Ok(BoundAddress::Unix(socket.0.clone())),
        }
    }
}

async fn open_unix(path: &str, mode: Option<u32>) -> io::Result<Listener> {
    if std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        // A socket that nobody answers at is left over; one that answers belongs to somebody.
        if UnixStream::connect(path).await.is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens at this socket"));
        }
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    let socket = OwnSocket(path.to_owned());
    if let Some(mode) = mode {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    }
    Ok(Listener::Unix(listener, socket))
}
