//! Carries out the core's calls: one request, one answer or one reason why there is none (worker-protocol 1).
//!
//! Plain HTTP goes by surf, which lives in this file only and on a short leash (ARCHITECTURE.md): no kept connections
//! (it hands a late answer to the next request), addresses resolved here (it would block the executor, and try the first
//! one only), our own limits of time and size, lengths compared here (it takes a short body for a whole one), panics
//! caught. `https` goes by hyper: surf's own TLS is too old to be used.

use core::time::Duration;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use appproxy_core::config::worker::WorkerConfig;
use appproxy_core::exchange::Outgoing;
use appproxy_core::limits;
use appproxy_core::worker::{Call, CallBody, CallEnded, CallRequest, CallResponse, TransportFailure};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::io::AsyncReadExt;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http_body::Body;
use http_body_util::{BodyExt, Collected, Limited};
use rustls::ClientConfig;

use crate::clock::Clock;
use crate::executor::until;
use crate::failures::{classify, classify_io};
use crate::lane::once;
use crate::tls;
use crate::upload::Sent;

const TOKEN: HeaderName = HeaderName::from_static("x-backendai-token");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-backendai-requestid");

/// For connecting; a name with several addresses has it shared between them.
const CONNECT: Duration = Duration::from_secs(5);

/// A client of one coordinator. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Coordinator {
    tls: Arc<ClientConfig>,
    base: String,
    token: HeaderValue,
    clock: Clock,
}

impl Coordinator {
    /// A client for `coordinator_url`; an unreadable `ca_file` or secret is an error.
    pub(crate) fn new(config: &WorkerConfig, clock: Clock) -> Result<Self, String> {
        let mut token = HeaderValue::from_str(config.api_secret.expose())
            .map_err(|_| "api_secret holds characters that no HTTP header can carry".to_owned())?;
        token.set_sensitive(true);
        let tls = Arc::new(tls::client_config(config.ca_file.as_deref())?);
        Ok(Self { tls, base: config.coordinator_url.trim_end_matches('/').to_owned(), token, clock })
    }

    /// Makes one call, until its deadline at the latest.
    pub(crate) async fn make(self, call: Call) -> CallEnded {
        let deadline = self.clock.instant(call.deadline());
        match until(deadline, self.exchange(call.request())).await {
            Some(Ok(response)) => call.answered(response),
            Some(Err(failure)) => call.failed(failure),
            None => call.failed(TransportFailure::TimedOut),
        }
    }

    async fn exchange(&self, asked: &CallRequest) -> Result<CallResponse, TransportFailure> {
        let mut request = http::Request::builder()
            .method(&asked.method)
            .uri(format!("{}{}", self.base, asked.path_and_query))
            .header(TOKEN, self.token.clone())
            .header(REQUEST_ID, asked.request_id.to_string())
            .header(ACCEPT, "application/json");
        if asked.body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request
            .body(Bytes::from(asked.body.clone().unwrap_or_default()))
            .map_err(|error| TransportFailure::Other(format!("the request cannot be written: {error}")))?;
        let (status, body) = fetch(request, &self.tls).await?;
        Ok(CallResponse { status, body: CallBody(body.into()) })
    }
}

/// The status and the whole body of the answer to one request.
async fn fetch(request: http::Request<Bytes>, tls: &Arc<ClientConfig>) -> Result<(u16, Bytes), TransportFailure> {
    if request.uri().scheme() == Some(&http::uri::Scheme::HTTPS) {
        let answer = once(request.map(|body| Sent::Kept(Outgoing::from(body))), tls, CONNECT)
            .await
            .map_err(|error| classify(&*error))?;
        return Ok((answer.status().as_u16(), whole(answer.into_body()).await?));
    }
    let caught = AssertUnwindSafe(plain::fetch(&request)).catch_unwind().await;
    caught.unwrap_or(Err(TransportFailure::NotHttp))
}

/// The whole body of an answer, within its limit.
async fn whole<B>(body: B) -> Result<Bytes, TransportFailure>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let read = Limited::new(body, limits::CALL_ANSWER_BYTES).collect().await;
    read.map(Collected::to_bytes).map_err(|error| classify(error.as_ref()))
}

/// What surf does.
mod plain {
    #![allow(clippy::disallowed_types, reason = "the one place for surf")]

    use super::*;

    /// One request to the first address of its host that takes it.
    pub(super) async fn fetch(request: &http::Request<Bytes>) -> Result<(u16, Bytes), TransportFailure> {
        let uri = request.uri();
        let host = uri.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let resolved = smol::net::resolve((host, uri.port_u16().unwrap_or(80))).await;
        let mut last = TransportFailure::Unresolved;
        for address in resolved.map_err(|_| TransportFailure::Unresolved)? {
            match attempt(request, address).await {
                Err(TransportFailure::Refused) => last = TransportFailure::Refused,
                ended => return ended,
            }
        }
        Err(last)
    }

