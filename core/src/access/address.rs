//! Whose address a request comes from (worker-protocol 5.3, "Client IP everywhere"; 9, Gate).

use core::net::{IpAddr, SocketAddr};
use core::str::FromStr;
use ipnet::IpNet;

/// The other end of a connection, as the listener saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// A TCP peer.
    Ip(IpAddr),
    /// A unix socket: it has no address.
    Unix,
}

impl Peer {
    /// Its address, an IPv4-mapped one in its plain form.
    #[must_use]
    pub const fn address(self) -> Option<IpAddr> {
        match self {
            Self::Ip(address) => Some(address.to_canonical()),
            Self::Unix => None,
        }
    }
}

/// `server.trusted_proxies`: peers whose `X-Forwarded-*` headers are believed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrustedProxies {
    networks: Vec<IpNet>,
    unix: bool,
}

/// An entry of `server.trusted_proxies` that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{entry}` is no address, no network and not `unix`; write `10.0.0.1`, `10.0.0.0/8`, `2001:db8::/32` or `unix`"
)]
pub struct BadProxy {
    /// The entry as written.
    pub entry: String,
}

impl TrustedProxies {
    /// Reads the entries of the list.
    ///
    /// # Errors
    /// The first entry that is no address, no network and not `unix`.
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, BadProxy> {
        let mut list = Self::default();
        for entry in entries {
            let text = entry.trim();
            if text.eq_ignore_ascii_case("unix") {
                list.unix = true;
            } else {
                list.networks.push(network(text).ok_or_else(|| BadProxy { entry: entry.to_owned() })?);
            }
        }
        Ok(list)
    }

    /// Whether this peer's forwarding headers are believed.
    #[must_use]
    pub fn trusts(&self, peer: Peer) -> bool {
        match peer {
            Peer::Ip(_) if self.networks.is_empty() => false,
            Peer::Ip(address) => self.holds(address.to_canonical()),
            Peer::Unix => self.unix,
        }
    }

    fn holds(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(&address))
    }
}

/// The client's address, IPv4-mapped ones in their plain form; `None` is unknown, which every IP list refuses.
///
/// `forwarded` are the values of `X-Forwarded-For` in the order of their lines; they are read from the right only as
/// far as the walk goes, and only when `peer` is trusted.
#[must_use]
pub fn client_address<'a, I>(peer: Peer, trusted: &TrustedProxies, forwarded: I) -> Option<IpAddr>
where
    I: IntoIterator<Item = &'a [u8]>,
    I::IntoIter: DoubleEndedIterator,
{
    let own = peer.address();
    if !trusted.trusts(peer) {
        return own;
    }
    let mut furthest = own;
    for line in forwarded.into_iter().rev() {
        for entry in line.rsplit(|byte| *byte == b',') {
            // An unreadable entry hides who stands behind it, and nothing further left can be believed.
            let address = entry_address(entry)?;
            if !trusted.holds(address) {
                return Some(address);
            }
            furthest = Some(address);
        }
    }
    furthest
}

/// Reads `ip`, `ip:port`, `[v6]` or `[v6]:port`.
fn entry_address(entry: &[u8]) -> Option<IpAddr> {
    let text = core::str::from_utf8(entry).ok()?.trim_matches([' ', '\t']);
    let address = IpAddr::from_str(text)
        .ok()
        .or_else(|| SocketAddr::from_str(text).ok().map(|socket| socket.ip()))
        .or_else(|| text.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6))?;
    Some(address.to_canonical())
}

/// Reads an address or a network: host bits cut, IPv4-mapped networks in their IPv4 form.
fn network(text: &str) -> Option<IpNet> {
    let net = match IpAddr::from_str(text) {
        Ok(address) => IpNet::from(address),
        Err(_) => IpNet::from_str(text).ok()?,
    };
    let plain = match net {
        IpNet::V6(v6) => match (v6.addr().to_ipv4_mapped(), v6.prefix_len().checked_sub(96)) {
            (Some(v4), Some(prefix)) => IpNet::new(IpAddr::V4(v4), prefix).ok()?,
            _ => net,
        },
        IpNet::V4(_) => net,
    };
    Some(plain.trunc())
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
