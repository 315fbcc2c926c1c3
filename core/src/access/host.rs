//! What the host name of a request stands for on a wildcard worker (worker-protocol 4.4, step 1; 9, Legacy).

use core::net::{IpAddr, Ipv6Addr};
use core::str::FromStr as _;
use http::header::HOST;
use http::request::Parts;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// What a host name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place<'a> {
    /// All circuits, by model name; pages about this node are here too.
    Aggregation,
    /// This node under a name of its own: only pages about it, nothing else.
    Node,
    /// The one label before the wildcard domain, lower-case: a circuit's sub-domain, if there is one.
    Label(Cow<'a, str>),
    /// Nothing of ours.
    Elsewhere,
}

/// The names this worker answers to. All are compared in lower case, without port and trailing dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts {
    /// With its leading dot.
    domain: Box<str>,
    aggregation: BTreeSet<Box<str>>,
    hostname: Box<str>,
}

impl Hosts {
    /// Takes `wildcard_domain` (with its leading dot), `aggregation_hosts` and `hostname` as configured.
    #[must_use]
    pub fn new<'a>(
        wildcard_domain: &str,
        aggregation_hosts: impl IntoIterator<Item = &'a str>,
        hostname: &str,
    ) -> Self {
        let domain = plain_name(wildcard_domain);
        let apex = domain.strip_prefix('.').unwrap_or(&domain).into();
        let aggregation = aggregation_hosts.into_iter().map(plain_name).chain([apex]).collect();
        Self { domain, aggregation, hostname: plain_name(hostname) }
    }

    /// What `host` stands for: the text of a Host line or of an authority.
    ///
    /// ```
    /// use appproxy_core::access::host::{Hosts, Place};
    /// let hosts = Hosts::new(".apps.example.com", [], "router.example.com");
    /// assert_eq!(hosts.place(b"FOO.Apps.Example.COM.:8443"), Place::Label("foo".into()));
    /// assert_eq!(hosts.place(b"apps.example.com"), Place::Aggregation);
    /// assert_eq!(hosts.place(b"foo.apps.example.com.evil.test"), Place::Elsewhere);
    /// ```
    #[must_use]
    pub fn place<'a>(&self, host: &'a [u8]) -> Place<'a> {
        let Some(name) = Name::read(host) else { return Place::Elsewhere };
        let text = match name {
            Name::Address(address) => {
                let same = |name: &str| IpAddr::from_str(name).is_ok_and(|known| known.to_canonical() == address);
                let aggregated = self.aggregation.iter().any(|name| same(name));
                return if aggregated { Place::Aggregation } else { Place::Node };
            }
            Name::Domain(text) => text,
        };
        if self.aggregation.contains(text.as_ref()) {
            return Place::Aggregation;
        }
        if text == self.hostname.as_ref() || text == "localhost" {
            return Place::Node;
        }
        // Cut at the end only: `foo.apps.example.com.evil.test` is none of ours.
        let Some(end) = text.strip_suffix(self.domain.as_ref()).map(str::len) else { return Place::Elsewhere };
        let label = match text {
            Cow::Borrowed(text) => text.get(..end).map(Cow::Borrowed),
            Cow::Owned(mut text) => {
                text.truncate(end);
                Some(Cow::Owned(text))
            }
        };
        match label {
            Some(label) if !label.is_empty() && !label.contains('.') => Place::Label(label),
            _ => Place::Elsewhere,
        }
    }
}

/// The host a request is for: the authority of its target when it has one (an absolute target, HTTP/2), else its Host
/// line (RFC 9112, 3.2.2). `None` without either, or with several Host lines.
#[must_use]
pub fn asked(parts: &Parts) -> Option<&[u8]> {
    let mut lines = parts.headers.get_all(HOST).iter();
    let (line, further) = (lines.next(), lines.next());
    if further.is_some() {
        return None;
    }
    match parts.uri.authority() {
        Some(authority) => Some(authority.as_str().as_bytes()),
        None => line.map(|value| value.as_bytes()),
    }
}

/// A host without its port.
enum Name<'a> {
    Address(IpAddr),
    /// Lower-case, without a trailing dot.
    Domain(Cow<'a, str>),
}

impl<'a> Name<'a> {
    /// Reads `name`, `name:port`, `[v6]`, `[v6]:port`. A user before the host, percent-encoding, and whatever else is not
    /// a name as DNS knows them is nothing: names with such bytes belong to no circuit.
    fn read(host: &'a [u8]) -> Option<Self> {
        let text = core::str::from_utf8(host).ok()?;
        if let Some(rest) = text.strip_prefix('[') {
            let (address, port) = rest.split_once(']')?;
            let address = Ipv6Addr::from_str(address).ok()?;
            return is_port(port).then(|| Self::Address(IpAddr::V6(address).to_canonical()));
        }
        let (name, port) = text.find(':').map_or((text, ""), |at| text.split_at(at));
        if !is_port(port) {
            return None;
        }
        let name = name.strip_suffix('.').unwrap_or(name);
        if let Ok(address) = IpAddr::from_str(name) {
            return Some(Self::Address(address));
        }
        if name.is_empty() || !name.bytes().all(is_name_byte) {
            return None;
        }
        let upper = name.bytes().any(|byte| byte.is_ascii_uppercase());
        Some(Self::Domain(if upper { name.to_ascii_lowercase().into() } else { name.into() }))
    }
}

/// Letters, digits, hyphen, dot, and the underscore that some names have.
const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

/// Nothing, or a colon and a port, which may be left out (RFC 3986, 3.2.3).
fn is_port(text: &str) -> bool {
    match text.strip_prefix(':') {
        Some(digits) => {
            digits.is_empty() || (digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u16>().is_ok())
        }
        None => text.is_empty(),
    }
}

/// A configured name in the form that requests are compared in.
fn plain_name(name: &str) -> Box<str> {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).map(str::to_owned);
    bare.unwrap_or(name).into()
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
