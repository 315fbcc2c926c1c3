//! How the coordinator's REST is spoken on smol.
//!
//! Plain HTTP goes by surf, which lives in this file only and on a short leash (ARCHITECTURE.md): no kept connections
//! (it hands a late answer to the next request), addresses resolved here (it would block the executor, and try the first
//! one only), our own limits of time and size, lengths compared here (it takes a short body for a whole one), panics
//! caught. `https` goes by hyper: surf's own TLS is too old to be used.

use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use appproxy_core::exchange::Origin;
use appproxy_core::limits;
use appproxy_core::worker::TransportFailure;
use appproxy_driver::classify_io;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::io::AsyncReadExt;
use http::Request;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING};
use http::uri::Scheme;
use rustls::ClientConfig;

use crate::executor::Smol;

/// The status and the whole body of the answer to one request.
pub(crate) async fn fetch(request: Request<Bytes>, tls: &Arc<ClientConfig>) -> Result<(u16, Bytes), TransportFailure> {
    if request.uri().scheme() == Some(&Scheme::HTTPS) {
        return appproxy_driver::fetch::<Smol>(request, tls).await;
    }
    let caught = AssertUnwindSafe(plain::fetch(&request)).catch_unwind().await;
    caught.unwrap_or(Err(TransportFailure::NotHttp))
}

/// What surf does.
mod plain {
    #![allow(clippy::disallowed_types, reason = "the one place for surf")]

    use super::*;

    /// One request to the first address of its host that takes it.
    pub(super) async fn fetch(request: &Request<Bytes>) -> Result<(u16, Bytes), TransportFailure> {
        let Some(origin) = Origin::of(request.uri()) else {
            return Err(TransportFailure::Other("no address".to_owned()));
        };
        let resolved = smol::net::resolve((origin.host(), origin.port())).await;
        let mut last = TransportFailure::Unresolved;
        for address in resolved.map_err(|_| TransportFailure::Unresolved)? {
            match attempt(request, address).await {
                Err(TransportFailure::Refused) => last = TransportFailure::Refused,
                ended => return ended,
            }
        }
        Err(last)
    }

    async fn attempt(request: &Request<Bytes>, to: SocketAddr) -> Result<(u16, Bytes), TransportFailure> {
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
    use appproxy_driver::Runtime;
    use rustls::RootCertStore;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// The answer of a peer that reads a little, writes `answer` and closes.
    fn outcome_of(answer: impl Into<Vec<u8>>) -> Result<(u16, Bytes), TransportFailure> {
        let answer = answer.into();
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let request = Request::get(format!("http://{}/x", listener.local_addr().expect("address")));
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("accept");
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(&answer);
        });
        let tls = ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        Smol::block_on(Smol::fetch(request.body(Bytes::new()).expect("a request"), &Arc::new(tls))).expect("a runtime")
    }

    #[test]
    fn what_surf_takes_for_an_answer_or_dies_of_is_none() {
        let endless = "HTTP/1.1 200 OK\r\n\r\n{}";
        assert!(matches!(outcome_of(endless), Err(TransportFailure::Other(_))));
        // surf panics at it.
        assert_eq!(
            outcome_of(b"HTTP/1.1 200 OK\r\nx: \xe9\r\ncontent-length: 0\r\n\r\n"),
            Err(TransportFailure::NotHttp)
        );
        assert_eq!(
            outcome_of("HTTP/1.1 200 OK\r\nx: caf\u{e9}\r\ncontent-length: 0\r\n\r\n"),
            Err(TransportFailure::NotHttp)
        );
    }

    #[test]
    fn an_answer_is_taken_up_to_its_limit() {
        let answer = |length: usize| {
            let mut bytes = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n").into_bytes();
            bytes.resize(bytes.len() + length, b' ');
            outcome_of(bytes).map(|(_, body)| body.len())
        };
        assert_eq!(answer(limits::CALL_ANSWER_BYTES), Ok(limits::CALL_ANSWER_BYTES));
        assert_eq!(answer(limits::CALL_ANSWER_BYTES + 1), Err(TransportFailure::TooLarge));
    }
}
