//! A loopback listener that answers with a function, and can be cut off at once.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use appproxy_fixtures::Request;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// A body whose error cuts the connection.
pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A whole body.
pub(crate) fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A JSON answer of our own.
pub(crate) fn json(status: u16, value: &serde_json::Value) -> http::Response<Body> {
    let mut response = http::Response::new(whole(value.to_string()));
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
    let content_type = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, content_type);
    response
}

/// Answers requests; an error cuts the connection without an answer.
pub(crate) trait Answer: Clone + Send + Sync + 'static {
    fn answer(&self, request: Request) -> impl Future<Output = io::Result<http::Response<Body>>> + Send;
}

/// A running listener. Dropping it cuts every connection.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Served {
    /// Listens on loopback; port 0 takes a free one.
    pub(crate) async fn start(port: u16, answer: impl Answer) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        if let Ok((stream, _)) = accepted {
                            connections.spawn(converse(stream, answer.clone()));
                        }
                    }
                    Some(_) = connections.join_next(), if !connections.is_empty() => {}
                }
            }
        });
        Ok(Self { address, task })
    }

    /// Stops listening and cuts every connection; returns when the port is free again.
    pub(crate) async fn cut(mut self) {
        self.task.abort();
        drop((&mut self.task).await);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn converse(stream: TcpStream, answer: impl Answer) {
    drop(stream.set_nodelay(true));
    let service = service_fn(move |request: http::Request<Incoming>| {
        let answer = answer.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
            let path_and_query = head.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
            let request = Request { method: head.method, path_and_query, headers: head.headers, body: body.into() };
            answer.answer(request).await
        }
    });
    // A connection that ends badly is the point of half the tests.
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
}
