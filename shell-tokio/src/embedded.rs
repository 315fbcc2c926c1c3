//! The data plane on connections that are not ours: inside somebody else's axum application.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::net::SocketAddr;
use std::sync::Arc;

use appproxy_core::access::address::Peer;
use appproxy_core::exchange::Connection;
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};

use crate::data;
use crate::executor::Instant;
use crate::node::Node;
use crate::pace::Pace;
use crate::part::Part;
use crate::plane::Arrival;
use crate::start::Running;

impl Running {
    /// The data plane as a service of somebody else's axum application: for its fallback, or nested under a path of its
    /// own. Serve the application with the connection's address (`into_make_service_with_connect_info::<SocketAddr>()`):
    /// a request without one has no address, and every address list refuses it. WebSockets need our own listeners.
    pub fn router(&self) -> Router {
        // All we know of its connections is the address that axum noted.
        Router::new().fallback(arrived).with_state(self.node.clone())
    }
}

async fn arrived(State(node): State<Arc<Node>>, request: Request<Body>) -> Response<Body> {
    let from = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let peer = from.map_or(Peer::Unix, |ConnectInfo(address)| Peer::Ip(address.ip()));
    let connection = Connection::new(peer, false);
    let arrival = Arrival { connection, pace: Pace::start(node.clock), at: Instant::now() };
    let answer = Box::pin(data::handle(node.clone(), request, arrival));
    Woken::new(&node, answer).await.map(|body| Body::new(Woken::new(&node, body)))
}

/// What is woken when running requests are cut, as a connection of ours would be.
struct Woken<T> {
    inner: T,
    cut: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    part: Part,
}

impl<T> Woken<T> {
    fn new(node: &Node, inner: T) -> Self {
        Self { inner, cut: Some(Box::pin(node.phases.cutting.turned())), part: Part::new() }
    }

    fn listen(&mut self, cx: &Context<'_>) {
        let Self { cut, part, .. } = self;
        if let Some(turned) = cut
            && part.poll(cx, |cx| turned.as_mut().poll(cx)).is_ready()
        {
            *cut = None;
        }
    }
}

impl<T: Future + Unpin> Future for Woken<T> {
    type Output = T::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T::Output> {
        self.listen(cx);
        Pin::new(&mut self.inner).poll(cx)
    }
}

impl http_body::Body for Woken<data::Body> {
    type Data = Bytes;
    type Error = <data::Body as http_body::Body>::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.listen(cx);
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
