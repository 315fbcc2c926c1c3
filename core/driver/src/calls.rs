//! Carries out the core's calls: one request, one answer or one reason why there is none (worker-protocol 1).

use core::time::Duration;
use std::error::Error;
use std::sync::Arc;

use appproxy_core::config::worker::WorkerConfig;
use appproxy_core::exchange::Outgoing;
use appproxy_core::limits;
use appproxy_core::worker::{Call, CallBody, CallEnded, CallRequest, CallResponse, Rest, TransportFailure};
use bytes::Bytes;
use http::Request;
use http_body::Body;
use http_body_util::{BodyExt, Collected, Limited};
use rustls::ClientConfig;

use crate::clock::Clock;
use crate::failures::classify;
use crate::lane::once;
use crate::runtime::Runtime;
use crate::tls;
use crate::upload::Sent;

/// For connecting; a name with several addresses has it shared between them.
const CONNECT: Duration = Duration::from_secs(5);

/// A client of one coordinator. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Coordinator {
    rest: Arc<Rest>,
    tls: Arc<ClientConfig>,
    clock: Clock,
}

impl Coordinator {
    /// A client for `coordinator_url`; an unreadable `ca_file` or secret is an error.
    pub(crate) fn new(config: &WorkerConfig, clock: Clock) -> Result<Self, String> {
        let tls = Arc::new(tls::client_config(config.ca_file.as_deref())?);
        Ok(Self { rest: Arc::new(Rest::of(config)?), tls, clock })
    }

    /// Makes one call, until its deadline at the latest.
    pub(crate) async fn make<R: Runtime>(self, call: Call) -> CallEnded {
        match R::until(self.clock.instant(call.deadline()), self.exchange::<R>(call.request())).await {
            Some(Ok(response)) => call.answered(response),
            Some(Err(failure)) => call.failed(failure),
            None => call.failed(TransportFailure::TimedOut),
        }
    }

    async fn exchange<R: Runtime>(&self, asked: &CallRequest) -> Result<CallResponse, TransportFailure> {
        let (status, body) = R::fetch(self.rest.request(asked)?, &self.tls).await?;
        Ok(CallResponse { status, body: CallBody(body.into()) })
    }
}

/// The status and the whole body of the answer to one request, over a connection of its own: there are three calls in ten
/// seconds, and one that was kept may have gone just when a heartbeat counts. A redirection is an answer like any other.
pub async fn fetch<R: Runtime>(
    request: Request<Bytes>,
    tls: &Arc<ClientConfig>,
) -> Result<(u16, Bytes), TransportFailure> {
    let request = request.map(|body| Sent::Kept(Outgoing::from(body)));
    let answer = once::<R>(request, tls, CONNECT).await.map_err(|error| classify(&*error))?;
    Ok((answer.status().as_u16(), whole(answer.into_body()).await?))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::Plain;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    fn outcome_of(base: String) -> Result<CallResponse, TransportFailure> {
        let asked = CallRequest {
            method: http::Method::GET,
            path_and_query: "/x".to_owned(),
            body: None,
            request_id: appproxy_core::wire::ids::RequestId(uuid::Uuid::nil()),
        };
        let tls = Arc::new(tls::client_config(None).expect("roots"));
        let config = WorkerConfig { coordinator_url: base, ..WorkerConfig::plain() };
        let client = Coordinator { rest: Arc::new(Rest::of(&config).expect("a token")), tls, clock: Clock::start() };
        Plain::block_on(client.exchange::<Plain>(&asked)).expect("a runtime")
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
        let chunk = Bytes::from(vec![b' '; 1 << 20]);
        let chunks = |more: usize| {
            let whole = std::iter::repeat_n(chunk.clone(), limits::CALL_ANSWER_BYTES / chunk.len());
            let rest = std::iter::once(chunk.slice(..limits::CALL_ANSWER_BYTES % chunk.len() + more));
            let frames = whole.chain(rest).map(|data| Ok::<_, std::io::Error>(http_body::Frame::data(data)));
            http_body_util::StreamBody::new(futures_util::stream::iter(frames.collect::<Vec<_>>()))
        };
        let length = |more| Plain::block_on(whole(chunks(more))).expect("a runtime").map(|body| body.len());
        assert_eq!(length(0), Ok(limits::CALL_ANSWER_BYTES));
        assert_eq!(length(1), Err(TransportFailure::TooLarge));
    }
}
