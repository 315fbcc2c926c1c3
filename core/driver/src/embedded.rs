//! The data plane on connections that are not ours: inside somebody else's application.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use appproxy_core::access::address::Peer;
use appproxy_core::exchange::Connection;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};

use crate::body::Coming;
use crate::data;
use crate::node::Node;
use crate::pace::Pace;
use crate::part::Part;
use crate::plane::{Answered, Arrival};
use crate::runtime::Runtime;
use crate::start::Running;
use crate::switch::Turned;

/// The data plane of a worker that runs, for requests that somebody else's server took. WebSockets need our own listeners.
#[derive(Clone)]
pub struct Embedded<R: Runtime>(Arc<Node<R>>);

impl<R: Runtime> Running<R> {
    /// The data plane as a service of somebody else's application.
    #[must_use]
    pub fn embedded(&self) -> Embedded<R> {
        Embedded(self.node.clone())
    }
}

impl<R: Runtime> Embedded<R> {
    /// Answers one request. `from`: all we know of its connection; a request without an address is refused by every address
    /// list.
    pub async fn answer<B: Coming>(
        &self,
        request: Request<B>,
        from: Option<SocketAddr>,
    ) -> Response<impl Body<Data = Bytes, Error = Box<dyn Error + Send + Sync>> + Send + 'static> {
        let Self(node) = self;
        let connection = Connection::new(from.map_or(Peer::Unix, |address| Peer::Ip(address.ip())), false);
        let arrival = Arrival { connection, pace: Pace::start(node.clock), at: Instant::now() };
        let answer: Answered<R> = Box::pin(data::handle(node.clone(), request, arrival));
        Woken::new(node, answer).await.map(|body| Woken::new(node, body))
    }
}

impl<R: Runtime> core::fmt::Debug for Embedded<R> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Embedded").finish_non_exhaustive()
    }
}

/// What is woken when running requests are cut, as a connection of ours would be.
struct Woken<T> {
    inner: T,
    cut: Option<Turned>,
    part: Part,
}

impl<T> Woken<T> {
    fn new<R: Runtime>(node: &Node<R>, inner: T) -> Self {
        Self { inner, cut: Some(node.phases.cutting.turned()), part: Part::new() }
    }

    fn listen(&mut self, cx: &Context<'_>) {
        let Self { cut, part, .. } = self;
        if let Some(turned) = cut
            && part.poll(cx, |cx| Pin::new(&mut *turned).poll(cx)).is_ready()
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

impl<B: Body + Unpin> Body for Woken<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
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
