//! Connections to replicas that remember whether they have served before: one that has may prove closed.

use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll};
use std::io;
use std::sync::Arc;

use http::{Extensions, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tower_service::Service;

/// Whether an answer came over this connection before.
#[derive(Debug, Clone, Default)]
pub(crate) struct Served(Arc<AtomicBool>);

impl Served {
    /// An answer came.
    pub(crate) fn set(extensions: &Extensions) {
        if let Some(served) = extensions.get::<Self>() {
            served.0.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the connection of a failed request had served before.
    pub(crate) fn before(connected: &Connected) -> bool {
        let mut extensions = Extensions::new();
        connected.get_extras(&mut extensions);
        extensions.get::<Self>().is_some_and(|served| served.0.load(Ordering::Relaxed))
    }
}

/// Makes marked connections.
#[derive(Debug, Clone)]
pub(crate) struct Marking<C>(pub(crate) C);

impl<C> Service<Uri> for Marking<C>
where
    C: Service<Uri>,
    C::Future: Send + 'static,
    C::Response: 'static,
{
    type Response = Marked<C::Response>;
    type Error = C::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, C::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.0.call(uri);
        Box::pin(async move { Ok(Marked { stream: connecting.await?, served: Served::default() }) })
    }
}

/// A marked connection.
#[derive(Debug)]
pub(crate) struct Marked<S> {
    stream: S,
    served: Served,
}

impl<S: Connection> Connection for Marked<S> {
    fn connected(&self) -> Connected {
        self.stream.connected().extra(self.served.clone())
    }
}

impl<S: Read + Unpin> Read for Marked<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, to)
    }
}

impl<S: Write + Unpin> Write for Marked<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }
}
