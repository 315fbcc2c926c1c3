//! The lines of a request's head that go on to a replica (data-plane 3.8, 3.9).

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue};

use super::headers::{X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PROTO, X_REQUEST_ID};
use super::http1;
use crate::defects::{Defect, has};

static HTTP: HeaderValue = HeaderValue::from_static("http");
static HTTPS: HeaderValue = HeaderValue::from_static("https");

/// Takes the lines of a head.
pub(super) trait Lines {
    fn line(&mut self, name: &HeaderName, value: &HeaderValue);

    fn own(&mut self, own: Own, value: &HeaderValue);
}

/// The names of lines that we write ourselves.
#[derive(Debug, Clone, Copy)]
pub(super) enum Own {
    Host,
    RequestId,
    ForwardedFor,
    ForwardedProto,
    ForwardedHost,
    Length,
}

impl Own {
    pub(super) const fn name(self) -> HeaderName {
        match self {
            Self::Host => HOST,
            Self::RequestId => X_REQUEST_ID,
            Self::ForwardedFor => X_FORWARDED_FOR,
            Self::ForwardedProto => X_FORWARDED_PROTO,
            Self::ForwardedHost => X_FORWARDED_HOST,
            Self::Length => CONTENT_LENGTH,
        }
    }

    /// How such a line starts.
    #[inline(always)]
    pub(super) const fn start(self) -> &'static [u8] {
        match self {
            Self::Host => b"host: ",
            Self::RequestId => b"x-request-id: ",
            Self::ForwardedFor => b"x-forwarded-for: ",
            Self::ForwardedProto => b"x-forwarded-proto: ",
            Self::ForwardedHost => b"x-forwarded-host: ",
            Self::Length => b"content-length: ",
        }
    }
}

/// A head as it goes over the wire.
impl Lines for Vec<u8> {
    fn line(&mut self, name: &HeaderName, value: &HeaderValue) {
        http1::line(name, value, self);
    }

    // The start is known where this stands, and copied as the few words that it is.
    #[inline(always)]
    fn own(&mut self, own: Own, value: &HeaderValue) {
        self.extend_from_slice(own.start());
        self.extend_from_slice(value.as_bytes());
        self.extend_from_slice(b"\r\n");
    }
}

impl Lines for HeaderMap {
    fn line(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.append(name.clone(), value.clone());
    }

    fn own(&mut self, own: Own, value: &HeaderValue) {
        self.append(own.name(), value.clone());
    }
}

/// What a replica is told of the request beside the client's own lines.
#[derive(Debug, Clone)]
pub(super) struct Onward<'a> {
    /// The peer's own address, as it is written, unless it is a unix socket.
    pub(super) peer: Option<&'a HeaderValue>,
    /// Whether the peer's own `X-Forwarded-*` are believed.
    pub(super) trusted: bool,
    /// Whether the client's connection has TLS.
    pub(super) tls: bool,
    /// Whom the client asked for, where no `Host` says it.
    pub(super) authority: Option<HeaderValue>,
    pub(super) request_id: &'a HeaderValue,
    /// Whether the client's credentials go on.
    pub(super) credentials: bool,
    /// Whether there is a `Connection`, which may name more that stays behind.
    pub(super) options: bool,
}

/// What decides whether a client's header goes on to a replica.
enum Kind {
    /// It means one connection only.
    OfConnection,
    Host,
    Length,
    /// It is made anew for each request.
    OfRequest,
    Credential,
    ForwardedFor,
    ForwardedProto,
    ForwardedHost,
    Forwarded,
    Other,
}

impl Kind {
    fn of(name: &HeaderName) -> Self {
        let name = name.as_str();
        // By length first: the compiler would compare with one name after the other.
        match name.len() {
            2 if name == "te" => Self::OfConnection,
            4 if name == "host" => Self::Host,
            6 if name == "expect" => Self::OfRequest,
            7 if matches!(name, "trailer" | "upgrade") => Self::OfConnection,
            9 if name == "forwarded" => Self::Forwarded,
            9 if name == "x-api-key" => Self::Credential,
            10 if matches!(name, "connection" | "keep-alive") => Self::OfConnection,
            12 if name == "x-request-id" => Self::OfRequest,
            13 if name == "authorization" => Self::Credential,
            14 if name == "content-length" => Self::Length,
            14 if name == "x-goog-api-key" => Self::Credential,
            15 if name == "x-forwarded-for" => Self::ForwardedFor,
            16 if name == "x-forwarded-host" => Self::ForwardedHost,
            16 if name == "proxy-connection" => Self::OfConnection,
            17 if name == "x-forwarded-proto" => Self::ForwardedProto,
            17 if name == "transfer-encoding" => Self::OfConnection,
            18 if name == "proxy-authenticate" => Self::OfConnection,
            19 if name == "proxy-authorization" => Self::OfConnection,
            _ => Self::Other,
        }
    }
}

