//! Whom a request goes to, as its URI says it.

use std::io;

use http::Request;
use http::header::{Entry, HOST, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme, Uri};

/// What a connection is opened to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    tls: bool,
    authority: Authority,
}

impl Peer {
    /// `None` for a URI without a host, or that is neither `http` nor `https`.
    pub(crate) fn of(uri: &Uri) -> Option<Self> {
        let scheme = uri.scheme()?;
        let tls = *scheme == Scheme::HTTPS;
        (tls || *scheme == Scheme::HTTP).then_some(())?;
        Some(Self { tls, authority: uri.authority()?.clone() })
    }

    /// Whether it is spoken to with TLS.
    pub(crate) const fn tls(&self) -> bool {
        self.tls
    }

    /// Its name or address; an IPv6 address stands in brackets in a URI, and without elsewhere.
    pub(crate) fn host(&self) -> &str {
        let host = self.authority.host();
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    /// Its port, or the usual one.
    pub(crate) fn port(&self) -> u16 {
        self.authority.port_u16().unwrap_or(if self.tls { 443 } else { 80 })
    }
}

/// Gives a request with an absolute URI the form it has on a connection to its peer.
pub(crate) fn for_origin<B>(request: &mut Request<B>) {
    let authority = request.uri().authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
    if let (Some(authority), Entry::Vacant(host)) = (authority, request.headers_mut().entry(HOST)) {
        host.insert(authority);
    }
    let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from(path);
}

/// No address could be found for a name; the resolver's words.
#[derive(Debug)]
pub(crate) struct Unresolved(String);

impl core::fmt::Display for Unresolved {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Unresolved {}

/// Marks what the resolver said as its own.
pub(crate) fn unresolved(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), Unresolved(error.to_string()))
}
