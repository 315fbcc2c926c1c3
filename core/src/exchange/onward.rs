//! The lines of a request's head that go on to a replica (data-plane 3.8, 3.9).

use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::headers::{
    HOP_BY_HOP, X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PROTO, X_REQUEST_ID, named_by_connection,
};
use crate::defects::{Defect, has};

static HTTP: HeaderValue = HeaderValue::from_static("http");
static HTTPS: HeaderValue = HeaderValue::from_static("https");

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
        match name.as_str() {
            "host" => Self::Host,
            "content-length" | "expect" | "x-request-id" => Self::OfRequest,
            "authorization" | "x-api-key" | "x-goog-api-key" => Self::Credential,
            "x-forwarded-for" => Self::ForwardedFor,
            "x-forwarded-proto" => Self::ForwardedProto,
            "x-forwarded-host" => Self::ForwardedHost,
            "forwarded" => Self::Forwarded,
            _ if HOP_BY_HOP.contains(name) => Self::OfConnection,
            _ => Self::Other,
        }
    }
}

impl Onward<'_> {
    /// Says every line, those of one name one behind the other: those of the client that any replica may see, and ours.
    /// What depends on the replica comes from elsewhere: `Host`, length, a credential.
    pub(super) fn each(&self, asked: &HeaderMap, mut say: impl FnMut(&HeaderName, &HeaderValue)) {
        let named = if self.options { named_by_connection(asked) } else { Vec::new() };
        let (mut host, mut others_for, mut said_proto, mut said_host) = (None, false, false, false);
        for (name, value) in asked {
            let kind = Kind::of(name);
            if matches!(kind, Kind::Host) {
                host = host.or(Some(value));
            }
            let passes = match kind {
                Kind::OfConnection => has(Defect::HopHeadersKept),
                Kind::Host | Kind::OfRequest => false,
                Kind::Credential => self.credentials,
                Kind::ForwardedFor | Kind::ForwardedProto | Kind::ForwardedHost | Kind::Forwarded => self.trusted,
                Kind::Other => !has(Defect::OddHeadersDropped) || value.as_bytes().is_ascii(),
            };
            if !passes || named.contains(name) {
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
            say(name, value);
        }
        say(&X_REQUEST_ID, self.request_id);
        match self.peer {
            Some(peer) if others_for => {
                if let Some(all) = appended(asked, peer) {
                    say(&X_FORWARDED_FOR, &all);
                }
            }
            Some(peer) => say(&X_FORWARDED_FOR, peer),
            None => {}
        }
        if !said_proto {
            say(&X_FORWARDED_PROTO, if self.tls { &HTTPS } else { &HTTP });
        }
        if !said_host && let Some(host) = host.or(self.authority.as_ref()) {
            say(&X_FORWARDED_HOST, host);
        }
    }
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
