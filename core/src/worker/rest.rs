//! Calls as HTTP requests (worker-protocol 1).

use std::io::ErrorKind;

use bytes::Bytes;
use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};

use super::call::{CallRequest, TransportFailure};
use crate::config::worker::WorkerConfig;

const TOKEN: HeaderName = HeaderName::from_static("x-backendai-token");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-backendai-requestid");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Where the coordinator is, and what it knows us by. Printed, it does not show the latter.
#[derive(Debug, Clone)]
pub struct Rest {
    base: String,
    token: HeaderValue,
}

impl Rest {
    /// As `config` says.
    ///
    /// # Errors
    /// A secret that no header can carry; it is not quoted.
    pub fn of(config: &WorkerConfig) -> Result<Self, String> {
        let mut token = HeaderValue::from_str(config.api_secret.expose())
            .map_err(|_| "api_secret holds characters that no HTTP header can carry".to_owned())?;
        token.set_sensitive(true);
        Ok(Self { base: config.coordinator_url.trim_end_matches('/').to_owned(), token })
    }

    /// The request that makes a call.
    ///
    /// # Errors
    /// An address that is none.
    pub fn request(&self, asked: &CallRequest) -> Result<Request<Bytes>, TransportFailure> {
        let mut request = Request::builder()
            .method(&asked.method)
            .uri(format!("{}{}", self.base, asked.path_and_query))
            .header(TOKEN, self.token.clone())
            .header(REQUEST_ID, asked.request_id.to_string())
            .header(ACCEPT, JSON);
        if asked.body.is_some() {
            request = request.header(CONTENT_TYPE, JSON);
        }
        let body = Bytes::from(asked.body.clone().unwrap_or_default());
        request.body(body).map_err(|error| TransportFailure::Other(format!("the request cannot be written: {error}")))
    }
}

impl TransportFailure {
    /// What an I/O error of this kind means, where that is enough to know.
    #[must_use]
    pub const fn of_io(kind: ErrorKind) -> Option<Self> {
        match kind {
            ErrorKind::ConnectionRefused => Some(Self::Refused),
            ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof => Some(Self::Reset),
            ErrorKind::TimedOut => Some(Self::TimedOut),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;
    use crate::wire::ids::RequestId;
    use http::Method;
    use uuid::Uuid;

    fn config(url: &str, secret: &str) -> WorkerConfig {
        WorkerConfig { coordinator_url: url.to_owned(), api_secret: Secret::new(secret), ..WorkerConfig::plain() }
    }

    fn asked(body: Option<&str>) -> CallRequest {
        CallRequest {
            method: Method::PATCH,
            path_and_query: "/v2/x?since=1".to_owned(),
            body: body.map(str::to_owned),
            request_id: RequestId(Uuid::from_u128(5)),
        }
    }

    #[test]
    fn a_call_is_a_request_with_our_token_that_is_never_printed() {
        let rest = Rest::of(&config("http://coordinator:1/base/", "hunter2")).unwrap();
        let request = rest.request(&asked(Some("{}"))).unwrap();
        assert_eq!((request.method(), request.body().as_ref()), (&Method::PATCH, b"{}".as_slice()));
        assert_eq!(request.uri(), "http://coordinator:1/base/v2/x?since=1");
        let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
        assert_eq!(header("x-backendai-token"), Some("hunter2"));
        assert_eq!(header("x-backendai-requestid"), Some("00000000-0000-0000-0000-000000000005"));
        assert_eq!((header("accept"), header("content-type")), (Some("application/json"), Some("application/json")));
        assert!(!format!("{rest:?} {request:?}").contains("hunter2"));
        assert!(!rest.request(&asked(None)).unwrap().headers().contains_key("content-type"));
    }

    #[test]
    fn what_cannot_be_sent_is_said_without_quoting_the_secret() {
        let wrong = Rest::of(&config("http://c", "hunter2\n")).unwrap_err();
        assert!(wrong.contains("api_secret") && !wrong.contains("hunter2"), "{wrong}");
        let rest = Rest::of(&config("no address", "s")).unwrap();
        assert!(matches!(rest.request(&asked(None)), Err(TransportFailure::Other(_))));
    }
}