    async fn attempt(request: &http::Request<Bytes>, to: SocketAddr) -> Result<(u16, Bytes), TransportFailure> {
        let unwritable = |what: &str| TransportFailure::Other(format!("the request cannot be written: {what}"));
        let mut url = surf::Url::parse(&request.uri().to_string()).map_err(|_| unwritable("address"))?;
        url.set_ip_host(to.ip()).map_err(|()| unwritable("address"))?;
        let method = request.method().as_str().parse().map_err(|_| unwritable("method"))?;
        let mut asked = surf::Request::new(method, url);
        if let Some(authority) = request.uri().authority() {
            asked.insert_header(HOST.as_str(), authority.as_str());
        }
        for (name, value) in request.headers() {
            let value = value.to_str().map_err(|_| unwritable("header"))?;
            asked.insert_header(name.as_str(), value);
        }
        if !request.body().is_empty() {
            asked.set_body(request.body().as_ref());
            // Setting a body sets a type as well.
            asked.insert_header(CONTENT_TYPE.as_str(), "application/json");
        }
        let config = surf::Config::new().set_http_keep_alive(false).set_tcp_no_delay(true).set_timeout(None);
        let client = surf::Client::try_from(config).map_err(|_| unwritable("settings"))?;
        let mut answer = client.send(asked).await.map_err(explain)?;

        let status: u16 = answer.status().into();
        let announced = answer.header(CONTENT_LENGTH.as_str()).map(|length| length.last().as_str().parse::<usize>());
        if announced.is_none() && answer.header(TRANSFER_ENCODING.as_str()).is_none() && ![204, 304].contains(&status) {
            return Err(TransportFailure::Other("an answer without a length".to_owned()));
        }
        let most = limits::CALL_ANSWER_BYTES;
        let mut body = Vec::new();
        let read = answer.take_body().take(u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1));
        let mut read = core::pin::pin!(read);
        read.read_to_end(&mut body).await.map_err(|_| TransportFailure::Reset)?;
        match announced {
            _ if body.len() > most => Err(TransportFailure::TooLarge),
            Some(Ok(length)) if length != body.len() && status != 304 => Err(TransportFailure::Reset),
            _ => Ok((status, body.into())),
        }
    }

    /// surf's errors carry a status of surf's own making, and most of what they mean in words.
    fn explain(error: surf::Error) -> TransportFailure {
        if let Some(failure) = error.downcast_ref::<io::Error>().and_then(classify_io) {
            return failure;
        }
        let text = error.to_string();
        match text.as_str() {
            _ if text.contains("refused") => TransportFailure::Refused,
            "connection closed" => TransportFailure::Reset,
            _ if error.downcast_ref::<io::Error>().is_some() => TransportFailure::Other(text),
            _ => TransportFailure::NotHttp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    fn outcome_of(base: String) -> Result<CallResponse, TransportFailure> {
        crate::executor::start().expect("threads");
        let asked = CallRequest {
            method: http::Method::GET,
            path_and_query: "/x".to_owned(),
            body: None,
            request_id: appproxy_core::wire::ids::RequestId(uuid::Uuid::nil()),
        };
        let tls = Arc::new(tls::client_config(None).expect("roots"));
        let client = Coordinator { tls, base, token: HeaderValue::from_static("t"), clock: Clock::start() };
        smol::block_on(client.exchange(&asked))
    }

    /// A peer that reads a little, writes `answer` and closes.
    fn peer(answer: impl Into<Vec<u8>>) -> String {
        let answer = answer.into();
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("address");
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("accept");
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(&answer);
        });
        format!("http://{address}")
    }

    #[test]
    fn every_kind_of_failure_has_its_name() {
        let closed = {
            let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
            format!("http://{}", listener.local_addr().expect("address"))
        };
        assert_eq!(outcome_of(closed.clone()), Err(TransportFailure::Refused));
        assert_eq!(outcome_of(closed.replace("http:", "https:")), Err(TransportFailure::Refused));
        for scheme in ["http", "https"] {
            assert_eq!(outcome_of(format!("{scheme}://does-not-exist.invalid")), Err(TransportFailure::Unresolved));
        }
        assert_eq!(outcome_of(peer("")), Err(TransportFailure::Reset));
        assert_eq!(outcome_of(peer("SSH-2.0-OpenSSH_9.6\r\n")), Err(TransportFailure::NotHttp));
        assert_eq!(outcome_of(peer("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")), Err(TransportFailure::Reset));
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"a\"";
        assert_eq!(outcome_of(peer(chunked)), Err(TransportFailure::Reset));
        let tls = peer("HTTP/1.1 400 Bad Request\r\n\r\n").replace("http://", "https://");
        assert!(matches!(outcome_of(tls), Err(TransportFailure::Tls(_))));
        let endless = "HTTP/1.1 200 OK\r\n\r\n{}";
        assert!(matches!(outcome_of(peer(endless)), Err(TransportFailure::Other(_))));
        // surf panics at it.
        assert_eq!(
            outcome_of(peer(b"HTTP/1.1 200 OK\r\nx: \xe9\r\ncontent-length: 0\r\n\r\n")),
            Err(TransportFailure::NotHttp)
        );
        assert_eq!(
            outcome_of(peer("HTTP/1.1 200 OK\r\nx: caf\u{e9}\r\ncontent-length: 0\r\n\r\n")),
            Err(TransportFailure::NotHttp)
        );
    }

    #[test]
    fn an_answer_keeps_status_and_body() {
        let response = outcome_of(peer("HTTP/1.1 304 Not Modified\r\netag: \"1\"\r\n\r\n")).expect("answer");
        assert_eq!((response.status, response.body.0.len()), (304, 0));
        let response = outcome_of(peer("HTTP/1.1 500 X\r\ncontent-length: 2\r\n\r\n{}")).expect("answer");
        assert_eq!((response.status, response.body.0.as_slice()), (500, b"{}".as_slice()));
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
        let response = outcome_of(peer(chunked)).expect("answer");
        assert_eq!((response.status, response.body.0.as_slice()), (200, b"{}".as_slice()));
    }

    #[test]
    fn an_answer_is_taken_up_to_its_limit() {
        let answer = |length: usize| {
            let mut bytes = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n").into_bytes();
            bytes.resize(bytes.len() + length, b' ');
            outcome_of(peer(bytes)).map(|response| response.body.0.len())
        };
        assert_eq!(answer(limits::CALL_ANSWER_BYTES), Ok(limits::CALL_ANSWER_BYTES));
        assert_eq!(answer(limits::CALL_ANSWER_BYTES + 1), Err(TransportFailure::TooLarge));
    }
}
