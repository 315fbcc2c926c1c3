//! Listeners: TCP and unix sockets.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use appproxy_core::config::server::BindAddress;

use crate::runtime::Runtime;

/// An open listener.
pub(crate) enum Listener<R: Runtime> {
    Tcp(R::TcpListener, SocketAddr),
    Unix(R::UnixListener, OwnSocket),
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

impl<R: Runtime> Listener<R> {
    /// Opens `address`, which stands at `key`; the error names both.
    pub(crate) async fn open(key: &str, address: &BindAddress, socket_mode: Option<u32>) -> Result<Self, String> {
        let opened = match address {
            BindAddress::Tcp { host, port } => {
                R::listen(host, *port).await.map(|(listener, at)| Self::Tcp(listener, at))
            }
            BindAddress::Unix(path) => open_unix(path, socket_mode).await,
        };
        opened.map_err(|error| format!("{key}: cannot listen at {address}: {error}"))
    }

    /// Where it is.
    pub(crate) fn address(&self) -> BoundAddress {
        match self {
            Self::Tcp(_, at) => BoundAddress::Tcp(*at),
            Self::Unix(_, socket) => BoundAddress::Unix(socket.0.clone()),
        }
    }
}

async fn open_unix<R: Runtime>(path: &str, mode: Option<u32>) -> io::Result<Listener<R>> {
    if std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        // A socket that nobody answers at is left over; one that answers belongs to somebody.
        if R::connect_unix(Path::new(path)).await.is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens at this socket"));
        }
        std::fs::remove_file(path)?;
    }
    let listener = R::listen_unix(Path::new(path))?;
    let socket = OwnSocket(path.to_owned());
    if let Some(mode) = mode {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    }
    Ok(Listener::Unix(listener, socket))
}
