//! Carries out the core's calls: one request, one answer or one reason why there is none (worker-protocol 1).

use std::error::Error;

use appproxy_core::config::worker::WorkerConfig;
use appproxy_core::limits;
use appproxy_core::worker::{Call, CallBody, CallEnded, CallRequest, CallResponse, TransportFailure};
use bytes::Bytes;
use core::time::Duration;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use http_body::Body;
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::clock::Clock;
use crate::failures::classify;
use crate::tls;

const TOKEN: HeaderName = HeaderName::from_static("x-backendai-token");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-backendai-requestid");

/// Below the coordinator's keep-alive (75 s), so that a heartbeat does not meet a connection just closed.
const IDLE: Duration = Duration::from_secs(20);

/// A client of one coordinator. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Coordinator {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
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
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls::client_config(config.ca_file.as_deref())?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connector);
        Ok(Self { client, base: config.coordinator_url.trim_end_matches('/').to_owned(), token, clock })
    }

    /// Makes one call, until its deadline at the latest.
    pub(crate) async fn make(self, call: Call) -> CallEnded {
        let deadline = self.clock.instant(call.deadline());
        match tokio::time::timeout_at(deadline, self.exchange(call.request())).await {
            Ok(Ok(response)) => call.answered(response),
            Ok(Err(failure)) => call.failed(failure),
            Err(_) => call.failed(TransportFailure::TimedOut),
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
            .body(Full::from(asked.body.clone().unwrap_or_default()))
            .map_err(|error| TransportFailure::Other(format!("the request cannot be written: {error}")))?;
        let response = self.client.request(request).await.map_err(|error| classify(&error))?;
        let status = response.status().as_u16();
        let body = whole(response.into_body()).await?;
        Ok(CallResponse { status, body: CallBody(body.into()) })
    }
}

/// The whole body of an answer, within its limit.
async fn whole<B>(body: B) -> Result<Bytes, TransportFailure>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let read = Limited::new(body, limits::CALL_ANSWER_BYTES).collect().await;
    read.map(http_body_util::Collected::to_bytes).map_err(|error| classify(error.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn client() -> Coordinator {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls::client_config(None).expect("roots"))
            .https_or_http()
            .enable_http1()
            .build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Coordinator { client, base: String::new(), token: HeaderValue::from_static("t"), clock: Clock::start() }
    }

    async fn outcome_of(base: String) -> Result<CallResponse, TransportFailure> {
        let asked = CallRequest {
            method: http::Method::GET,
            path_and_query: "/x".to_owned(),
            body: None,
            request_id: appproxy_core::wire::ids::RequestId(uuid::Uuid::nil()),
        };
        Coordinator { base, ..client() }.exchange(&asked).await
    }

    /// A peer that reads a little, writes `answer` and closes.
    async fn peer(answer: &'static [u8]) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("address");
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("accept");
            let mut buffer = [0; 1024];
            let _ = stream.read(&mut buffer).await;
            let _ = stream.write_all(answer).await;
        });
        format!("http://{address}")
    }

    #[tokio::test]
    async fn every_kind_of_failure_has_its_name() {
        let closed = {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bind");
            format!("http://{}", listener.local_addr().expect("address"))
        };
        assert_eq!(outcome_of(closed).await, Err(TransportFailure::Refused));
        assert_eq!(outcome_of("http://does-not-exist.invalid".to_owned()).await, Err(TransportFailure::Unresolved));
        assert_eq!(outcome_of(peer(b"").await).await, Err(TransportFailure::Reset));
        assert_eq!(outcome_of(peer(b"SSH-2.0-OpenSSH_9.6\r\n").await).await, Err(TransportFailure::NotHttp));
        let short = peer(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{").await;
        assert_eq!(outcome_of(short).await, Err(TransportFailure::Reset));
        let tls = peer(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.replace("http://", "https://");
        assert!(matches!(outcome_of(tls).await, Err(TransportFailure::Tls(_))));
    }

    #[tokio::test]
    async fn an_answer_keeps_status_and_body() {
        let response =
            outcome_of(peer(b"HTTP/1.1 304 Not Modified\r\netag: \"1\"\r\n\r\n").await).await.expect("answer");
        assert_eq!((response.status, response.body.0.len()), (304, 0));
        let response = outcome_of(peer(b"HTTP/1.1 500 X\r\ncontent-length: 2\r\n\r\n{}").await).await.expect("answer");
        assert_eq!((response.status, response.body.0.as_slice()), (500, b"{}".as_slice()));
    }

    #[tokio::test]
    async fn an_answer_is_taken_up_to_its_limit() {
        let chunk = Bytes::from(vec![b' '; 1 << 20]);
        let chunks = |more: usize| {
            let whole = std::iter::repeat_n(chunk.clone(), limits::CALL_ANSWER_BYTES / chunk.len());
            let rest = std::iter::once(chunk.slice(..limits::CALL_ANSWER_BYTES % chunk.len() + more));
            let frames = whole.chain(rest).map(|data| Ok::<_, std::io::Error>(http_body::Frame::data(data)));
            http_body_util::StreamBody::new(futures_util::stream::iter(frames.collect::<Vec<_>>()))
        };
        assert_eq!(whole(chunks(0)).await.map(|body| body.len()), Ok(limits::CALL_ANSWER_BYTES));
        assert_eq!(whole(chunks(1)).await, Err(TransportFailure::TooLarge));
    }
}
