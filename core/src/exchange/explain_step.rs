//! One gate in an explanation, and what an operator can do about its refusal.

use serde::Serialize;
use std::borrow::Cow;

use super::denial::{Code, Denial};

/// One gate's verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// `host`, `token` (a wildcard worker), `key`, `address`, `rate`, `model` or `replica`.
    pub gate: &'static str,
    /// Whether it lets the request pass; the first that does not ends the list.
    pub passes: bool,
    /// What it saw.
    pub because: String,
    /// What would change a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_change: Option<Cow<'static, str>>,
}

impl Step {
    pub(super) const fn passed(gate: &'static str, because: String) -> Self {
        Self { gate, passes: true, because, to_change: None }
    }

    pub(super) fn refused(gate: &'static str, denial: &Denial) -> Self {
        Self {
            gate,
            passes: false,
            because: denial.message.clone().into_owned(),
            to_change: Some(to_change(denial.code).into()),
        }
    }

    /// An address list refused a question that names no address.
    pub(super) fn ask_for_address(&mut self) {
        "no client address was given, so it was judged as one that is on no list".clone_into(&mut self.because);
        self.to_change = Some("ask again with the client's: --client-ip ADDRESS (client_ip= in the URL)".into());
    }
}

/// The gate that refused a request before its key, or token, made somebody of it.
pub(super) const fn entrance(code: Code) -> &'static str {
    match code {
        Code::EndpointNotFound => "host",
        Code::MissingToken | Code::InvalidToken | Code::ExpiredToken | Code::TokenMismatch => "token",
        Code::IpNotAllowed => "address",
        _ => "key",
    }
}

/// Said of a name that only `backends` of the configuration serve, when a key does not reach those.
pub(super) const ONLY_STATIC: &str = "only `backends` of the configuration serve this name, and beside a worker section they \
                                      serve operator keys (`api_keys.keys`) and fallback chains alone: publish the model, \
                                      or put it into `fallback.fallback_chains` of one that is";

/// What an operator can do about a refusal.
const fn to_change(code: Code) -> &'static str {
    match code {
        Code::MissingApiKey => "the client must send a key; name one here with --key-id",
        Code::InvalidApiKey => {
            "no key has this id: issue it, or check that its notice was heard (/status, the last pull)"
        }
        Code::ExpiredApiKey => "give the key a later end, or issue another",
        Code::IpNotAllowed => {
            "add the client's address to the list, or trust the proxy in front (server.trusted_proxies)"
        }
        Code::RateLimitExceeded => "wait, or raise the key's rate limit",
        Code::ModelNotAllowed => "add the model to the key's allowed models",
        Code::ModelNotFound => "publish the model, or check its spelling and the key's allowed models",
        Code::EndpointNotFound => "check the host name: one label before the wildcard domain, of a circuit that exists",
        Code::ModelNotReady => "wait: the replicas are starting; their health is shown",
        Code::ModelUnavailable => "start or mend a replica",
        Code::NotReady => "the coordinator must be reached: see the last pull in /status",
        Code::Overloaded => "raise routing.max_in_flight or add replicas",
        Code::NotSupported => "use an API that the backend's type speaks",
        Code::MissingToken => {
            "the client must send an access token of a circuit that serves this; ask about one with --access-token good"
        }
        Code::InvalidToken | Code::ExpiredToken | Code::TokenMismatch => {
            "the client must send a valid access token of this circuit"
        }
        _ => "change the request as its message says",
    }
}