impl Onward<'_> {
    /// Says every line, those of one name one behind the other: those of the client that any replica may see, and ours.
    /// What depends on the replica comes from elsewhere: `Host`, length, a credential. Gives the length that the client
    /// states.
    pub(super) fn each<'h>(&self, asked: &'h HeaderMap, to: &mut impl Lines) -> Option<&'h HeaderValue> {
        let connection = self.options.then(|| asked.get_all(CONNECTION));
        let named = |name| connection.as_ref().is_some_and(|lines| lines.iter().any(|line| names(line, name)));
        let (mut host, mut length) = (None, None);
        let (mut others_for, mut said_proto, mut said_host) = (false, false, false);
        for (name, value) in asked {
            let kind = Kind::of(name);
            match kind {
                Kind::Host => host = host.or(Some(value)),
                Kind::Length => length = length.or(Some(value)),
                _ => {}
            }
            let passes = match kind {
                Kind::OfConnection => has(Defect::HopHeadersKept),
                Kind::Host | Kind::Length | Kind::OfRequest => false,
                Kind::Credential => self.credentials,
                Kind::ForwardedFor | Kind::ForwardedProto | Kind::ForwardedHost | Kind::Forwarded => self.trusted,
                Kind::Other => !has(Defect::OddHeadersDropped) || value.as_bytes().is_ascii(),
            };
            if !passes || named(name) {
                continue;
            }
            match kind {
                // All lines become one, with the peer behind them.
                Kind::ForwardedFor if self.peer.is_some() => {
                    others_for = true;
                    continue;
                }
                Kind::ForwardedProto => said_proto = true,
                Kind::ForwardedHost => said_host = true,
                _ => {}
            }
            to.line(name, value);
        }
        to.own(Own::RequestId, self.request_id);
        match self.peer {
            Some(peer) if others_for => {
                if let Some(all) = appended(asked, peer) {
                    to.own(Own::ForwardedFor, &all);
                }
            }
            Some(peer) => to.own(Own::ForwardedFor, peer),
            None => {}
        }
        if !said_proto {
            to.own(Own::ForwardedProto, if self.tls { &HTTPS } else { &HTTP });
        }
        if !said_host && let Some(host) = host.or(self.authority.as_ref()) {
            to.own(Own::ForwardedHost, host);
        }
        length
    }
}

/// Whether a line of `Connection` says that this header is for the connection only.
fn names(line: &HeaderValue, name: &HeaderName) -> bool {
    let mut options = line.as_bytes().split(|byte| *byte == b',');
    options.any(|option| option.trim_ascii().eq_ignore_ascii_case(name.as_str().as_bytes()))
        && !has(Defect::HopHeadersKept)
}

/// All lines of `X-Forwarded-For` and one more entry, as one line: some replicas read only one.
fn appended(headers: &HeaderMap, peer: &HeaderValue) -> Option<HeaderValue> {
    let mut all = Vec::with_capacity(64);
    for line in headers.get_all(X_FORWARDED_FOR).iter().filter(|line| !line.as_bytes().trim_ascii().is_empty()) {
        all.extend_from_slice(line.as_bytes());
        all.extend_from_slice(b", ");
    }
    all.extend_from_slice(peer.as_bytes());
    HeaderValue::from_bytes(&all).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::headers::{HOP_BY_HOP, X_API_KEY, X_GOOG_API_KEY};
    use http::header::{AUTHORIZATION, EXPECT, FORWARDED, USER_AGENT};

    #[test]
    fn our_lines_start_with_their_names() {
        for own in [Own::Host, Own::RequestId, Own::ForwardedFor, Own::ForwardedProto, Own::ForwardedHost, Own::Length]
        {
            assert_eq!(own.start(), format!("{}: ", own.name()).as_bytes());
        }
    }

    #[test]
    fn every_name_that_counts_is_known() {
        for name in &HOP_BY_HOP {
            assert!(matches!(Kind::of(name), Kind::OfConnection), "{name}");
        }
        for name in [AUTHORIZATION, X_API_KEY, X_GOOG_API_KEY] {
            assert!(matches!(Kind::of(&name), Kind::Credential), "{name}");
        }
        for name in [EXPECT, X_REQUEST_ID] {
            assert!(matches!(Kind::of(&name), Kind::OfRequest), "{name}");
        }
        assert!(matches!(Kind::of(&HOST), Kind::Host) && matches!(Kind::of(&CONTENT_LENGTH), Kind::Length));
        assert!(matches!(Kind::of(&FORWARDED), Kind::Forwarded) && matches!(Kind::of(&USER_AGENT), Kind::Other));
        assert!(matches!(Kind::of(&X_FORWARDED_FOR), Kind::ForwardedFor));
        assert!(matches!(Kind::of(&X_FORWARDED_PROTO), Kind::ForwardedProto));
        assert!(matches!(Kind::of(&X_FORWARDED_HOST), Kind::ForwardedHost));
    }
}
