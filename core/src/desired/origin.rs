//! Whom a request goes to, as its URI says it.

use http::Request;
use http::header::{Entry, HOST, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme, Uri};

/// What a connection is opened to: scheme, host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    tls: bool,
    authority: Authority,
}

impl Origin {
    pub(super) const fn new(tls: bool, authority: Authority) -> Self {
        Self { tls, authority }
    }

    pub(super) const fn authority(&self) -> &Authority {
        &self.authority
    }

    /// `None` for a URI without a host, or that is neither `http` nor `https`.
    #[must_use]
    pub fn of(uri: &Uri) -> Option<Self> {
        let scheme = uri.scheme()?;
        let tls = *scheme == Scheme::HTTPS;
        (tls || *scheme == Scheme::HTTP).then_some(())?;
        Some(Self { tls, authority: uri.authority()?.clone() })
    }

    /// Whether it is spoken to with TLS.
    #[must_use]
    pub const fn tls(&self) -> bool {
        self.tls
    }

    /// Its name or address; an IPv6 address stands in brackets in a URI, and without elsewhere.
    #[must_use]
    pub fn host(&self) -> &str {
        let host = self.authority.host();
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    /// Its port, or the usual one.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.authority.port_u16().unwrap_or(if self.tls { 443 } else { 80 })
    }

    /// Gives a request with an absolute URI the form it has on a connection to its origin: a path, and `Host` unless it
    /// is there.
    pub fn form<B>(request: &mut Request<B>) {
        let authority = request.uri().authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
        if let (Some(authority), Entry::Vacant(host)) = (authority, request.headers_mut().entry(HOST)) {
            host.insert(authority);
        }
        let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        *request.uri_mut() = Uri::from(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(uri: &'static str) -> Option<(bool, String, u16)> {
        Origin::of(&Uri::from_static(uri)).map(|origin| (origin.tls(), origin.host().to_owned(), origin.port()))
    }

    #[test]
    fn a_uri_says_whom_to_connect_to_and_how() {
        assert_eq!(origin("http://replica/v1"), Some((false, "replica".to_owned(), 80)));
        assert_eq!(origin("https://replica:8443"), Some((true, "replica".to_owned(), 8443)));
        assert_eq!(origin("https://[::1]/"), Some((true, "::1".to_owned(), 443)));
        assert_eq!((origin("/v1"), origin("ftp://replica/")), (None, None));
    }

    #[test]
    fn on_its_connection_a_request_has_a_path_and_one_host() {
        let mut request = Request::get("http://replica:9/v1?a=b").body(()).unwrap();
        Origin::form(&mut request);
        assert!(request.uri() == "/v1?a=b" && request.headers()[HOST] == "replica:9", "{request:?}");
        let mut request = Request::get("http://replica").header(HOST, "asked.for").body(()).unwrap();
        Origin::form(&mut request);
        assert!(request.uri() == "/" && request.headers()[HOST] == "asked.for", "{request:?}");
    }
}
